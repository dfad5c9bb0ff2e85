"""Examples that come with the package: a support each, and photos to find its keypoints on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from edgecape.examples.lamps import EDGES, NAMES, draw_lamp
from edgecape.io.images import RGB, load_image
from edgecape.types import Support

FOLDER = Path(__file__).parent


@dataclass(frozen=True, eq=False)
class Example:
    name: str
    about: str
    support: Support
    queries: tuple[RGB | Path, ...]
    titles: tuple[str, ...]
    """Of the queries."""


def cat() -> Example:
    """A cat's face, the same cat seen differently, and a face of quite another kind."""
    photo = load_image(FOLDER / "cat.jpg")
    support = Support(
        photo,
        keypoints=[(169, 116), (319, 137), (264, 240), (258, 266), (252, 70)],
        skeleton=[(0, 1), (0, 2), (1, 2), (2, 3), (0, 4), (1, 4)],
        names=("left eye", "right eye", "nose", "mouth", "forehead"),
    )
    height, width = photo.shape[:2]
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)], dtype=np.float32)
    moved = np.array([(70, 0), (430, 60), (400, 330), (20, 250)], dtype=np.float32)
    seen = cv2.warpPerspective(photo, cv2.getPerspectiveTransform(corners, moved), (width, height + 40))
    darker = (seen * (0.6, 0.7, 0.85)).astype(np.uint8)
    about = "the same cat, tilted and in other light, and the face of an astronaut"
    return Example("cat", about, support, (darker, load_image(FOLDER / "astronaut.jpg")), ("the same cat", "astronaut"))


def lamp() -> Example:
    """Desk lamps drawn by the program, in other poses, colours and places."""
    picture, keypoints = draw_lamp(pose=(115.0, -75.0, 45.0), hue=8, ground=235, seed=1)
    others = (
        draw_lamp(pose=(75.0, -20.0, 65.0), hue=100, ground=215, seed=2)[0],
        draw_lamp(pose=(130.0, -100.0, 60.0), hue=60, ground=190, seed=3)[0],
    )
    support = Support(picture, keypoints, EDGES, names=NAMES)
    return Example("lamp", "two other lamps, in other poses", support, others, ("another lamp", "a third lamp"))


def all_examples() -> list[Example]:
    return [cat(), lamp()]
