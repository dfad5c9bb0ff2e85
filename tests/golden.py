"""The reference tensors of the released code, as networks and inputs of this project.

Everything is loaded once per test process. Both samples are cut to K keypoints, the larger of the two; the files pad
them to 100.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgecape.model.network import Network
from edgecape.model.settings import NetworkSettings
from edgecape.model.tokens import gaussian_axes
from edgecape.weights.official import convert_head

import graphs
from tiny import Episode

K = 17
FRAME = 224
GRAPHCAPE = NetworkSettings(
    graph="fixed", bias="off", channels=768, ffn=768, decoder_positions=True, aggregate_transposed=True
)


class Truth(NamedTuple):
    """What the training step of the reference was compared with."""

    target: Tensor  # (B, K, 2)
    weight: Tensor  # (B, K), visible in the query and usable in the support
    hidden: Tensor  # (B, K), hidden in the second pass for L_adj


def settings(phase: int) -> NetworkSettings:
    return NetworkSettings(
        graph="fixed" if phase == 1 else "predicted",
        bias="markov" if phase == 3 else "off",
        pad_keypoints_to=0 if phase == 1 else 100,
    )


@cache
def arrays(folder: Path, name: str) -> dict[str, Any]:
    """All arrays of a file; numbers as float32 tensors."""
    with np.load(folder / f"{name}.npz") as file:
        return {
            key: torch.from_numpy(value.astype(np.float32)) if value.ndim else value.item()
            for key, value in file.items()
        }


def official_state(shared: Path, phase: int) -> dict[str, Tensor]:
    """Official tensors of a phase."""
    state = torch.load(shared / "golden/head_seed0/head_phase3_state_fp16.pt", weights_only=True)
    return earlier_phase(state, phase)


def earlier_phase(state: dict[str, Tensor], phase: int) -> dict[str, Tensor]:
    """Tensors of a phase from those of phase 3: before it there are no Markov MLPs, and the decoder's q, k, v are
    stacked."""
    if phase == 3:
        return state
    earlier = {}
    for key, tensor in state.items():
        base, _, kind = key.rpartition(".")
        if "markov" in key:
            continue
        if "decoder.layers" in key and base.endswith(("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")):
            base = base[: -len("q_proj")]
            earlier[f"{base}in_proj_{kind}"] = torch.cat([state[f"{base}{name}_proj.{kind}"] for name in "qkv"])
        else:
            earlier[key] = tensor
    return earlier


def build(state: dict[str, Tensor], settings: NetworkSettings) -> Network:
    network = Network(settings)
    network.load_state_dict(convert_head(state, settings))
    return network.eval()


@cache
def edgecape(shared: Path, phase: int) -> Network:
    return build(official_state(shared, phase), settings(phase))


@cache
def graphcape(shared: Path) -> Network:
    state = torch.load(shared / "golden/graphcape_seed0/head_state_fp16.pt", weights_only=True)
    return build(state, GRAPHCAPE)


def per_shot(inputs: dict[str, Any], name: str) -> Tensor:
    shots = sum(key.startswith(f"{name}_") for key in inputs)
    return torch.stack([inputs[f"{name}_{shot}"] for shot in range(shots)], dim=1)


def priors(skeletons: str) -> Tensor:
    return torch.stack([graphs.adjacency(edges, K) for edges in json.loads(skeletons)])


def usable(mask: Tensor) -> Tensor:
    return mask[:, :K, 0] > 0


@cache
def episode(shared: Path, shots: int, model: str = "head") -> Episode:
    """Keypoints as the maps the reference used (they are on the fp16 grid)."""
    inputs = arrays(shared / "golden/head_seed0", f"inputs_{shots}shot")
    features = inputs if model == "head" else arrays(shared / "golden/graphcape_seed0", f"golden_{shots}shot")
    return Episode(
        features["feature_q"],
        per_shot(features, "feature_s"),
        usable(inputs["mask_s"]),
        priors(inputs["skeletons"]),
        maps=per_shot(inputs, "target_s")[:, :, :K],
    )


def coordinates(shared: Path, shots: int) -> Tensor:
    """Support keypoints (B, S, K, 2) in [0, 1]."""
    return per_shot(arrays(shared / "golden/head_seed0", f"inputs_{shots}shot"), "joints_s")[:, :, :K, :2] / FRAME


def truth(shared: Path, shots: int) -> Truth:
    inputs = arrays(shared / "golden/head_seed0", f"inputs_{shots}shot")
    shown = usable(inputs["mask_s"])
    return Truth(
        inputs["query_joints_px"][:, :K] / FRAME,
        usable(inputs["target_weight_q"]) & shown,
        ~usable(inputs["rand_mask"]) & shown,
    )


def gaussian_maps(coordinates: Tensor, image_size: tuple[int, int], stride: float) -> Tensor:
    """Gaussian maps (..., map height, map width) of keypoints (..., 2)."""
    rows, columns = gaussian_axes(coordinates, image_size, stride)
    return rows[..., :, None] * columns[..., None, :]
