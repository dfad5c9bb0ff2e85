"""A world in which matching is easy: an object is a few dots, each keypoint has its colour, features are colours."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from edgecape.data.dataset import Category, Dataset, Instance
from edgecape.data.features import FeatureStore
from edgecape.geometry import clip_box
from edgecape.model.settings import BackboneSettings

COLOURS = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0), (0, 255, 255))
WIDTH, HEIGHT = 90, 70


def _apart(rng: np.random.Generator, K: int) -> NDArray[np.float32]:
    """Points of which no two are so near that their dots touch."""
    while True:
        points = rng.uniform((12, 12), (WIDTH - 12, HEIGHT - 12), (K, 2)).astype(np.float32)
        if min(np.linalg.norm(a - b) for a, b in combinations(points, 2)) > 20:
            return points


class ColourBackbone(nn.Module):
    """The colour of each 4 × 4 pixels; counts the frames it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = BackboneSettings(name="colours", image_size=(64, 64))
        self.nothing = nn.Parameter(nn.init.zeros_(nn.Linear(1, 1).weight))
        self.model = SimpleNamespace(channels=[3], out_indices=(1,))
        self.frames = 0

    def forward(self, pixels: Tensor) -> Tensor:
        self.frames += len(pixels)
        return F.avg_pool2d(pixels, 4)

    def lower(self, pixels: Tensor, blocks: int = 0) -> Tensor:
        return self(pixels)


def store(folder: Path | None = None) -> FeatureStore:
    return FeatureStore(ColourBackbone(), "colours", folder, batch=4)  # type: ignore[arg-type]


def dots(folder: Path, objects: tuple[int, ...] = (6, 5), hide: float = 0.2, seed: int = 0) -> Dataset:
    """One category per number of objects, with 3, 4, … keypoints of which a share is hidden (the first never is)."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    categories = tuple(
        Category(
            id=10 + index,
            name=f"dots{index}",
            K=3 + index,
            edges=tuple((k, k + 1) for k in range(2 + index)),
            names=tuple(f"dot {k}" for k in range(3 + index)),
            supercategory="even" if index % 2 == 0 else "odd",
        )
        for index in range(len(objects))
    )
    instances = []
    for category, number in enumerate(objects):
        K = categories[category].K
        for _ in range(number):
            keypoints = _apart(rng, K)
            visible = rng.random(K) >= hide
            visible[0] = True
            picture = np.full((HEIGHT, WIDTH, 3), 90, dtype=np.uint8)
            for (x, y), colour in zip(
                keypoints[visible].round().astype(int), np.array(COLOURS)[:K][visible], strict=True
            ):
                cv2.circle(picture, (int(x), int(y)), 5, [int(value) for value in colour], -1)
            path = folder / f"{len(instances)}.png"
            Image.fromarray(picture).save(path)
            low, high = keypoints.min(0) - 8, keypoints.max(0) + 8
            box = clip_box((*low, *(high - low)), WIDTH, HEIGHT)
            assert box is not None
            shown = np.where(visible[:, None], keypoints, 0)
            instances.append(Instance(len(instances), category, path, box, shown, visible))
    return Dataset("dots", categories, tuple(instances))
