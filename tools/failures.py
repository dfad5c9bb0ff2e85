"""The picture of the model card that shows what goes wrong, from bundled photos and drawn objects only.

    python tools/failures.py

Cases were chosen because they fail; what is written over them is measured, so it is true of whatever model is run.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from edgecape.calibration import RIGHT_WITHIN
from edgecape.drawing import captioned, draw_keypoints
from edgecape.examples import FOLDER, cat, lamp
from edgecape.examples.lamps import draw_lamp
from edgecape.files import atomic_path
from edgecape.images import RGB, load_image
from edgecape.predictor import EdgeCape
from edgecape.types import Box, Support

OUT = Path(__file__).parents[1] / "docs/images/failures.jpg"
Points = NDArray[np.float32]
WIDTH, HEIGHT, GAP = 330, 220, 8  # of a picture in the grid, and round it
RED, DARK = (225, 25, 25), (30, 30, 30)


@dataclass(frozen=True, eq=False)
class Case:
    title: str
    support: Support
    query: RGB
    truth: Points  # (K, 2), also where a keypoint is hidden
    box: Box | None = None  # of the object, if it is not the whole picture; the model is not told


# --- drawn objects -------------------------------------------------------------------------------------------


def background(width: int, height: int, horizon: int, floor: tuple[int, int, int], seed: int) -> RGB:
    image = np.full((height, width, 3), 225, dtype=np.uint8)
    image[horizon:] = floor
    return image - np.random.default_rng(seed).integers(0, 10, image.shape, dtype=np.uint8)


def paint(hue: int, value: int) -> tuple[int, ...]:
    return tuple(cv2.cvtColor(np.array([[[hue, 170, value]]], dtype=np.uint8), cv2.COLOR_HSV2RGB)[0, 0].tolist())


TABLE_EDGES = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 5), (2, 6), (3, 7))


def draw_table(azimuth: float, elevation: float, hue: int, seed: int) -> tuple[RGB, Points]:
    """A table seen from a direction in degrees. Keypoints: the corners of its top, and the feet below them."""
    corners = ((-1.0, -0.6), (1.0, -0.6), (1.0, 0.6), (-1.0, 0.6))
    solid = np.array([(x, y, z) for z in (0.55, -0.55) for x, y in corners])
    turn, tilt = math.radians(azimuth), math.radians(elevation)
    across = solid[:, 0] * math.cos(turn) - solid[:, 1] * math.sin(turn)
    back = solid[:, 0] * math.sin(turn) + solid[:, 1] * math.cos(turn)
    up = solid[:, 2] * math.cos(tilt) + back * math.sin(tilt)
    away = 5 + back * math.cos(tilt) - solid[:, 2] * math.sin(tilt)
    points = np.stack((190 + 480 * across / away, 135 - 480 * up / away), axis=1)
    image = background(380, 270, 95, (196, 178, 160), seed)
    places = np.rint(points).astype(np.int32)
    for corner in np.argsort(-away[:4]):
        cv2.line(image, places[corner].tolist(), places[corner + 4].tolist(), paint(hue, 120), 10, cv2.LINE_AA)
    cv2.fillPoly(image, [places[:4]], paint(hue, 205), cv2.LINE_AA)
    cv2.polylines(image, [places[:4]], True, paint(hue, 150), 4, cv2.LINE_AA)
    return image, points.astype(np.float32)


BUS_EDGES = ((0, 1), (0, 2), (1, 7), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (8, 9), (0, 8), (1, 9))


def draw_bus(left: int, hue: int, seed: int) -> tuple[RGB, Points]:
    """A bus from its side, front to the right. Keypoints: tail light, headlight, six windows from the rear, wheels."""
    image = background(400, 240, 185, (105, 105, 110), seed)
    right, top, bottom, step = left + 320, 55, 172, 50
    cv2.rectangle(image, (left, top), (right, bottom), paint(hue, 205), -1)
    cv2.rectangle(image, (left, 124), (right, 134), (245, 245, 245), -1)
    windows = [(left + 35 + n * step, 92) for n in range(6)]
    for x, y in windows:
        cv2.rectangle(image, (x - 21, y - 22), (x + 21, y + 22), (70, 95, 115), -1)
    wheels = [(left + 64, bottom + 4), (left + 256, bottom + 4)]
    for wheel in wheels:
        cv2.circle(image, wheel, 24, (35, 35, 35), -1, cv2.LINE_AA)
        cv2.circle(image, wheel, 11, (170, 170, 170), -1, cv2.LINE_AA)
    cv2.rectangle(image, (left, 140), (left + 8, 158), (200, 30, 30), -1)
    cv2.rectangle(image, (right - 8, 140), (right, 158), (255, 240, 150), -1)
    points = [(left + 4, 149), (right - 4, 149), *windows, *wheels]
    return image, np.array(points, dtype=np.float32)


# --- cases ---------------------------------------------------------------------------------------------------


def other_side() -> Case:
    image, points = draw_bus(40, hue=110, seed=2)
    points[:, 0] = image.shape[1] - 1 - points[:, 0]
    mirrored = np.ascontiguousarray(image[:, ::-1])
    return Case("seen from its other side: front and rear", bus(), mirrored, points)


def repeated_parts() -> Case:
    return Case("repeated parts: which window is which", bus(), *draw_bus(75, hue=110, seed=2))


def bus() -> Support:
    return Support(*draw_bus(40, hue=15, seed=1), BUS_EDGES)


def symmetric() -> Case:
    return Case("symmetric: four legs alike, from another side", table(), *draw_table(-25, 20, hue=100, seed=2))


def viewpoint() -> Case:
    return Case("unlike viewpoint: from above", table(), *draw_table(25, 65, hue=100, seed=2))


def table() -> Support:
    return Support(*draw_table(25, 20, hue=15, seed=1), TABLE_EDGES)


def upside_down() -> Case:
    image, points = draw_lamp(pose=(75.0, -20.0, 65.0), hue=100, ground=215, seed=2)
    turned = np.ascontiguousarray(image[::-1, ::-1])
    return Case("upside down", lamp().support, turned, np.array(image.shape[1::-1], dtype=np.float32) - 1 - points)


def occluded() -> Case:
    support = cat().support
    photo = support.image.copy()
    cv2.rectangle(photo, (120, 60), (275, 300), (150, 120, 90), -1)
    return Case("occluded: one eye, nose and mouth are hidden", support, photo, support.keypoints)


def tiny() -> Case:
    support = cat().support
    photo, left, top, width, height = load_image(FOLDER / "astronaut.jpg").copy(), 8, 140, 66, 44
    photo[top : top + height, left : left + width] = cv2.resize(
        support.image, (width, height), interpolation=cv2.INTER_AREA
    )
    scale = np.array([width, height], dtype=np.float32) / support.image.shape[1::-1]
    truth = support.keypoints * scale + (left, top)
    return Case("tiny, no box given: another face takes the cat's keypoints", support, photo, truth, (left, top, width, height))


CASES = (other_side, repeated_parts, symmetric, viewpoint, upside_down, occluded, tiny)


# --- the picture ---------------------------------------------------------------------------------------------


def fit(image: RGB, *points: Points) -> tuple[RGB, list[Points]]:
    """The picture in the size of the grid, so that marks on it are alike in all, with its points."""
    scale = min(WIDTH / image.shape[1], HEIGHT / image.shape[0])
    size = (round(image.shape[1] * scale), round(image.shape[0] * scale))
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC), [p * scale for p in points]


def centred(image: RGB) -> RGB:
    canvas = np.full((HEIGHT, WIDTH, 3), 255, dtype=np.uint8)
    top, left = (HEIGHT - image.shape[0]) // 2, (WIDTH - image.shape[1]) // 2
    canvas[top : top + image.shape[0], left : left + image.shape[1]] = image
    return canvas


def write(image: RGB, text: str, size: float) -> None:
    cv2.putText(image, text, (GAP, 20), cv2.FONT_HERSHEY_SIMPLEX, size, DARK, 1, cv2.LINE_AA)


def line(width: int, text: str, size: float) -> RGB:
    strip = np.full((28, width, 3), 255, dtype=np.uint8)
    write(strip, text, size)
    return strip


def row(case: Case, model: EdgeCape) -> RGB:
    prompt = model.prompt(case.support)
    height, width = case.query.shape[:2]
    pose = model.predict(prompt, [case.query])[0]
    limit = RIGHT_WITHIN * max((case.box or (0, 0, width, height))[2:])
    ...
