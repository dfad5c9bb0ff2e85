"""What a predictor asks of the model behind it: numpy in, numpy out. A frame is a square crop, RGB uint8."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from edgecape.matching.views import Picture
from edgecape.types import Prompt

Floats = NDArray[np.float32]
Frames = NDArray[np.uint8]


class SupportArrays(NamedTuple):
    """What a prompt keeps of the supports; as in `Prompt`."""

    tokens: Floats  # (V, K, d)
    places: Floats  # (V, K, 2)
    views: NDArray[np.int64]  # (V, 2)
    prior: Floats  # (K, K)
    weights: Floats  # (K, K)
    graph: Floats  # (K, K)


class Located(NamedTuple):
    """Coordinates are (x, y) in [0, 1] of the frames."""

    coordinates: Floats  # (N, K, 2)
    scores: Floats  # (N, K), probability of being right
    proposals: Floats  # (N, K, 2), the first guess, by similarity alone


class Runtime(Protocol):
    """One model on one machine."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of a frame."""

    @property
    def fingerprint(self) -> str:
        """Of weights and settings: which prompts it takes."""

    @property
    def training(self) -> dict[str, Any]:
        """How the model came about."""

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """What it wants to see of each support."""

    def encode(
        self,
        frames: Frames,
        coordinates: Floats,
        visible: NDArray[np.bool_],
        prior: Floats,
        flip_index: NDArray[np.int64] | None,
    ) -> SupportArrays:
        """frames (P, S, h, w, 3): each of `pictures` of each support; coordinates (P, S, K, 2) in [0, 1] of them;
        visible (S, K); prior (K, K)."""

    def locate(self, frames: Frames, prompt: Prompt) -> Located:
        """The keypoints of a prompt in frames (N, h, w, 3)."""
