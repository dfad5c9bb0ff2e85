"""Arms: what is compared. Each is a method by name and what is changed of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from edgecape.errors import SettingsError
from edgecape.experiments.options import Options
from edgecape.model.presets import Preset, preset


@dataclass(frozen=True, eq=False)
class Arm:
    name: str
    method: str
    network: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the network."""
    phases: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the phases that learn to predict a graph."""
    initialisation: Literal["reference", "open"] = "reference"
    """Of the graph's predictor."""
    part: float = 1.0
    """Share of its training, from the beginning."""

    @property
    def preset(self) -> Preset:
        return preset(self.method)


NONE, FIXED = Arm("none", "capeformer"), Arm("fixed", "graphcape")
PREDICTED, BOTH = Arm("predicted", "edgecape-no-bias"), Arm("predicted + bias", "edgecape")
FIXED_BIAS = Arm("fixed + bias", "graphcape-bias")


def main_arms(options: Options) -> tuple[Arm, ...]:
    """CapeFormer-style, GraphCape-style and EdgeCape, and what else was asked for. A model that is told less has no arm
    with another bias than its own."""
    arms = (NONE, FIXED, PREDICTED if options.regime == "told" else BOTH)
    return (*arms, *more_arms(options))


def more_arms(options: Options) -> tuple[Arm, ...]:
    for name in options.methods:
        preset(name)
    return tuple(Arm(name, name) for name in options.methods)


OURS = {"hops", "residual"}  # what arms may change in the network of our decoder


def check_ours(arm: Arm) -> None:
    """Arms of our decoder stand on one encoder and learn from the same episodes, and their predictor sees keypoints
    alone."""
    wanted = arm.preset
    changed = set(arm.network) - OURS or arm.initialisation != "reference"
    if changed or wanted.network or wanted.between or not wanted.decodes:
        raise SettingsError(f"arm '{arm.name}' is one of the published network; take --regime published")
