"""Saving and loading models: a folder with `config.json` and `model.safetensors` (the head), maybe the backbone."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgecape.errors import SettingsError, WeightsError
from edgecape.io.files import atomic_write
from edgecape.model.settings import BackboneSettings, NetworkSettings

FORMAT = 1
CONFIG, HEAD, BACKBONE = "config.json", "model.safetensors", "backbone.safetensors"


class Stored(NamedTuple):
    settings: NetworkSettings
    head: dict[str, Tensor]
    backbone: dict[str, Tensor] | None  # None: comes from elsewhere
    facts: dict[str, Any]  # fingerprint of the backbone, calibration, how it was trained


def settings_from_dict(values: dict[str, Any]) -> NetworkSettings:
    """Settings as `dataclasses.asdict` wrote them; an unknown name is an error."""
    values = dict(values)
    backbone = dict(values.pop("backbone", {}))
    for kind, given in ((NetworkSettings, values), (BackboneSettings, backbone)):
        unknown = set(given) - {field.name for field in fields(kind)}
        if unknown:
            raise SettingsError(f"unknown setting '{min(unknown)}'; was the model saved by a newer version?")
    for given in (values, backbone):  # JSON knows no tuples
        given |= {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    return NetworkSettings(**values, backbone=BackboneSettings(**backbone))


def save_model(
    folder: str | os.PathLike[str],
    settings: NetworkSettings,
    head: dict[str, Tensor],
    facts: dict[str, Any],
    backbone: dict[str, Tensor] | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    from safetensors.torch import save

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {HEAD: {name: tensor.to(dtype) for name, tensor in head.items()}}
    if backbone is not None:
        tensors[BACKBONE] = backbone
    for name, state in tensors.items():
        with atomic_write(folder / name, "wb") as file:
            file.write(save({key: tensor.detach().cpu().contiguous() for key, tensor in state.items()}))
    config = {"format": FORMAT, "settings": asdict(settings), **facts}
    with atomic_write(folder / CONFIG, "w") as file:  # last: a folder with a config is complete
        json.dump(config, file, indent=1)


def load_model(folder: str | os.PathLike[str]) -> Stored:
    from safetensors.torch import load_file

    folder = Path(folder)
    try:
        config = json.loads((folder / CONFIG).read_text())
        version, settings = config.pop("format"), settings_from_dict(config.pop("settings"))
    except FileNotFoundError:
        raise WeightsError(f"{folder} is no saved model: it has no {CONFIG}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WeightsError(f"{folder / CONFIG} is damaged: {error}") from error
    if version != FORMAT:
        raise WeightsError(f"{folder} is of format {version}, this version of edgecape reads {FORMAT}; update edgecape")
    states: dict[str, dict[str, Tensor]] = {}
    for name in (HEAD, BACKBONE):
        if not (folder / name).is_file():
            continue
        try:
            states[name] = {key: tensor.float() for key, tensor in load_file(folder / name).items()}
        except Exception as error:  # safetensors raises its own kinds and OSError
            raise WeightsError(f"{folder / name} is damaged: {error}") from error
    if HEAD not in states:
        raise WeightsError(f"{folder} is no saved model: it has no {HEAD}")
    return Stored(settings, states[HEAD], states.get(BACKBONE), config)
