"""Box → square crop → frame, and back: the only place with affine maths.

Points are (x, y) in pixels, origin at the top left. A transform is a 3×3 matrix (float64) that maps photo pixels to
frame pixels. Boxes are (x, y, w, h).
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

PADDING = 1.25  # side of the square crop relative to the longer side of the box
Matrix = NDArray[np.float64]
Points = NDArray[np.float64]


def crop_side(box: ArrayLike, padding: float = PADDING) -> float:
    """Side of the square crop round a box, in photo pixels."""
    _, _, w, h = np.asarray(box, dtype=np.float64)
    return float(padding * max(w, h))


def crop_transform(
    box: ArrayLike,
    size: tuple[int, int] = (224, 224),
    scale: float = 1.0,
    rotation: float = 0.0,
    shift: tuple[float, float] = (0.0, 0.0),
    padding: float = PADDING,
) -> Matrix:
    """The square round the box's centre, onto a frame of `size` (height, width).

    scale > 1 takes in more of the photo; rotation is in degrees; shift is in frame sides. In a frame that is not
    square the crop keeps its aspect and covers the shorter side.
    """
    x, y, w, h = np.asarray(box, dtype=np.float64)
    height, width = size
    zoom = min(height, width) / (crop_side(box, padding) * scale)
    angle = math.radians(rotation)
    cos, sin = zoom * math.cos(angle), zoom * math.sin(angle)
    rotate = np.array([[cos, sin], [-sin, cos]])
    centre = np.array([x + w / 2, y + h / 2])
    target = np.array([width * (0.5 + shift[0]), height * (0.5 + shift[1])])
    transform = np.eye(3)
    transform[:2, :2] = rotate
    transform[:2, 2] = target - rotate @ centre
    return transform


def mirror_transform(size: tuple[int, int], mirror: bool = True) -> Matrix:
    """Frame pixels → the same frame seen in a mirror, or as it is."""
    return np.array([[-1.0, 0.0, size[1] - 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) if mirror else np.eye(3)


def quarter_turn(size: tuple[int, int], quarters: int) -> Matrix:
    """Pixels of a square frame → the same frame turned to the left by so many quarters, as `numpy.rot90` does it."""
    once = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, size[1] - 1.0], [0.0, 0.0, 1.0]])
    return np.linalg.matrix_power(once, quarters % 4)


def apply(transform: Matrix, points: ArrayLike) -> Points:
    """Points (..., 2) through a transform, affine or perspective."""
    points = np.asarray(points, dtype=np.float64)
    mapped = points @ transform[:2, :2].T + transform[:2, 2]
    if is_affine(transform):
        return mapped
    depth = points @ transform[2, :2] + transform[2, 2]
    return mapped / depth[..., None]


def inverse(transform: Matrix) -> Matrix:
    return np.linalg.inv(transform).astype(np.float64)


def is_affine(transform: Matrix) -> bool:
    return bool(np.array_equal(transform[2], (0.0, 0.0, 1.0)))


class Pyramid:
    """A photo and its halvings, each made when first needed: so that a 60-megapixel photo does not turn into noise,
    and is not made smaller again for each of its boxes."""

    def __init__(self, image: NDArray[np.uint8]):
        self._levels: list[tuple[NDArray[np.uint8], Matrix]] = [(image, np.eye(3))]

    def level(self, zoom: float) -> tuple[NDArray[np.uint8], Matrix]:
        """The photo halved until a crop of this zoom shrinks it less than twofold, and its pixels → photo pixels."""
        depth = 0
        while zoom <= 0.5 and max(self._halved(depth)[0].shape[:2]) >= 2:
            depth, zoom = depth + 1, 2 * zoom
        return self._halved(depth)

    def _halved(self, depth: int) -> tuple[NDArray[np.uint8], Matrix]:
        while len(self._levels) <= depth:
            image, enlarge = self._levels[-1]
            h, w = image.shape[:2]
            half = max(w // 2, 1), max(h // 2, 1)  # a photo one pixel high still gets shorter
            smaller = cv2.resize(image, half, interpolation=cv2.INTER_AREA)
            sx, sy = w / half[0], h / half[1]
            # pixel centres: p = s · (p' + ½) − ½
            double = np.array([[sx, 0, (sx - 1) / 2], [0, sy, (sy - 1) / 2], [0, 0, 1.0]])
            self._levels.append((smaller, enlarge @ double))
        return self._levels[depth]

    def warp(self, transform: Matrix, size: tuple[int, int]) -> NDArray[np.uint8]:
        """As `warp`, without noise; the protocol does not do this."""
        image, enlarge = self.level(math.sqrt(abs(np.linalg.det(transform[:2, :2]))))
        return warp(image, transform @ enlarge, size)


def warp(image: NDArray[np.uint8], transform: Matrix, size: tuple[int, int]) -> NDArray[np.uint8]:
    """The frame (height, width, 3): bilinear, zero outside the photo, as in the evaluation protocol."""
    if is_affine(transform):
        return _sample(image, transform, size)
    return cv2.warpPerspective(image, transform, (size[1], size[0]), flags=cv2.INTER_LINEAR)


def _sample(image: NDArray[np.uint8], transform: Matrix, size: tuple[int, int]) -> NDArray[np.uint8]:
    """`cv2.warpAffine` as OpenCV 4 computes it, with positions rounded to 1/32 pixel: published numbers stand on it,
    and OpenCV 5 rounds differently. Positions given in fixed point make a crop the same with every version."""
    height, width = size
    column, row = np.arange(width), np.arange(height)[:, None]
    x, y = (  # in 1/32 pixels of the photo
        (np.rint(a * column * 1024) + np.rint((b * row + c) * 1024) + 16).astype(np.int64) >> 5
        for a, b, c in cv2.invertAffineTransform(transform[:2])
    )
    left, top = max(0, int(x.min()) >> 5), max(0, int(y.min()) >> 5)
    image = image[top : max(0, (int(y.max()) >> 5) + 2), left : max(0, (int(x.max()) >> 5) + 2)]
    if not image.size:
        return np.zeros((height, width, 3), dtype=np.uint8)
    whole = np.stack(((x >> 5) - left, (y >> 5) - top), axis=-1).clip(-(2**15), 2**15 - 1).astype(np.int16)
    fraction = ((y & 31) * 32 + (x & 31)).astype(np.uint16)
    return cv2.remap(image, whole, fraction, cv2.INTER_LINEAR)


def clip_box(box: ArrayLike, width: int, height: int) -> tuple[float, float, float, float] | None:
    """A COCO box cut to the photo the way the protocol does it; None if nothing is left."""
    x, y, w, h = (float(value) for value in np.asarray(box, dtype=np.float64))
    x1, y1 = max(0.0, x), max(0.0, y)
    x2 = min(width - 1.0, x1 + max(0.0, w - 1))
    y2 = min(height - 1.0, y1 + max(0.0, h - 1))
    if x2 <= x1 or y2 <= y1:
        return None
    return x1, y1, x2 - x1, y2 - y1
