"""Steady keypoints in videos: the One-Euro filter (Casiez et al., CHI 2012), one for each keypoint.

A low-pass filter whose cut-off rises with speed, f = cutoff + v / (2π · lag): a keypoint at rest does not tremble, one
that moves is followed. Speeds v are in box sides per second, so the settings suit any size of photo. A keypoint that
moves steadily trails by v / (2π f), which is less than `lag` box sides however fast it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgecape.errors import SettingsError
from edgecape.types import Pose

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SmoothingSettings:
    cutoff: float = 1.0  # Hz, of a keypoint at rest: lower is steadier and slower to start moving
    lag: float = 0.02  # share of the box's longer side that a steadily moving keypoint trails at most
    speed_cutoff: float = 1.0  # Hz, of the estimate of speed

    def __post_init__(self) -> None:
        for name in ("cutoff", "lag", "speed_cutoff"):
            if not 0 < getattr(self, name) < math.inf:
                raise SettingsError(f"{name} of smoothing is {getattr(self, name)}; it must be above 0")


def share_of_new(cutoff: Array | float, fps: float) -> Array | float:
    """How much of a new value an exponential low-pass filter takes over."""
    return 1 / (1 + fps / (2 * math.pi * cutoff))


class OneEuro:
    """The filter of a set of points (…, 2), measured in box sides; call it with each frame's in turn.

    A point that is nowhere (nan) stays so, and where it comes back its filter starts anew: nobody saw it move.
    """

    def __init__(self, fps: float, settings: SmoothingSettings | None = None):
        self.fps = fps
        self.settings = settings or SmoothingSettings()
        nothing: Array = np.empty(0)
        self.before = self.smooth = self.velocity = nothing  # before: unfiltered

    def __call__(self, points: Array) -> Array:
        settings = self.settings
        if points.shape != self.smooth.shape:
            self.before = self.smooth = self.velocity = np.full(points.shape, np.nan)
        new = ~np.isfinite(self.smooth).all(axis=-1, keepdims=True)
        moved = (points - self.before) * self.fps
        velocity = self.velocity + share_of_new(settings.speed_cutoff, self.fps) * (moved - self.velocity)
        self.velocity = np.where(new, 0.0, velocity)
        speed = np.linalg.norm(self.velocity, axis=-1, keepdims=True)
        cutoff = settings.cutoff + speed / (2 * math.pi * settings.lag)
        self.before = points
        self.smooth = np.where(new, points, self.smooth + share_of_new(cutoff, self.fps) * (points - self.smooth))
        return self.smooth


def smooth_poses(poses: Sequence[Pose], euro: OneEuro) -> list[Pose]:
    """The poses of the next frame with their keypoints steadied; scores and proposals stay as they are.

    The objects of a frame keep their order; where their number changes, the filter starts anew.
    """
    sides = np.array([max(pose.box[2:]) for pose in poses])[:, None, None]
    points = euro(np.array([pose.keypoints for pose in poses]) / sides) * sides
    return [replace(pose, keypoints=place.astype(np.float32)) for pose, place in zip(poses, points, strict=True)]
