"""Saving and loading models: a folder with `config.json` and `model.safetensors` (the head), maybe the backbone."""

from __future__ import annotations

import json
import os
import re
import reprlib
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from edgecape.errors import SettingsError, WeightsError
from edgecape.io.files import atomic_write, read_json
from edgecape.matching.network import build_network
from edgecape.model.network import Network
from edgecape.weights.backbones import hub_reachable
from edgecape.weights.config import FORMAT, ModelConfig, upgrade, upgrade_names
from edgecape.weights.tensors import check_tensors

CONFIG, HEAD, BACKBONE = "config.json", "model.safetensors", "backbone.safetensors"
DEFAULT_MODEL = Path(__file__).parents[1] / "pretrained"  # ships with the package
HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")  # owner/name


class Stored(NamedTuple):
    config: ModelConfig
    head: dict[str, Tensor]
    backbone: dict[str, Tensor] | None  # None: comes from elsewhere

    def network(self) -> Network:
        settings, matching = self.config.network, self.config.matching
        layers = settings.encoder_layers + settings.decoder_layers + settings.predictor_layers
        if layers > len(self.head):  # known without building them
            raise WeightsError(f"the weights do not fit {layers} layers: they are {len(self.head)} tensors")
        check_tensors(lambda: build_network(settings, matching), self.head)
        network = build_network(settings, matching)
        network.load_state_dict(self.head)
        return network


def save_model(
    folder: str | os.PathLike[str],
    config: ModelConfig,
    head: dict[str, Tensor],
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
    with atomic_write(folder / CONFIG, "w") as file:  # last: a folder with a config is complete
        json.dump(config.to_dict(), file, indent=1)


def load_model(folder: str | os.PathLike[str]) -> Stored:
    """A saved model, also of the first format."""
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise WeightsError(f"{folder} is no saved model: it has no {CONFIG}")
    content = read_json(folder / CONFIG)
    try:
        version = content["format"]
        if version not in (1, FORMAT):
            reads = f"this version of edgecape reads 1 to {FORMAT}; update edgecape"
            raise WeightsError(f"{folder} is of format {reprlib.repr(version)}, {reads}")
        config = ModelConfig.from_dict(upgrade(content) if version == 1 else content)
    except SettingsError as error:
        raise WeightsError(f"{folder / CONFIG}: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError, RecursionError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else error
        raise WeightsError(f"{folder / CONFIG} is damaged: {what}") from error
    head = _read(folder / HEAD)
    if head is None:
        raise WeightsError(f"{folder} is no saved model: it has no {HEAD}")
    if version == 1:
        head = {new: head[old] for old, new in upgrade_names(head).items()}
    return Stored(config, head, _read(folder / BACKBONE))


def _read(path: Path) -> dict[str, Tensor] | None:
    """The tensors of a file, None if there is none."""
    from safetensors.torch import load_file

    if not path.is_file():
        return None
    try:
        return {name: tensor.float() for name, tensor in load_file(path).items()}
    except Exception as error:  # safetensors raises its own kinds and OSError
        raise WeightsError(f"{path} is damaged: {error}") from error


def find_model(source: str | os.PathLike[str] | None) -> Path:
    """The folder of the default model, of a saved one, or of one from the hub."""
    path = DEFAULT_MODEL if source is None else Path(source)
    if path.is_dir():
        return path
    if path.exists() or not HUB_ID.fullmatch(str(source)):
        raise WeightsError(
            f"there is no model at '{source}'; give a folder, a hub id (owner/name) or a .pth checkpoint"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(str(source), local_files_only=not hub_reachable()))
    except Exception as error:  # the hub client raises many kinds
        raise WeightsError(f"model '{source}' is neither a local folder nor to be had from the hub: {error}") from error
