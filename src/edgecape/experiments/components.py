"""2 × 2: the graph as drawn or predicted, without and with the Markov bias."""

from __future__ import annotations

from edgecape.evaluation import published
from edgecape.experiments import figures, tables
from edgecape.experiments.arms import BOTH, FIXED, FIXED_BIAS, PREDICTED
from edgecape.experiments.experiment import TRAINED, Experiment, Parts
from edgecape.experiments.lab import Condition, Lab

ARMS = (FIXED, FIXED_BIAS, PREDICTED, BOTH)
PAIRS = (
    ("fixed + bias", "fixed"),
    ("predicted", "fixed"),
    ("predicted + bias", "fixed"),
    ("predicted + bias", "fixed + bias"),
    ("predicted + bias", "predicted"),
)


def run(lab: Lab) -> Parts:
    condition = Condition(lab.options.shots[0])
    results = lab.measure(ARMS, [condition])[condition]
    said = {(a, b): f"{published.COMPONENTS[a] - published.COMPONENTS[b]:+.2f}" for a, b in PAIRS}
    shown = {name: f"{number:.2f}" for name, number in published.COMPONENTS.items()}
    measured = tables.value_table("Components", results)
    measured = tables.beside(measured, f"published mPCK ({published.SPLIT_1})", shown)
    compared = tables.difference_table("Differences", results, PAIRS, said)
    groups = {
        graph: {arm.name: tables.value(results[arm.name]) for arm in ARMS if arm.preset.graph == graph}
        for graph in ("fixed", "predicted")
    }
    drawn = figures.dots("graph × bias", "mPCK@5 with 95 % intervals for other photos", groups, "mPCK@5 (%)")
    return Parts([measured, compared], [drawn], tables.finding(compared))


EXPERIMENT = Experiment(
    "components",
    "What is the predicted graph worth, and what the Markov bias?",
    "Neither 79.87, bias 80.78, predicted graph 80.76, both 81.96: each helps, and they add up.",
    run,
    lambda options: ARMS,
    TRAINED,
)
