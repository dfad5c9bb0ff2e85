"""What the released network computed, small enough to be part of the repository.

`released.npz` has outputs of the released code (EdgeCape, eval mode, CPU) and the small inputs. The 15 million weights
and the feature maps were drawn from seeds and rounded to float16, so they are drawn again here: the words of the
Mersenne Twister behind `torch.manual_seed` are also those of numpy's RandomState, which will never change. Uniform
numbers come out to the bit. Normal ones are computed here in double precision and were there in single precision: the
few that fell on another float16 neighbour are listed in the file and moved, so that weights and features are those
of the released run to the bit, on any machine. `digest` says whether that holds.

The random weights are not a trained model; they are what makes every part of the network matter.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

FILE = Path(__file__).with_name("released.npz")
SHOTS = (1, 5)
K = 17  # of the larger of the two samples; the other has 10
CHANNELS, GRID, MAP, STRIDE = 384, 16, 64, 3.5  # of the features, and of the keypoint maps of a frame of 224 pixels

# Where in the stream of seed 0 the released constructor fills what: its projections of attention, made once per kind
# and copied to all layers, and then, after the backbone and everything else, all other matrices part by part.
ATTENTION = {
    "transformer.encoder.layers.{}.self_attn": 43_327_232,
    "transformer.decoder.layers.{}.multihead_attn": 44_509_232,
    "skeleton_head.skeleton_predictor.{}.self_attn": 46_381_746,
    "skeleton_head.skeleton_predictor.{}.multihead_attn": 46_841_010,
    "skeleton_head.skeleton_predictor.{}.cross_attn_image_to_token": 48_186_290,
}
MATRICES, PARTS = 57_035_162, ("kpt_branch", "skeleton_head", "transformer", "input_proj", "query_proj")
PROJECTIONS = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
VECTORS_SEED, FEATURES_SEED, MARKOV = 1000, 77, 6.0  # the bias of random Markov MLPs would hardly be felt


class Stream:
    """The numbers that torch draws after `manual_seed` on a CPU."""

    def __init__(self, seed: int):
        self.state, self.position = np.random.RandomState(seed), 0  # the one that numpy keeps as it is

    def uniform(self, count: int) -> NDArray[np.float64]:
        self.position += count
        return self.state.randint(2**24, size=count, dtype=np.uint32) * 2.0**-24

    def skip_to(self, position: int) -> None:
        while self.position < position:
            self.uniform(min(position - self.position, 2**22))

    def normal(self, *shape: int) -> NDArray[np.float64]:
        """Two of each pair of uniform numbers: pairs 8 apart, or neighbours of 53 bits if there are less than 16."""
        count = math.prod(shape)
        if count < 16:
            words = self.state.randint(2**32, size=4 * math.ceil(count / 2), dtype=np.uint32).astype(np.uint64)
            self.position += len(words)
            pairs = ((words[0::2] << np.uint64(32) | words[1::2]) & np.uint64(2**53 - 1)).reshape(-1, 2, 1) * 2.0**-53
            angle, radius = 2 * np.pi * pairs[:, :1], np.sqrt(-2 * np.log1p(-pairs[:, 1:]))
        else:
            pairs = self.uniform(count).reshape(-1, 2, 8)
            angle, radius = 2 * np.pi * pairs[:, 1:], np.sqrt(-2 * np.log(1 - pairs[:, :1]))
        both = np.concatenate((radius * np.cos(angle), radius * np.sin(angle)), axis=1)
        return both.ravel()[:count].reshape(shape)

    def xavier(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """As torch.nn.init.xavier_uniform_: bounds in single precision, and one rounding, after the sum."""
        bound = float(np.float32(math.sqrt(6 / (shape[0] + shape[1]))))  # all kernels here are 1 wide
        return (self.uniform(math.prod(shape)) * (2 * bound) - bound).reshape(shape)


def _vector(stream: Stream, key: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """What replaced the zeros and ones of a fresh network."""
    if key.endswith("mask_token"):
        return 0.5 * stream.normal(*shape)
    if key.endswith("mlp.6.weight"):
        return 0.15 * stream.normal(*shape)
    if ".norm" in key:
        return 0.1 * stream.normal(*shape) + (1.0 if key.endswith("weight") else 0.0)
    return 0.05 * stream.normal(*shape)


def _rounded(values: NDArray[Any]) -> NDArray[np.float16]:
    return values.astype(np.float32).astype(np.float16)


def draw_head(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[np.float16]]:
    """The head's tensors as drawn, in the order of `shapes`."""
    found: dict[str, NDArray[Any]] = {}
    stream = Stream(0)
    for name, position in ATTENTION.items():
        stream.skip_to(position)
        for projection in PROJECTIONS:
            layers = [key for n in range(3) if (key := f"{name.format(n)}.{projection}") in shapes]
            if layers:
                found |= dict.fromkeys(layers, stream.xavier(shapes[layers[0]]))
    stream.skip_to(MATRICES)
    for part in PARTS:
        for key, shape in shapes.items():
            if key.startswith(part) and key.endswith(".weight") and len(shape) > 1:
                found[key] = stream.xavier(shape)
    stream = Stream(VECTORS_SEED)
    for key, shape in shapes.items():
        if key not in found or key.endswith("mlp.6.weight"):
            found[key] = _vector(stream, key, shape)
    for key in shapes:
        if "markov" in key:
            found[key] = MARKOV * found[key]
    found["skeleton_head.zero_conv.weight"] = np.full((1, 1, 1, 1), 1.5)  # c and b: both signs of prior + c·ΔA + b
    found["skeleton_head.zero_conv.bias"] = np.full(1, -1.2)
    return {key: _rounded(found[key]) for key in shapes}


def draw_features() -> dict[str, NDArray[np.float16]]:
    """Smooth maps with some noise, every cell standardised: of the query and of each support, at 1 and at 5 shots."""
    stream = Stream(FEATURES_SEED)
    found = {}
    for shots in SHOTS:
        for name in ("query", *(f"support_{shot}" for shot in range(shots))):
            coarse = torch.from_numpy(stream.normal(2, CHANNELS, 5, 5))
            smooth = F.interpolate(coarse, size=(GRID, GRID), mode="bicubic", align_corners=False)
            features = smooth + 0.5 * torch.from_numpy(stream.normal(2, CHANNELS, GRID, GRID))
            features -= features.mean(dim=1, keepdim=True)
            found[f"{shots}shot/{name}"] = _rounded((2 * features / features.std(dim=1, keepdim=True)).numpy())
    return found


def keypoint_maps(joints: NDArray[np.float32], seen: NDArray[np.bool_]) -> NDArray[np.float16]:
    """joints (..., 2) in pixels of the frame → maps (..., 64, 64): a Gaussian in a window of 7 × 7; empty if unseen."""
    centre = np.trunc(joints / np.float32(STRIDE) + 0.5)[..., None]
    offset = np.arange(MAP) - centre  # (..., 2, 64)
    axes = np.where(np.abs(offset) <= 3, np.exp(-(offset**2) / 2), 0.0)
    return _rounded(axes[..., 1, :, None] * axes[..., 0, None, :] * seen[..., None, None])


def moves(ours: NDArray[np.float16], theirs: NDArray[np.float16]) -> NDArray[np.int32]:
    """Which values fell on another float16 neighbour: (n, 2), their place and how many neighbours further."""
    if not np.allclose(ours.astype(float), theirs.astype(float), rtol=2**-10, atol=1e-5):
        raise ValueError("these are not the same numbers")
    steps = theirs.ravel().view(np.int16).astype(np.int32) - ours.ravel().view(np.int16)
    return np.stack((np.flatnonzero(steps), steps[steps != 0]), axis=1).astype(np.int32)


def moved(values: NDArray[np.float16], moves: NDArray[np.int32]) -> NDArray[np.float16]:
    bits = values.ravel().view(np.int16).copy()
    bits[moves[:, 0]] += moves[:, 1].astype(np.int16)
    return bits.view(np.float16).reshape(values.shape)


def digest(arrays: Iterable[NDArray[np.float16]]) -> str:
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array, dtype="<f2").tobytes())
    return total.hexdigest()


# --- as tensors ----------------------------------------------------------------------------------------------


@cache
def stored() -> dict[str, NDArray[Any]]:
    with np.load(FILE) as file:
        return dict(file)


def _as_released(drawn: dict[str, NDArray[np.float16]], kind: str) -> dict[str, NDArray[np.float16]]:
    found = {}
    for key, values in drawn.items():
        found[key] = moved(values, stored()[f"moves/{key}"]) if f"moves/{key}" in stored() else values
    if digest(found.values()) != str(stored()[f"digest/{kind}"]):
        raise RuntimeError(f"the {kind} of the released run could not be drawn again")
    return found


@cache
def head() -> dict[str, Tensor]:
    """The released head's state of phase 3, under its own names."""
    shapes = {key: tuple(shape) for key, shape in json.loads(str(stored()["shapes"])).items()}
    return {key: torch.from_numpy(values).float() for key, values in _as_released(draw_head(shapes), "head").items()}


@cache
def features() -> dict[str, Tensor]:
    drawn = _as_released(draw_features(), "features")
    return {key: torch.from_numpy(values).float() for key, values in drawn.items()}


def maps(shots: int) -> Tensor:
    joints, seen = (stored()[f"{shots}shot/{name}"] for name in ("joints", "seen"))
    return torch.from_numpy(keypoint_maps(joints, seen)).float()
