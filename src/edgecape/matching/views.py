"""The eight views of a square frame: turned by quarters, then mirrored or not.

A view is a number v = 2 · turns + mirror: v = 0 is the frame as it is, v ^ 1 the mirror image of view v.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgecape import geometry

UPRIGHT, MIRRORED = 0, 1
COUNT = 8


class Picture(NamedTuple):
    """What of a support is rendered: a view of a crop of some size, 1 being the usual one."""

    view: int = UPRIGHT
    scale: float = 1.0


def view_of(mirror: bool, turns: int) -> int:
    return 2 * (turns % 4) + int(mirror)


def compose(v: int, w: int) -> int:
    """View v of what is seen in view w. A turn to the left is, seen in a mirror, a turn to the right."""
    mirrored, turned = v % 2, v // 2
    return view_of((mirrored + w) % 2 == 1, w // 2 + (-turned if w % 2 else turned))


def show(frame: NDArray[np.uint8], view: int) -> NDArray[np.uint8]:
    """The frame (h, w, ...) in a view; a turned one must be square."""
    turned = np.rot90(frame, view // 2)
    return turned[:, ::-1] if view % 2 else turned


def transform(view: int, size: tuple[int, int]) -> geometry.Matrix:
    """Pixels of the frame → pixels of its view."""
    return geometry.mirror_transform(size, bool(view % 2)) @ geometry.quarter_turn(size, view // 2)


def shown(coordinates: Any, visible: Any) -> Any:
    """Which keypoints count in crops of L sizes of S supports: coordinates (…, S, L, K, 2) in [0, 1] of the crops,
    visible (…, S, K) → (…, S, L, K). One that is outside one crop still counts in the others; arrays or tensors."""
    inside = ((coordinates >= 0) & (coordinates <= 1)).all(-1)
    return visible[..., None, :] & (inside | ~inside.any(-2)[..., None, :])
