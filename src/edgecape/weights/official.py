"""Official EdgeCape and GraphCape checkpoints → this project's names.

Every official key is mapped by the tables below or listed as dead; a key that is neither, or one that is
missing, is an error that names it. Files are read with `weights_only`, so nothing in them is ever executed.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
from torch import Tensor

from edgecape.errors import WeightsError
from edgecape.model.settings import BackboneSettings, NetworkSettings

EDGECAPE_PREFIX = "keypoint_head_module."
GRAPHCAPE_PREFIX = "keypoint_head."

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
    state: dict[str, Tensor] = {}
    used: set[str] = set()
    for ours, source in table.items():
        key, _, part = source.partition("[")
        if key not in official:
            raise WeightsError(f"the checkpoint has no '{key}', which {ours} needs; is it a complete checkpoint?")
        tensor = official[key]
        if part:
            parts = 2 if ".ffn1." in key else 3
            tensor = tensor.chunk(parts)[int(part[:-1])]
        if key.endswith("ffn1.conv.weight"):
            tensor = tensor[..., 0]  # a 1-wide convolution is a linear map
        elif "zero_conv" in key:
            tensor = tensor.flatten()
        state[ours] = tensor.float().contiguous()
        used.add(key)
    state.setdefault("mask_token", torch.zeros(1, settings.width))
    unused_predictor = {
        source.partition("[")[0]
        for source in key_table(_with_predictor(settings)).values()
        if source.startswith("skeleton_head.")
    }
    left_over = sorted(set(official) - used - set(DEAD_KEYS) - unused_predictor)
    if left_over:
        raise WeightsError(f"the checkpoint holds {len(left_over)} unknown keys, the first is '{left_over[0]}'")
    return state


def _with_predictor(settings: NetworkSettings) -> NetworkSettings:
    from dataclasses import replace

    return replace(settings, graph="predicted")
