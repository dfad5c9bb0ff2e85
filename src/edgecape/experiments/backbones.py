"""The arms on other features: other layers of DINOv2-S, and other backbones where they can be had."""

from __future__ import annotations

from collections.abc import Sequence

from edgecape.evaluation.published import BACKBONES, SPLIT_1
from edgecape.evaluation.results import Result
from edgecape.experiments import figures, tables
from edgecape.experiments.arms import BOTH, FIXED, NONE, Arm
from edgecape.experiments.experiment import TRAINED, Experiment, Parts
from edgecape.experiments.lab import Condition, Lab
from edgecape.experiments.options import Options
from edgecape.experiments.section import Table
from edgecape.experiments.untrained import note
from edgecape.model.settings import BackboneSettings

ARMS = (NONE, FIXED, BOTH)
LAYERS = {"last layer": (-1,), "layers 8, 10 and 12": (8, 10, 12)}


def features(options: Options) -> dict[str, BackboneSettings]:
    own = options.network.backbone
    size = own.image_size
    found = {f"DINOv2-S, {name}": BackboneSettings(own.name, size, layers) for name, layers in LAYERS.items()}
    return found | {name: BackboneSettings(name, size) for name in options.backbones}


def arms(options: Options) -> Sequence[Arm]:
    """Trained on the data as it is: none of our decoder, which stands on another encoder for each backbone."""
    if options.regime == "ours":
        return []
    return [arm for group in grouped(options).values() for arm in group.values()]


def grouped(options: Options) -> dict[str, dict[str, Arm]]:
    """By backbone, then by the name of the arm there."""
    return {
        name: {arm.name: Arm(f"{name}: {arm.name}", arm.method, network={"backbone": backbone}) for arm in ARMS}
        for name, backbone in features(options).items()
    }


def run(lab: Lab) -> Parts:
    condition, groups = Condition(lab.options.shots[0]), grouped(lab.options)
    notes = ["SwinV2 needs a hub or a folder (--backbones); without one, only layers of DINOv2-S are compared"]
    notes += note(lab.options, "a trained encoder knows the features of one backbone only")
    if lab.options.regime == "ours":
        results = dict[str, Sequence[Result]]()
        for name, backbone in features(lab.options).items():
            found = lab.on(lab.train, lab.measured, backbone).measure(ARMS, [condition])[condition]
            results |= {groups[name][arm].name: found[arm] for arm in found}
    else:
        results = dict(lab.measure(arms(lab.options), [condition])[condition])
    drawn = {
        backbone: {name: tables.value(results[arm.name]) for name, arm in group.items()}
        for backbone, group in groups.items()
    }
    pairs = [(group[BOTH.name].name, group[NONE.name].name) for group in groups.values()]
    compared = tables.difference_table("EdgeCape − CapeFormer", results, pairs)
    published = Table(
        f"Published ({SPLIT_1})",
        ("arm", "PCK@0.1", "mPCK@5"),
        tuple(
            (f"{name}: {arm}", *(f"{number:.2f}" for number in numbers))
            for name, rows in BACKBONES.items()
            for arm, numbers in rows.items()
        ),
    )
    measured = tables.value_table("Features", results, ("PCK@0.1", "PCK@0.2", "mPCK@5"))
    caption = "mPCK@5 with 95 % intervals for other photos"
    figure = figures.dots("features", caption, drawn, "mPCK@5 (%)")
    return Parts([measured, compared, published], [figure], tables.finding(compared), notes)


EXPERIMENT = Experiment(
    "backbones",
    "Does it depend on the features?",
    "EdgeCape is above GraphCape and CapeFormer on SwinV2 and on DINOv2.",
    run,
    arms,
    TRAINED,
)
