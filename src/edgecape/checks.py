"""Whether keypoints and boxes fit the photo they are said to be on: mistakes that no later step would notice.

A photo's size is (width, height). Only what is plainly wrong is refused; where the numbers could be meant, they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgecape.errors import AnnotationError
from edgecape.values import Box

OUTSIDE = 0.01  # of its area, what a box must have inside the photo
CORNERS = 0.75  # what it has at most inside, if it may have been given as two corners


def check_keypoints(
    points: NDArray[np.float32], visible: NDArray[np.bool_], size: tuple[int, int], names: Sequence[str] | None = None
) -> None:
    """That visible keypoints (K, 2) are pixels of the photo."""
    shown, photo = points[visible], f"the photo of {size[0]} × {size[1]} pixels"
    if len(shown) and ((shown >= 0) & (shown <= 1)).all():
        raise AnnotationError(
            f"all keypoints lie between 0 and 1, the first at {_numbers(*shown[0])}, which seem to be parts of the "
            f"width and height; give pixels, of which the photo has {size[0]} × {size[1]}"
        )
    outside = np.flatnonzero(visible & ~_inside(points, size))
    if not outside.size:
        return
    k = int(outside[0])
    called = f"{k} ('{names[k]}')" if names else str(k)
    exchanged = _inside(shown[:, ::-1], size).all()
    remedy = (
        "all would lie inside with x and y exchanged, so give them as (x, y)"
        if exchanged
        else "correct it, or mark it as not visible"
    )
    raise AnnotationError(f"keypoint {called} at {_numbers(*points[k])} lies outside {photo}; {remedy}")


def check_box(box: Box, size: tuple[int, int]) -> None:
    """That a box (x, y, w, h) shows some of the photo, and was not given as two corners or as parts of the photo."""
    (x, y, w, h), (width, height) = box, size
    told, photo = f"box {_numbers(*box)}", f"the photo of {width} × {height} pixels"
    if w <= 1 and h <= 1:
        raise AnnotationError(f"{told} is no larger than a pixel of {photo}; give (x, y, width, height) in pixels")
    inside = max(min(x + w, width) - max(x, 0), 0) / w * max(min(y + h, height) - max(y, 0), 0) / h
    if inside <= CORNERS and 0 <= x < w <= width and 0 <= y < h <= height:
        raise AnnotationError(
            f"{told} reaches out of {photo} and looks like two corners; a box is (x, y, width, height), so give "
            f"{_numbers(x, y, w - x, h - y)}"
        )
    if inside < OUTSIDE:
        raise AnnotationError(f"{told} lies outside {photo}; a box is (x, y, width, height) in pixels")


def _inside(points: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.bool_]:
    """(K,): whichever way pixels are counted, 0 is the first one's corner or its centre."""
    within: NDArray[np.bool_] = (points >= -0.5) & (points <= size)
    return np.logical_and.reduce(within, axis=1)


def _numbers(*values: float) -> str:
    return f"({', '.join(f'{value:.6g}' for value in values)})"
