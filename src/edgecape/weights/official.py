"""Official EdgeCape and GraphCape checkpoints → this project's names.

Every official key is mapped by the tables below or listed as dead; a key that is neither, or one that is
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
from edgecape.model.settings import NetworkSettings

EDGECAPE_PREFIX = "keypoint_head_module."
GRAPHCAPE_PREFIX = "keypoint_head."

SWINV2_TINY_DEPTHS = (2, 2, 6, 2)

# Stored in EdgeCape checkpoints but used by no forward pass of the released model.
DEAD_KEYS = tuple(
    f"skeleton_head.{name}.{kind}" for name in ("k_proj", "q_proj", "mh_linear") for kind in ("weight", "bias")
)


def _linear(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.{kind}": f"{theirs}.{kind}" for kind in ("weight", "bias")}


def _attention(ours: str, theirs: str, stacked: bool = True) -> dict[str, str]:
    """`nn.MultiheadAttention` with q, k, v stacked in one matrix; a part of a stacked tensor is named key[part]."""
    table = _linear(f"{ours}.out_proj", f"{theirs}.out_proj")
    for part, name in enumerate("qkv"):
        table[f"{ours}.{name}_proj.bias"] = f"{theirs}.in_proj_bias[{part}]"
        weight = f"{theirs}.in_proj_weight[{part}]" if stacked else f"{theirs}.{name}_proj_weight"
        table[f"{ours}.{name}_proj.weight"] = weight
    return table


def _cross_attention(ours: str, theirs: str, reduce: str) -> dict[str, str]:
    return _attention(f"{ours}.attention", theirs, stacked=False) | _linear(f"{ours}.reduce", reduce)


def _graph_ffn(ours: str, theirs: str) -> dict[str, str]:
    table = _linear(f"{ours}.out", f"{theirs}.ffn2")
    for part, name in enumerate(("own", "neighbours")):
        table |= {f"{ours}.{name}.{kind}": f"{theirs}.ffn1.conv.{kind}[{part}]" for kind in ("weight", "bias")}
    return table


def _encoder_layer(ours: str, theirs: str) -> dict[str, str]:
    table = _attention(f"{ours}.attention", f"{theirs}.self_attn")
    for name in ("linear1", "linear2", "norm1", "norm2"):
        table |= _linear(f"{ours}.{name}", f"{theirs}.{name}")
    return table


def _decoder_layer(ours: str, theirs: str, markov: bool) -> dict[str, str]:
    table = _cross_attention(f"{ours}.to_image", f"{theirs}.multihead_attn", f"{theirs}.choker")
    table |= _graph_ffn(f"{ours}.ffn", theirs)
    for norm in ("norm1", "norm2", "norm3"):
        table |= _linear(f"{ours}.{norm}", f"{theirs}.{norm}")
    if not markov:
        return table | _attention(f"{ours}.self_attention", f"{theirs}.self_attn")
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        table |= _linear(f"{ours}.self_attention.{name}", f"{theirs}.self_attn.{name}")
    table |= _linear(f"{ours}.structural_bias.mlp.0", f"{theirs}.self_attn.markov_structural_mlp.0")
    return table | _linear(f"{ours}.structural_bias.mlp.2", f"{theirs}.self_attn.markov_structural_mlp.3")


def _predictor_layer(ours: str, theirs: str) -> dict[str, str]:
    table = _attention(f"{ours}.self_attention", f"{theirs}.self_attn")
    table |= _cross_attention(f"{ours}.to_keypoints", f"{theirs}.multihead_attn", f"{theirs}.choker")
    to_image = f"{theirs}.cross_attn_image_to_token"
    table |= _cross_attention(f"{ours}.to_image", to_image, f"{to_image}_choker")
    table |= _graph_ffn(f"{ours}.ffn", theirs)
    for norm in ("norm1", "norm2", "norm3", "norm4"):
        table |= _linear(f"{ours}.{norm}", f"{theirs}.{norm}")
    return table


def key_table(settings: NetworkSettings, mask_token: bool = True) -> dict[str, str]:
    """Our parameter → official key (without its prefix), or key[part] of a stacked tensor."""
    decoder = "transformer.decoder"
    table = _linear("image_proj", "input_proj") | _linear("keypoint_proj", "query_proj")
    for layer in range(settings.encoder_layers):
        table |= _encoder_layer(f"encoder.layers.{layer}", f"transformer.encoder.layers.{layer}")
    for name in ("support_proj", "query_proj", "dynamic_proj.0", "dynamic_proj.2"):
        table |= _linear(f"proposal_generator.{name}", f"transformer.proposal_generator.{name}")
    for layer in range(settings.decoder_layers):
        table |= _decoder_layer(f"decoder.layers.{layer}", f"{decoder}.layers.{layer}", settings.bias == "markov")
        for part in (0, 2, 4, 6):
            table |= _linear(f"decoder.steps.{layer}.{part}", f"kpt_branch.{layer}.mlp.{part}")
    table |= _linear("decoder.position_mlp.0", f"{decoder}.ref_point_head.layers.0")
    table |= _linear("decoder.position_mlp.2", f"{decoder}.ref_point_head.layers.1")
    table |= _linear("decoder.norm", f"{decoder}.norm")
    if mask_token:
        table["mask_token"] = "transformer.mask_token"
    if settings.graph == "predicted":
        for layer in range(settings.predictor_layers):
            table |= _predictor_layer(f"pose_graph.layers.{layer}", f"skeleton_head.skeleton_predictor.{layer}")
        table |= _linear("pose_graph.image_proj", "skeleton_head.image_project")
        table |= {"pose_graph.c": "skeleton_head.zero_conv.weight", "pose_graph.b": "skeleton_head.zero_conv.bias"}
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
        parts = 2 if ".ffn1." in key else 3
        tensor = tensor.chunk(parts)[int(part[:-1])]
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
    table = {"embeddings.cls_token": "cls_token", "embeddings.position_embeddings": "pos_embed"}
    table |= _linear("embeddings.patch_embeddings.projection", "patch_embed.proj") | _linear("layernorm", "norm")
    for layer in range(layers):
        ours, theirs = f"encoder.layer.{layer}", f"blocks.{layer}"
        for part, name in enumerate(("query", "key", "value")):
            for kind in ("weight", "bias"):
                table[f"{ours}.attention.attention.{name}.{kind}"] = f"{theirs}.attn.qkv.{kind}[{part}]"
        table |= _linear(f"{ours}.attention.output.dense", f"{theirs}.attn.proj")
        table |= {f"{ours}.layer_scale{n}.lambda1": f"{theirs}.ls{n}.gamma" for n in (1, 2)}
        for name in ("norm1", "norm2", "mlp.fc1", "mlp.fc2"):
            table |= _linear(f"{ours}.{name}", f"{theirs}.{name}")
    return table


def _swinv2_table(depths: tuple[int, ...]) -> dict[str, str]:
    table = _linear("embeddings.patch_embeddings.projection", "patch_embed.proj") | _linear("layernorm", "norm")
    table |= _linear("embeddings.norm", "patch_embed.norm")
    for stage, depth in enumerate(depths):
        for block in range(depth):
            ours, theirs = f"encoder.layers.{stage}.blocks.{block}", f"layers.{stage}.blocks.{block}"
            attention = f"{ours}.attention.self"
            for part, name in enumerate(("query", "key", "value")):
                table[f"{attention}.{name}.weight"] = f"{theirs}.attn.qkv.weight[{part}]"
            table |= {f"{attention}.query.bias": f"{theirs}.attn.q_bias"}
            table |= {f"{attention}.value.bias": f"{theirs}.attn.v_bias"}  # keys have none
            table |= {f"{attention}.logit_scale": f"{theirs}.attn.logit_scale"}
            table |= _linear(f"{attention}.continuous_position_bias_mlp.0", f"{theirs}.attn.cpb_mlp.0")
            table |= {f"{attention}.continuous_position_bias_mlp.2.weight": f"{theirs}.attn.cpb_mlp.2.weight"}
            table |= _linear(f"{ours}.attention.output.dense", f"{theirs}.attn.proj")
            table |= _linear(f"{ours}.layernorm_before", f"{theirs}.norm1")
            table |= _linear(f"{ours}.layernorm_after", f"{theirs}.norm2")
            table |= _linear(f"{ours}.intermediate.dense", f"{theirs}.mlp.fc1")
            table |= _linear(f"{ours}.output.dense", f"{theirs}.mlp.fc2")
        if stage < len(depths) - 1:
            ours, theirs = f"encoder.layers.{stage}.downsample", f"layers.{stage}.downsample"
            table |= {f"{ours}.reduction.weight": f"{theirs}.reduction.weight"}
            table |= _linear(f"{ours}.norm", f"{theirs}.norm")
    return table


def _swinv2_dead(depths: tuple[int, ...]) -> set[str]:
    """Constants that are computed anew, and the classifier."""
    dead = {"head.weight", "head.bias"}
    for stage, depth in enumerate(depths):
        for block in range(depth):
            theirs = f"layers.{stage}.blocks.{block}"
            dead |= {f"{theirs}.attn_mask", f"{theirs}.attn.relative_coords_table"}
            dead |= {f"{theirs}.attn.relative_position_index"}
    return dead


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
    if not isinstance(official, dict) or not all(isinstance(value, Tensor) for value in official.values()):
        raise WeightsError(f"{path} holds no table of tensors; is it a checkpoint?")
    if any(".probe." in key or key.startswith("probe.") or ".vit." in key for key in official):
        raise WeightsError(
            f"{path} is of the 2024 pre-ICLR model (DPT probes, 256 px), which this project does not support; "
            "use a checkpoint of the ICLR 2026 release"
        )
    if any(key.startswith(EDGECAPE_PREFIX) for key in official):
        return _edgecape(official, str((meta or {}).get("config", "")), phase, str(path))
    if any(key.startswith(GRAPHCAPE_PREFIX) for key in official):
        return _graphcape(official)
    raise WeightsError(f"{path} is neither an EdgeCape nor a GraphCape checkpoint; its first key is '{min(official)}'")


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


def _sizes(head: dict[str, Tensor]) -> dict[str, Any]:
    """Widths and depths as the tensors have them."""

    def depth(prefix: str) -> int:
        return 1 + max(
            (int(key.removeprefix(prefix).split(".")[0]) for key in head if key.startswith(prefix)), default=-1
        )

    needed = ("input_proj.weight", "transformer.encoder.layers.0.linear1.weight")
    for key in needed:
        if key not in head:
            raise WeightsError(f"the checkpoint lacks '{key}'; is it complete?")
    return {
        "width": head["input_proj.weight"].shape[0],
        "channels": head["input_proj.weight"].shape[1],
        "ffn": head["transformer.encoder.layers.0.linear1.weight"].shape[0],
        "encoder_layers": depth("transformer.encoder.layers."),
        "decoder_layers": depth("transformer.decoder.layers."),
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
    layers = 1 + max((int(key.split(".")[1]) for key in query if key.startswith("blocks.")), default=-1)
    backbone = _convert_backbone(query, _dinov2_table(layers), {"mask_token"})
    return Official(settings, convert_head(head, settings), backbone)


def _graphcape(official: dict[str, Tensor]) -> Official:
    head, backbone = _part(official, GRAPHCAPE_PREFIX), _part(official, "backbone.")
    settings = replace(presets.released_graphcape(), **_sizes(head))
    _refuse_left_over({key for key in official if not key.startswith((GRAPHCAPE_PREFIX, "backbone."))})
    table, dead = _swinv2_table(SWINV2_TINY_DEPTHS), _swinv2_dead(SWINV2_TINY_DEPTHS)
    return Official(settings, convert_head(head, settings), _convert_backbone(backbone, table, dead))
