"""The picture of the model card that shows what goes wrong, from bundled photos and drawn objects only.

    python tools/failures.py

Cases were chosen because they fail; what is written over them is measured, so it is true of whatever model is run.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from edgecape.drawing import draw_keypoints
from edgecape.evaluation.calibration import RIGHT_WITHIN
from edgecape.examples import FOLDER, cat, lamp
from edgecape.examples.lamps import draw_lamp
from edgecape.io.files import atomic_path
from edgecape.io.images import RGB, load_image
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
    points = np.stack((195 + 430 * across / away, 128 - 430 * up / away), axis=1)
    image = background(390, 260, 95, (196, 178, 160), seed)
    places = np.rint(points).astype(np.int32)
    for corner in np.argsort(-away[:4]):
        cv2.line(image, places[corner].tolist(), places[corner + 4].tolist(), paint(hue, 120), 10, cv2.LINE_AA)
    cv2.fillPoly(image, [places[:4]], paint(hue, 205), cv2.LINE_AA)
    cv2.polylines(image, [places[:4]], True, paint(hue, 150), 4, cv2.LINE_AA)
    return image, points.astype(np.float32)


BUS_WINDOWS = 8
BUS_EDGES = (
    (0, 1),
    (0, 2),
    (2, 3),
    (1, 3),
    *((n, n + 1) for n in range(4, 3 + BUS_WINDOWS)),
    (0, 4),
    (1, 3 + BUS_WINDOWS),
)


def draw_bus(hue: int, seed: int) -> tuple[RGB, Points]:
    """A bus from its side, front to the right. Keypoints: tail light, headlight, wheels, windows from the rear."""
    image = background(390, 260, 200, (105, 105, 110), seed)
    left, right, top, bottom = 35, 355, 65, 185
    cv2.rectangle(image, (left, top), (right, bottom), paint(hue, 205), -1)
    cv2.rectangle(image, (left, 134), (right, 144), (245, 245, 245), -1)
    windows = [(left + 27 + 38 * n, 102) for n in range(BUS_WINDOWS)]
    for x, y in windows:
        cv2.rectangle(image, (x - 15, y - 22), (x + 15, y + 22), (70, 95, 115), -1)
    wheels = [(left + 64, bottom + 4), (left + 256, bottom + 4)]
    for wheel in wheels:
        cv2.circle(image, wheel, 24, (35, 35, 35), -1, cv2.LINE_AA)
        cv2.circle(image, wheel, 11, (170, 170, 170), -1, cv2.LINE_AA)
    cv2.rectangle(image, (left, 150), (left + 8, 168), (200, 30, 30), -1)
    cv2.rectangle(image, (right - 8, 150), (right, 168), (255, 240, 150), -1)
    return image, np.array([(left + 4, 159), (right - 4, 159), *wheels, *windows], dtype=np.float32)


# --- cases ---------------------------------------------------------------------------------------------------


def bus() -> Support:
    return Support(*draw_bus(hue=15, seed=1), BUS_EDGES)


def table() -> Support:
    return Support(*draw_table(25, 20, hue=15, seed=1), TABLE_EDGES)


def other_side() -> Case:
    image, points = draw_bus(hue=110, seed=2)
    points[:, 0] = image.shape[1] - 1 - points[:, 0]
    return Case("Seen from its other side", bus(), np.ascontiguousarray(image[:, ::-1]), points)


def repeated_parts() -> Case:
    image, points = draw_bus(hue=110, seed=2)
    height, width = image.shape[:2]
    scale, left, above = 0.6, 5, 50
    small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    borders = (above, height - above - small.shape[0], left, width - left - small.shape[1])
    farther = cv2.copyMakeBorder(small, *borders, cv2.BORDER_REPLICATE)
    (x, y), (w, h) = points.min(0), np.ptp(points, axis=0)
    box = (x * scale + left, y * scale + above, w * scale, h * scale)
    return Case("Repeated parts, farther away", bus(), farther, points * scale + (left, above), box)


def symmetric() -> Case:
    return Case("Symmetric, four legs alike", table(), *draw_table(-40, 20, hue=100, seed=2))


def viewpoint() -> Case:
    return Case("Unlike viewpoint, turned and from above", table(), *draw_table(70, 50, hue=100, seed=2))


def upside_down() -> Case:
    image, points = draw_lamp(pose=(75.0, -20.0, 65.0), hue=100, ground=215, seed=2)
    turned = np.ascontiguousarray(image[::-1, ::-1])
    return Case("Upside down", lamp().support, turned, np.array(image.shape[1::-1], dtype=np.float32) - 1 - points)


def occluded() -> Case:
    support = cat().support
    photo = support.image.copy()
    cv2.rectangle(photo, (120, 60), (275, 300), (150, 120, 90), -1)
    return Case("Occluded, one eye, nose and mouth hidden", support, photo, support.keypoints)


def tiny() -> Case:
    support = cat().support
    photo, left, top, width, height = load_image(FOLDER / "astronaut.jpg").copy(), 8, 140, 66, 44
    photo[top : top + height, left : left + width] = cv2.resize(
        support.image, (width, height), interpolation=cv2.INTER_AREA
    )
    scale = np.array([width, height], dtype=np.float32) / support.image.shape[1::-1]
    truth = support.keypoints * scale + (left, top)
    return Case("Tiny in a big photo", support, photo, truth, (left, top, width, height))


CASES = (other_side, repeated_parts, symmetric, viewpoint, upside_down, occluded, tiny)


# --- the picture ---------------------------------------------------------------------------------------------


def fit(image: RGB, *points: Points) -> tuple[RGB, list[Points]]:
    """A picture and points on it in the size of the grid: marks drawn then are alike in all pictures."""
    scale = min(WIDTH / image.shape[1], HEIGHT / image.shape[0])
    size = (round(image.shape[1] * scale), round(image.shape[0] * scale))
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA), [place * scale for place in points]


def tile(image: RGB) -> RGB:
    canvas = np.full((HEIGHT, WIDTH + GAP, 3), 255, dtype=np.uint8)
    top, left = (HEIGHT - image.shape[0]) // 2, (WIDTH + GAP - image.shape[1]) // 2
    canvas[top : top + image.shape[0], left : left + image.shape[1]] = image
    return canvas


def text(*columns: str, size: float) -> RGB:
    """A line of text over the grid, its parts side by side."""
    strip = np.full((26, 3 * (WIDTH + GAP), 3), 255, dtype=np.uint8)
    for n, words in enumerate(columns):
        place = (GAP + n * (WIDTH + GAP), 18)
        cv2.putText(strip, words, place, cv2.FONT_HERSHEY_SIMPLEX, size, DARK, 1, cv2.LINE_AA)
    return strip


def label(image: RGB, points: Points, scores: NDArray[np.float32]) -> RGB:
    for (x, y), score in zip(points, scores, strict=True):
        for colour, thick in (((255, 255, 255), 3), (DARK, 1)):
            place = (round(x) + 5, round(y) - 4)
            cv2.putText(image, f"{score:.2f}", place, cv2.FONT_HERSHEY_SIMPLEX, 0.36, colour, thick, cv2.LINE_AA)
    return image


def story(case: Case, model: EdgeCape) -> RGB:
    """What was measured, in words, over the support, what was found, and the truth."""
    height, width = case.query.shape[:2]
    limit = RIGHT_WITHIN * max((case.box or (0, 0, width, height))[2:])
    pose, helped = model.predict(model.prompt(case.support), [case.query, case.query], boxes=[None, case.box])
    right, right_helped = (np.linalg.norm(one.keypoints - case.truth, axis=1) < limit for one in (pose, helped))
    summary = f"{case.title}: {right.sum()} of {len(right)} right"
    if not right.all():
        summary += f", mean score of the others {pose.scores[~right].mean():.2f}"
    if case.box:
        summary += f"; with its box {right_helped.sum()} right"
    print(summary)

    edges = case.support.skeleton or ()
    marked, (places,) = fit(case.support.image, case.support.keypoints)
    query, (found, truth) = fit(case.query, pose.keypoints, case.truth)
    misses = query.copy()
    for start, end in zip(found[~right], truth[~right], strict=True):
        cv2.line(misses, np.rint(start).astype(int).tolist(), np.rint(end).astype(int).tolist(), RED, 1, cv2.LINE_AA)
    pictures = (
        draw_keypoints(marked, places, edges),
        label(draw_keypoints(misses, found), found, pose.scores),
        draw_keypoints(query, truth, edges),
    )
    return np.concatenate((text(summary, size=0.5), np.concatenate([tile(picture) for picture in pictures], axis=1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a model folder; the default model if not given")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    model = EdgeCape.from_pretrained(options.model, device="cpu")
    right = f"truth (right: within {RIGHT_WITHIN:.0%} of the longer side)"
    heading = text("marked", "found, with scores; red to the truth", right, size=0.45)
    grid = np.concatenate([heading, *(story(case(), model) for case in CASES)])
    with atomic_path(options.out) as temporary:
        Image.fromarray(grid).save(temporary, quality=75, optimize=True)
    print(f"{options.out}: {options.out.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
