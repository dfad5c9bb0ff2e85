"""Objects of a data set as tiles: cut out as they are evaluated, with keypoints, graphs and errors drawn on them."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from edgecape.data.crops import Crop, plain_crop
from edgecape.data.dataset import Dataset, Instance
from edgecape.drawing import draw_keypoints, in_rows
from edgecape.io.images import RGB, load_image

SIDE = 240
GROUND = 232  # grey of a tile without its photo
RED = (225, 25, 25)
Points = NDArray[np.float64]


class Tile:
    """One object in a square picture; points are photo pixels."""

    def __init__(self, instance: Instance, photos: bool, side: int = SIDE):
        self.size = (side, side)
        self.crop: Crop = plain_crop(instance.image, instance.box, self.size)
        self.instance = instance
        ground: RGB = np.full((side, side, 3), GROUND, dtype=np.uint8)
        self.image = self.crop.render(load_image(instance.image), self.size) if photos else ground

    def places(self, points: NDArray[np.floating], shown: NDArray[np.bool_]) -> NDArray[np.float32]:
        """In pixels of the tile; nan for what is not shown."""
        inside = self.crop.coordinates(points.astype(np.float32), self.size) * np.float32(self.size[0])
        return np.where(shown[:, None], inside, np.float32(np.nan))

    def with_graph(self, edges: Sequence[tuple[int, int]], weights: Sequence[float] | None = None) -> RGB:
        own = self.places(self.instance.keypoints, self.instance.visible)
        return draw_keypoints(self.image, own, edges, edge_weights=weights)

    def with_points(
        self, points: NDArray[np.floating], shown: NDArray[np.bool_], truth: NDArray[np.floating] | None = None
    ) -> RGB:
        """truth: lines lead there from what was found."""
        image = self.image.copy()
        found = self.places(points, shown)
        if truth is not None:
            for start, end in zip(found, self.places(truth, shown), strict=True):
                if np.isfinite(start).all() and np.isfinite(end).all():
                    a, b = (np.rint(place).astype(int).tolist() for place in (start, end))
                    cv2.line(image, a, b, RED, 2, cv2.LINE_AA)
        return draw_keypoints(image, found)


def zoomed(image: RGB, centre: NDArray[np.floating], part: float = 0.34) -> RGB:
    """A part of a tile round a place, as large as the whole."""
    side = image.shape[0]
    half = max(4, round(part * side / 2))
    x, y = (int(np.clip(round(float(c)), half, side - half)) for c in centre)
    return cv2.resize(image[y - half : y + half, x - half : x + half], (side, side), interpolation=cv2.INTER_CUBIC)


def grid(rows: Sequence[Sequence[tuple[str, RGB]]]) -> RGB:
    """Rows of captioned tiles."""
    drawn = [in_rows(row, columns=len(row)) for row in rows]
    width = max(row.shape[1] for row in drawn)
    padded = [np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0)), constant_values=255) for row in drawn]
    return np.concatenate(padded)


def edges_of(dataset: Dataset, instance: Instance) -> list[tuple[int, int]]:
    return list(dataset.category_of(instance).edges)
