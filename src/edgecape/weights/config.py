"""config.json of a saved model: settings as plain values, with an explicit upgrade of the first format.

{"format": 2, "backbone": {…, "fingerprint": …}, "network": {the paper's settings}, "matching": {ours} or null,
 "calibration": {…} or null, "training": {…}}
"""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from edgecape.errors import SettingsError
from edgecape.matching.settings import LoraSettings, MatchingSettings, RereadingSettings, ViewSettings, VotingSettings
from edgecape.model.settings import BackboneSettings, NetworkSettings

FORMAT = 2
LARGEST = 1_000_000  # number among settings; nan is not below it
NESTED = {"lora": LoraSettings, "voting": VotingSettings, "views": ViewSettings, "rereading": RereadingSettings}
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class ModelConfig:
    """All that is known of a model besides its tensors."""

    network: NetworkSettings
    matching: MatchingSettings | None = None
    backbone_fingerprint: str | None = None  # of the backbone the head was trained on
    calibration: dict[str, Any] | None = None
    training: dict[str, Any] = field(default_factory=dict)  # how it came about

    def to_dict(self) -> dict[str, Any]:
        network = asdict(self.network)
        return {
            "format": FORMAT,
            "backbone": network.pop("backbone") | {"fingerprint": self.backbone_fingerprint},
            "network": network,
            "matching": None if self.matching is None else asdict(self.matching),
            "calibration": self.calibration,
            "training": self.training,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> ModelConfig:
        backbone, matching = dict(content["backbone"]), content["matching"]
        fingerprint, training = backbone.pop("fingerprint", None), content.get("training", {})
        if not isinstance(fingerprint, str | None) or not isinstance(training, dict):
            raise SettingsError("the fingerprint of the backbone is a text, and what is told of the training a table")
        network = _settings(NetworkSettings, content["network"])
        return cls(
            replace(network, backbone=_settings(BackboneSettings, backbone)),
            None if matching is None else _settings(MatchingSettings, matching),
            fingerprint,
            content.get("calibration"),
            training,
        )

    def identity(self) -> str:
        """Hash of the settings that a prediction depends on. A setting at its default is left out, so that a later
        version that adds one keeps the prompts of today's models."""
        content = self.to_dict()
        told = {
            "backbone": _changed(content["backbone"], asdict(BackboneSettings())),
            "network": _changed(content["network"], asdict(NetworkSettings())),
            "matching": content["matching"] and _changed(content["matching"], asdict(MatchingSettings())),
        }
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _settings(kind: type[Kind], values: Any) -> Kind:
    """A settings dataclass from plain values; an unknown name, or a value of another kind, is an error."""
    assert is_dataclass(kind)
    if not isinstance(values, dict):
        raise SettingsError(f"settings are a table of names and values, got {reprlib.repr(values)}")
    hints = get_type_hints(kind)
    found = {}
    for name, value in values.items():
        if name not in hints:
            raise SettingsError(f"unknown setting {reprlib.repr(name)}; was the model saved by a newer version?")
        if name in NESTED and value is not None:
            value = _settings(NESTED[name], value)
        value = tuple(value) if isinstance(value, list) else value  # JSON knows no tuples
        if not _suits(value, hints[name]):
            raise SettingsError(f"setting '{name}' cannot be {reprlib.repr(value)}")
        found[name] = value
    return kind(**found)


def _suits(value: Any, kind: Any) -> bool:
    """Whether a value is of the kind that a setting has; numbers that no model can have are of none."""
    kinds = get_args(kind)
    if get_origin(kind) is UnionType:
        return any(_suits(value, one) for one in kinds)
    if get_origin(kind) is Literal:
        return value in kinds
    if get_origin(kind) is tuple:
        kinds = kinds[:1] * len(value) if kinds[-1] is Ellipsis and isinstance(value, tuple) else kinds
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(_suits, value, kinds))
    if kind in (int, float):
        return type(value) in (int, kind) and abs(value) <= LARGEST
    return type(value) is kind


def _changed(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """What differs from the defaults, at any depth."""
    found = {}
    for name, value in values.items():
        default = defaults.get(name)
        if isinstance(value, dict) and isinstance(default, dict):
            value, default = _changed(value, default), {}
        if value != default:
            found[name] = value
    return found


# --- format 1: one table of settings, in which ours stood among the paper's -----------------------------------

RENAMED_TENSORS = {"adapter.": "lora.", "proposal_generator.direct": "direct"}
# What were constants of the code when format 1 was written, as numbers: never read from today's defaults.
CONSTANTS_1: dict[str, Any] = {
    "logit_scale": 20.0,
    "voting": {
        "rounds": 2,
        "similarity_scale": 1.5,
        "sigma_range": (0.08, 0.25),
        "ridge": 0.005,
        "heatmap_scale": 0.3,
        "near": (0.1, 0.05),
    },
    "views": {
        "fit_weights": (1.0, -1.0, -1.0),
        "mirror_margin": 1.5,
        "mirror_softness": 2.0,
        "turn_margin": 3.0,
        "auto_margin": 1.25,
        "auto_fit": 17.5,
        "asymmetry": 0.3,
    },
}


def upgrade(content: dict[str, Any]) -> dict[str, Any]:
    """A configuration of format 1 as one of format 2."""
    content = dict(content)
    assert content.pop("format") == 1
    settings = dict(content.pop("settings"))
    backbone = dict(settings.pop("backbone", {}))

    def switches(**names: str) -> dict[str, Any]:
        return {new: settings.pop(old, False) for new, old in names.items()}

    lora = {"blocks": backbone.pop("adapted", 0), "rank": backbone.pop("rank", 16)}
    top = switches(centre="centred", layout="layout", direct_cosine="direct_match")
    views = switches(mirror="mirror", mirror_query="mirror_query", quarter_turns="turned")
    scales = tuple(settings.pop("looks", (1.0,)))
    votes = settings.pop("consistency", False)
    published = not any((*top.values(), *views.values(), votes, lora["blocks"])) and scales == (1.0,)
    matching = {
        **top,
        "logit_scale": CONSTANTS_1["logit_scale"],
        "lora": lora,
        "voting": CONSTANTS_1["voting"] | ({} if votes else {"rounds": 0}),
        "views": {**views, "scales": scales, **CONSTANTS_1["views"]},
    }
    return {
        "format": FORMAT,
        "backbone": backbone | {"fingerprint": content.pop("backbone_fingerprint", None)},
        "network": settings,
        "matching": None if published else matching,
        "calibration": content.pop("calibration", None),
        "training": content.pop("trained", {}) | content,  # and where it was converted from
    }


def upgrade_names(names: Iterable[str]) -> dict[str, str]:
    """Tensors of format 1: old name → new name; no two may meet."""
    table = {}
    for name in names:
        old = next((old for old in RENAMED_TENSORS if name.startswith(old)), "")
        table[name] = RENAMED_TENSORS.get(old, "") + name.removeprefix(old)
    assert len(set(table.values())) == len(table)
    return table
