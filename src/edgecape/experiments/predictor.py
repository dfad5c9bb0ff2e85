"""What the predictor of the graph is made of."""

from __future__ import annotations

from collections.abc import Sequence

from edgecape.evaluation.published import PREDICTOR_WITHOUT_IMAGE
from edgecape.experiments import figures, tables
from edgecape.experiments.arms import Arm
from edgecape.experiments.experiment import TRAINED, Experiment, Parts
from edgecape.experiments.lab import Condition, Lab
from edgecape.experiments.options import Options

KEYPOINTS_ONLY = {"predictor_sees_image": False}
USUAL, OPEN = "cosine", "cosine, open at the start"
NO_IMAGE, SDPNET = "cosine, without the image", "SDPNet-style"
ARMS = (
    Arm(USUAL, "edgecape"),
    Arm(OPEN, "edgecape", initialisation="open"),
    Arm("MLP", "edgecape", network={"residual": "mlp"}),
    Arm("attention", "edgecape", network={"residual": "attention"}),
    Arm(NO_IMAGE, "edgecape", network=KEYPOINTS_ONLY),
    Arm(SDPNET, "edgecape", network=KEYPOINTS_ONLY, phases={"graph_loss": "gcn"}),
)


def arms(options: Options) -> Sequence[Arm]:
    """Predictors of our decoder see keypoints alone in any case, and its edges cannot shut."""
    if options.regime != "ours":
        return ARMS
    return [arm for arm in ARMS if "predictor_sees_image" not in arm.network and arm.name != OPEN]


def run(lab: Lab) -> Parts:
    condition, compared_arms = Condition(lab.options.shots[0]), arms(lab.options)
    results = lab.measure(compared_arms, [condition])[condition]
    pairs = [(arm.name, USUAL) for arm in compared_arms[1:]]
    said = {(NO_IMAGE, USUAL): f"{PREDICTOR_WITHOUT_IMAGE:+.2f}"}
    compared = tables.difference_table("Differences to the paper's", results, pairs, said)
    group = {name: tables.value(seeds) for name, seeds in results.items()}
    drawn = figures.dots("predictors", "with 95 % intervals for other photos", {"mPCK@5": group}, "mPCK@5 (%)")
    notes = [
        f"{SDPNET}: keypoint features alone and an auxiliary GCN, with the drawn skeleton to begin with.",
        f"{OPEN}: c begins at 0.5; elsewhere at 0, as in the paper.",
    ]
    if lab.options.regime == "ours":
        notes = ["Here all predictors see keypoint features alone."]
    return Parts([tables.value_table("Predictors", results), compared], [drawn], tables.finding(compared), notes)


EXPERIMENT = Experiment(
    "predictor",
    "What should predict the graph?",
    f"Cosine of refined keypoints; without image features {PREDICTOR_WITHOUT_IMAGE:+.2f} mPCK.",
    run,
    arms,
    TRAINED,
)
