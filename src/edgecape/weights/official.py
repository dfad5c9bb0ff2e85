"""Official EdgeCape and GraphCape checkpoints → this project's names.

Every official key is mapped by the tables of official.txt or listed as dead; a key that is neither, or one that is
missing, is an error that names it. Files are read with `weights_only`, so nothing in them is ever executed.
"""

from __future__ import annotations

import os
import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from edgecape.errors import WeightsError
from edgecape.model import presets
from edgecape.model.network import Network
from edgecape.model.settings import NetworkSettings
from edgecape.weights.tensors import check_tensors

EDGECAPE_PREFIX = "keypoint_head_module."
GRAPHCAPE_PREFIX = "keypoint_head."

SWINV2_TINY_DEPTHS = (2, 2, 6, 2)

# Stored in EdgeCape checkpoints but used by no forward pass of the released model.
DEAD_KEYS = tuple(
    f"skeleton_head.{name}.{kind}" for name in ("k_proj", "q_proj", "mh_linear") for kind in ("weight", "bias")
)

_SECTIONS = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("\n\n")[1:]  # first, a remark
TABLES = {title.strip("[]"): [line.split() for line in lines] for title, *lines in map(str.splitlines, _SECTIONS)}


def _table(title: str, ours: str = "", theirs: str = "") -> dict[str, str]:
    """A section of official.txt, of modules whose names begin with `ours` and `theirs`."""
    pairs, kinds = TABLES[title], ("weight", "bias")
    return {
        ours + mine.replace("*", kind): theirs + their.replace("*", kind) for mine, their in pairs for kind in kinds
    }


def key_table(settings: NetworkSettings, mask_token: bool = True) -> dict[str, str]:
    """Our parameter → official key (without its prefix), or key[part] of a stacked tensor."""
    table = _table("head")
    for layer in range(settings.encoder_layers):
        table |= _table("encoder layer", f"encoder.layers.{layer}.", f"transformer.encoder.layers.{layer}.")
    attention = "biased self-attention" if settings.bias == "markov" else "plain self-attention"
    for layer in range(settings.decoder_layers):
        for title in ("decoder layer", attention):
            table |= _table(title, f"decoder.layers.{layer}.", f"transformer.decoder.layers.{layer}.")
        table |= _table("step", f"decoder.steps.{layer}.", f"kpt_branch.{layer}.mlp.")
    if mask_token:
        table["mask_token"] = "transformer.mask_token"
    if settings.graph == "predicted":
        for layer in range(settings.predictor_layers):
            ours, theirs = f"pose_graph.layers.{layer}.", f"skeleton_head.skeleton_predictor.{layer}."
            table |= _table("predictor layer", ours, theirs)
        table |= _table("pose graph")
    return table


def convert_head(official: dict[str, Tensor], settings: NetworkSettings) -> dict[str, Tensor]:
    """Head tensors under official names (prefix removed) → state of our `Network`."""
    table = key_table(settings, mask_token="transformer.mask_token" in official)
    state = {ours: _take(official, source, ours) for ours, source in table.items()}
    state.setdefault("mask_token", torch.zeros(1, settings.width))  # GraphCape has none
    # A phase-1 checkpoint stores the predictor it does not use yet.
    known = {_key(source) for source in (table | key_table(replace(settings, graph="predicted"))).values()}
    _refuse_left_over(set(official) - known - set(DEAD_KEYS))
    return state


def _key(source: str) -> str:
    return source.partition("[")[0]


def _take(official: dict[str, Tensor], source: str, ours: str) -> Tensor:
    """The tensor of a table entry: whole, or one part of a stacked one."""
    key, _, part = source.partition("[")
    if key not in official:
        raise WeightsError(f"the checkpoint lacks '{key}', which {ours} needs; is it complete?")
    tensor = official[key].float()
    if part:
        tensor = tensor.chunk(2 if ".ffn1." in key else 3)[int(part[:-1])]
    if ".ffn1." in key and tensor.dim() == 3:
        tensor = tensor[..., 0]  # a convolution of width 1 is a linear map
    elif ".zero_conv." in key:
        tensor = tensor.flatten()
    return tensor.contiguous()


def _refuse_left_over(keys: set[str]) -> None:
    if keys:
        raise WeightsError(f"the checkpoint holds {len(keys)} unknown keys, the first is '{min(keys)}'")


# --- backbones ---------------------------------------------------------------------------------------------------


def _dinov2_table(layers: int) -> dict[str, str]:
    table = _table("dinov2")
    for layer in range(layers):
        table |= _table("dinov2 block", f"encoder.layer.{layer}.", f"blocks.{layer}.")
    return table


def _swinv2_table(depths: tuple[int, ...]) -> dict[str, str]:
    table = _table("swinv2")
    for stage, depth in enumerate(depths):
        for block in range(depth):
            theirs = f"layers.{stage}.blocks.{block}."
            table |= _table("swinv2 block", f"encoder.{theirs}", theirs)
        if stage < len(depths) - 1:
            theirs = f"layers.{stage}.downsample."
            table |= _table("swinv2 downsample", f"encoder.{theirs}", theirs)
    return table


# Constants that are computed anew, and the classifier.
SWINV2_DEAD = {"head.weight", "head.bias"} | {
    f"layers.{stage}.blocks.{block}.{name}"
    for stage, depth in enumerate(SWINV2_TINY_DEPTHS)
    for block in range(depth)
    for name in ("attn_mask", "attn.relative_coords_table", "attn.relative_position_index")
}


def _convert_backbone(official: dict[str, Tensor], table: dict[str, str], dead: set[str]) -> dict[str, Tensor]:
    _refuse_left_over(set(official) - {_key(source) for source in table.values()} - dead)
    return {ours: _take(official, source, ours) for ours, source in table.items()}


# --- whole checkpoints -------------------------------------------------------------------------------------------


class Official(NamedTuple):
    settings: NetworkSettings
    head: dict[str, Tensor]  # state of our Network
    backbone: dict[str, Tensor]  # under the names of hub checkpoints


def read_official(path: str | os.PathLike[str], phase: int | None = None) -> Official:
    """An official EdgeCape (phase 1, 2 or 3) or GraphCape checkpoint.

    phase: needed only where a file does not say it: phases 1 and 2 hold the same keys.
    """
    content = _load_tensors(Path(path))
    meta = content.get("meta") if isinstance(content.get("meta"), dict) else {}
    official = content.get("state_dict", content)
    if not isinstance(official, dict) or not official or not all(map(_is_tensor, official.items())):
        raise WeightsError(f"{path} holds no table of tensors; is it a checkpoint?")
    if any(".probe." in key or key.startswith("probe.") or ".vit." in key for key in official):
        raise WeightsError(
            f"{path} is of the 2024 pre-ICLR model (DPT probes, 256 px), which this project does not support; "
            "use a checkpoint of the ICLR 2026 release"
        )
    if any(key.startswith(EDGECAPE_PREFIX) for key in official):
        found = _edgecape(official, str((meta or {}).get("config", "")), phase, str(path))
    elif any(key.startswith(GRAPHCAPE_PREFIX) for key in official):
        found = _graphcape(official)
    else:
        first = min(official)
        raise WeightsError(f"{path} is neither an EdgeCape nor a GraphCape checkpoint; its first key is '{first}'")
    check_tensors(lambda: Network(found.settings), found.head)
    return found


def _is_tensor(entry: tuple[Any, Any]) -> bool:
    return isinstance(entry[0], str) and isinstance(entry[1], Tensor)


def _load_tensors(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise WeightsError(f"checkpoint {path} does not exist")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise WeightsError(
            f"{path} holds more than tensors and is refused, because loading it would run code from the file; "
            "if you trust it, save its 'state_dict' alone where it was made"
        ) from error
    except Exception as error:  # a damaged zip archive raises many kinds
        raise WeightsError(f"{path} is not a readable checkpoint: {error}") from error
    if not isinstance(content, dict):
        raise WeightsError(f"{path} holds a {type(content).__name__}, not a checkpoint")
    return content


def _part(official: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in official.items() if key.startswith(prefix)}


def _depth(official: dict[str, Tensor], prefix: str) -> int:
    """How many layers there are; one without a number is found by its name, as unknown."""
    numbers = {key.split(".")[0] for key in _part(official, prefix)}
    return sum(number.isdigit() for number in numbers)


def _sizes(head: dict[str, Tensor]) -> dict[str, Any]:
    """Widths and depths as the tensors have them."""
    for key in ("input_proj.weight", "transformer.encoder.layers.0.linear1.weight"):
        if key not in head or head[key].dim() < 2:
            raise WeightsError(f"the checkpoint lacks '{key}', or it is no matrix; is it complete?")
    return {
        "width": head["input_proj.weight"].shape[0],
        "channels": head["input_proj.weight"].shape[1],
        "ffn": head["transformer.encoder.layers.0.linear1.weight"].shape[0],
        "encoder_layers": _depth(head, "transformer.encoder.layers."),
        "decoder_layers": _depth(head, "transformer.decoder.layers."),
    }


def _edgecape(official: dict[str, Tensor], config: str, phase: int | None, path: str) -> Official:
    head = _part(official, EDGECAPE_PREFIX)
    markov = head.get("transformer.decoder.layers.0.self_attn.markov_structural_mlp.0.weight")
    found: Literal[1, 2, 3]
    if markov is not None:
        found = 3
    elif "learn_skeleton" in config:
        found = 2 if re.search(r"learn_skeleton['\"]?\s*[=:]\s*True", config) else 1
    elif phase in (1, 2):
        found = 1 if phase == 1 else 2
    else:
        raise WeightsError(f"{path} does not say whether it is of phase 1 or 2; say it with phase=1 or phase=2")
    if phase is not None and phase != found:
        raise WeightsError(f"{path} is a checkpoint of phase {found}, not {phase}")
    hops = 4 if markov is None else markov.shape[1] - 1
    settings = replace(presets.released_edgecape(found), hops=hops, **_sizes(head))
    support, query = (_part(official, f"encoder_{side}.") for side in ("sample", "query"))
    if support.keys() != query.keys() or any(not torch.equal(support[key], query[key]) for key in support):
        raise WeightsError(f"{path} has different backbones for support and query; the released model has one")
    _refuse_left_over({key for key in official if not key.startswith((EDGECAPE_PREFIX, "encoder_"))})
    backbone = _convert_backbone(query, _dinov2_table(_depth(query, "blocks.")), {"mask_token"})
    return Official(settings, convert_head(head, settings), backbone)


def _graphcape(official: dict[str, Tensor]) -> Official:
    head, backbone = _part(official, GRAPHCAPE_PREFIX), _part(official, "backbone.")
    settings = replace(presets.released_graphcape(), **_sizes(head))
    _refuse_left_over({key for key in official if not key.startswith((GRAPHCAPE_PREFIX, "backbone."))})
    converted = _convert_backbone(backbone, _swinv2_table(SWINV2_TINY_DEPTHS), SWINV2_DEAD)
    return Official(settings, convert_head(head, settings), converted)
