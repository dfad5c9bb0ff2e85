"""What decoder self-attention is told of the graph: nothing, shortest paths, or walks of up to some hops."""

from __future__ import annotations

from edgecape.evaluation.published import COMPONENTS, SHORTEST_PATH_BIAS
from edgecape.experiments import figures, tables
from edgecape.experiments.arms import PREDICTED, Arm
from edgecape.experiments.experiment import TRAINED, Experiment, Parts
from edgecape.experiments.lab import Condition, Lab

HOPS = (1, 2, 3, 4, 5, 6)
USUAL = 4
NO_BIAS, SHORTEST = Arm("no bias", PREDICTED.method), Arm("shortest path", "graphormer-bias")
MARKOV = {hops: Arm(f"Markov, {hops} hop{'s' if hops > 1 else ''}", "edgecape", {"hops": hops}) for hops in HOPS}
ARMS = (NO_BIAS, SHORTEST, *MARKOV.values())


def run(lab: Lab) -> Parts:
    condition = Condition(lab.options.shots[0])
    results = lab.measure(ARMS, [condition])[condition]
    pairs = [(arm.name, NO_BIAS.name) for arm in ARMS[1:]]
    gained = COMPONENTS["predicted + bias"] - COMPONENTS["predicted"]
    said = {
        (SHORTEST.name, NO_BIAS.name): f"about {SHORTEST_PATH_BIAS:+.1f}",
        (MARKOV[USUAL].name, NO_BIAS.name): f"{gained:+.2f}",
    }
    compared = tables.difference_table("Differences to no bias", results, pairs, said)
    line = {"predicted + bias": [tables.value(results[arm.name]) for arm in MARKOV.values()]}
    levels = {arm.name: tables.value(results[arm.name]).mean for arm in (NO_BIAS, SHORTEST)}
    caption = "Highest power of Ã that the Markov bias sees."
    drawn = figures.curves("mPCK against hops", caption, HOPS, line, ("hops", "mPCK@5 (%)"), levels)
    return Parts([tables.value_table("Structural bias", results), compared], [drawn], tables.finding(compared))


EXPERIMENT = Experiment(
    "bias",
    "Which structural bias?",
    f"Markov, 4 hops: {COMPONENTS['predicted']} → {COMPONENTS['predicted + bias']}; shortest paths about +0.5 mPCK.",
    run,
    lambda options: ARMS,
    TRAINED,
)
