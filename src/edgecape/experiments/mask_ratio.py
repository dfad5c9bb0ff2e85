"""How many keypoints are hidden while the graph learns."""

from __future__ import annotations

from edgecape.experiments import figures, tables
from edgecape.experiments.arms import BOTH, Arm
from edgecape.experiments.experiment import TRAINED, Experiment, Parts
from edgecape.experiments.lab import Condition, Lab

RATIOS = (0.0, 0.2, 0.4, 0.5, 0.6, 0.8)
USUAL = 0.5
ARMS = {ratio: Arm(f"{ratio:.0%} hidden", "edgecape", phases={"mask_ratio": ratio}) for ratio in RATIOS}


def run(lab: Lab) -> Parts:
    condition = Condition(lab.options.shots[0])
    results = lab.measure(list(ARMS.values()), [condition])[condition]
    usual = ARMS[USUAL].name
    pairs = [(arm.name, usual) for arm in ARMS.values() if arm.name != usual]
    compared = tables.difference_table("Differences to one half", results, pairs)
    line = {BOTH.name: [tables.value(results[arm.name]) for arm in ARMS.values()]}
    caption = "Share of usable keypoints that L_adj hides, in the stage that learns the graph."
    labels = ("hidden keypoints (%)", "mPCK@5 (%)")
    drawn = figures.curves(
        "mPCK against the share of hidden keypoints", caption, [100 * r for r in RATIOS], line, labels
    )
    return Parts(
        [tables.value_table("Share of hidden keypoints", results), compared], [drawn], tables.finding(compared)
    )


EXPERIMENT = Experiment(
    "mask-ratio",
    "How many keypoints should be hidden while the graph learns?",
    "One half (the paper's text); the released code hides 30 %.",
    run,
    lambda options: list(ARMS.values()),
    TRAINED,
)
