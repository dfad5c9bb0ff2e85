"""Desk lamps, drawn: an object whose keypoints are known exactly and that no model was trained on."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from edgecape.io.images import RGB

NAMES = ("foot left", "foot right", "shoulder", "elbow", "neck", "shade left", "shade right")
EDGES = ((0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5), (4, 6), (5, 6))
SIZE = 320


def _along(start: NDArray[np.float64], degrees: float, length: float) -> NDArray[np.float64]:
    angle = math.radians(degrees)
    return start + length * np.array([math.cos(angle), -math.sin(angle)])


def draw_lamp(pose: tuple[float, float, float], hue: int, ground: int, seed: int) -> tuple[RGB, NDArray[np.float32]]:
    """A lamp and its keypoints (7, 2); pose: direction of the lower arm, bend of the elbow, tilt of the shade."""
    rng = np.random.default_rng(seed)
    lower, bend, tilt = pose
    foot = np.array([SIZE * 0.5 + rng.uniform(-25, 25), SIZE * 0.86])
    shoulder = foot + (0, -22)
    elbow = _along(shoulder, lower, 95)
    neck = _along(elbow, lower + bend, 85)
    aim = lower + bend - 90 + tilt
    left, right = (_along(_along(neck, aim, 48), aim + side, 30) for side in (90, -90))
    keypoints = np.array([foot - (48, 0), foot + (48, 0), shoulder, elbow, neck, left, right])

    image: RGB = np.full((SIZE, SIZE, 3), ground, dtype=np.uint8)
    shade = np.linspace(0, 30, SIZE, dtype=np.uint8)[:, None, None]
    image = image - shade // 2 + rng.integers(0, 8, image.shape, dtype=np.uint8)
    cv2.rectangle(image, (0, int(SIZE * 0.88)), (SIZE, SIZE), (120, 90, 70), -1)
    paint = cv2.cvtColor(np.array([[[hue, 190, 205]]], dtype=np.uint8), cv2.COLOR_HSV2RGB)[0, 0]
    dark = (paint * 0.6).astype(np.uint8)

    def points(*places: NDArray[np.float64]) -> NDArray[np.int32]:
        return np.rint(np.array(places)).astype(np.int32)

    def colour(values: NDArray[np.uint8]) -> tuple[int, ...]:
        return tuple(int(value) for value in values)

    base = points(foot - (48, 0), foot + (48, 0), shoulder + (14, 0), shoulder - (14, 0))
    cv2.fillPoly(image, [base], colour(dark), cv2.LINE_AA)
    for start, end in ((shoulder, elbow), (elbow, neck)):
        first, second = points(start, end).tolist()
        cv2.line(image, first, second, (70, 70, 75), 9, cv2.LINE_AA)
    hood = [_along(neck, aim + side, 13) for side in (90, -90)]
    cv2.fillPoly(image, [points(hood[0], left, right, hood[1])], colour(paint), cv2.LINE_AA)
    first, second = points(left, right).tolist()
    cv2.line(image, first, second, (255, 245, 190), 5, cv2.LINE_AA)
    for joint in (shoulder, elbow, neck):
        cv2.circle(image, tuple(points(joint)[0].tolist()), 9, colour(dark), -1, cv2.LINE_AA)
    return image, keypoints.astype(np.float32)
