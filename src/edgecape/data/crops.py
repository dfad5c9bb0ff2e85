"""Crops of objects: how a frame is cut from a photo, seen and changed.

An augmented crop is a pure function of (settings, seed, object, number): streams differ from crop to crop and from
epoch to epoch, and are reproducible from one seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgecape.geometry import Matrix, apply, crop_transform, warp
from edgecape.io.images import RGB
from edgecape.matching.views import MIRRORED, UPRIGHT, compose, show, transform
from edgecape.types import Box


@dataclass(frozen=True)
class AugmentSettings:
    """Defaults are the paper's; the stronger ones are off."""

    scale: float = 0.15
    """Deviation and limit of the crop's relative size."""
    rotation: float = 15.0
    """Deviation of the rotation in degrees; its limit is twice that."""
    rotation_probability: float = 0.6
    strong_probability: float = 0.0
    """Share of views that get all of the following."""
    strong_scale: float = 0.4
    """Crop size between 1/(1 + s) and 1 + s."""
    strong_rotation: float = 45.0
    strong_shift: float = 0.12
    """Largest shift, in frame sides."""
    strong_perspective: float = 0.12
    """Largest move of a frame corner, in frame sides."""
    colour: float = 0.4
    """Largest relative change of brightness, contrast and saturation."""
    blur_probability: float = 0.2
    occlusion_probability: float = 0.3
    """A patch of one colour over part of the frame."""
    flip_probability: float = 0.0
    """Mirror a view and swap its left and right keypoints; only for categories whose symmetry is known."""


PLAIN = AugmentSettings(scale=0.0, rotation=0.0, rotation_probability=0.0)


COVER = (124, 116, 104)  # ImageNet's mean colour: a patch that says nothing


class PixelChanges(NamedTuple):
    seed: tuple[int, ...]
    colour: float
    blur_probability: float
    occlusion_probability: float


@dataclass(frozen=True, eq=False)
class Crop:
    """How one frame is made from a photo: cut out, then seen in a view, then changed in its pixels."""

    photo: Path
    transform: Matrix  # photo pixels → frame pixels, before the view
    view: int = UPRIGHT  # of the frame (matching/views.py)
    swapped: bool = False  # left and right keypoints have changed places
    changes: PixelChanges | None = None
    cover: tuple[float, ...] = ()  # left, top, right, bottom of a patch over the frame, in [0, 1]

    def render(self, image: RGB, size: tuple[int, int]) -> RGB:
        frame = show(warp(image, self.transform, size), self.view)
        if self.changes is not None:
            frame = change_pixels(frame, self.changes)
        if self.cover:
            left, top, right, bottom = (round(edge * size[1 - axis % 2]) for axis, edge in enumerate(self.cover))
            frame = frame.copy()
            frame[top:bottom, left:right] = COVER
        return frame

    def coordinates(self, points: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
        """Photo pixels (..., 2) → coordinates in [0, 1] of the frame."""
        height, width = size
        return (apply(transform(self.view, size) @ self.transform, points) / (width, height)).astype(np.float32)

    def seen(self, view: int) -> Crop:
        """The same frame in another view; keypoints keep their names, and a patch over it stays where it is."""
        cover = self.cover
        if cover:
            corners = apply(transform(view, (2, 2)), np.array(cover).reshape(2, 2))  # pixels 0 and 1: a unit square
            cover = (*corners.min(axis=0).tolist(), *corners.max(axis=0).tolist())
        return replace(self, view=compose(view, self.view), cover=cover)

    def covered(self, share: float, seed: tuple[int, ...]) -> Crop:
        """The same frame with a share of it behind a patch: keypoints there are known by the others only."""
        rng = np.random.default_rng(seed)
        aspect = math.exp(rng.uniform(-0.5, 0.5))
        sides = np.minimum(1.0, np.sqrt(share) * np.array((aspect, 1 / aspect)))
        corner = rng.uniform(0, 1 - sides)
        return replace(self, cover=(*corner.tolist(), *(corner + sides).tolist()))

    @property
    def key(self) -> str:
        """All that the frame depends on besides the photo, for the feature cache."""
        view = f"view {self.view}" if self.view else ""
        changes = "" if self.changes is None else repr(tuple(self.changes))
        return self.transform.tobytes().hex() + view + changes + (repr(self.cover) if self.cover else "")


def plain_crop(photo: Path, box: Box, size: tuple[int, int], scale: float = 1.0) -> Crop:
    """The evaluation crop of an object, or a larger or smaller one."""
    return Crop(photo, crop_transform(box, size, scale))


def augmented_crop(
    photo: Path,
    box: Box,
    size: tuple[int, int],
    settings: AugmentSettings,
    seed: int,
    instance: int,
    number: int,
    symmetric: bool = False,
) -> Crop:
    """Crop `number` of an object; symmetric: it may be mirrored, because its left and right keypoints are known."""
    rng = np.random.default_rng((seed, instance, number))
    scale = float(np.clip(1 + settings.scale * rng.standard_normal(), 1 - settings.scale, 1 + settings.scale))
    rotation = float(np.clip(settings.rotation * rng.standard_normal(), -2 * settings.rotation, 2 * settings.rotation))
    if rng.random() >= settings.rotation_probability:
        rotation = 0.0
    if rng.random() >= settings.strong_probability:
        crop = Crop(photo, crop_transform(box, size, scale, rotation))
    else:
        crop = _strong_crop(photo, box, size, settings, rng, (seed, instance, number, 1))
    flip = symmetric and np.random.default_rng((seed, instance, number, 2)).random() < settings.flip_probability
    return replace(crop.seen(MIRRORED), swapped=True) if flip else crop


def _strong_crop(
    photo: Path,
    box: Box,
    size: tuple[int, int],
    settings: AugmentSettings,
    rng: np.random.Generator,
    pixel_seed: tuple[int, ...],
) -> Crop:
    limit = math.log1p(settings.strong_scale)
    transform = crop_transform(
        box,
        size,
        scale=math.exp(rng.uniform(-limit, limit)),
        rotation=rng.uniform(-settings.strong_rotation, settings.strong_rotation),
        shift=tuple(rng.uniform(-settings.strong_shift, settings.strong_shift, 2)),
    )
    height, width = size
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)], dtype=np.float32)
    moved = corners + rng.uniform(-1, 1, (4, 2)).astype(np.float32) * settings.strong_perspective * min(size)
    perspective = cv2.getPerspectiveTransform(corners, moved.astype(np.float32))
    amounts = (settings.colour, settings.blur_probability, settings.occlusion_probability)
    return Crop(photo, perspective @ transform, changes=PixelChanges(pixel_seed, *amounts))


def change_pixels(frame: RGB, changes: PixelChanges) -> RGB:
    """Colour, blur and occlusion; the geometry stays."""
    rng = np.random.default_rng(changes.seed)
    pixels = frame.astype(np.float32)
    brightness, contrast, saturation = 1 + rng.uniform(-changes.colour, changes.colour, 3)
    grey = pixels.mean(axis=2, keepdims=True)
    pixels = grey + (pixels - grey) * saturation
    pixels = (pixels - pixels.mean()) * contrast + pixels.mean() * brightness
    if rng.random() < changes.blur_probability:
        pixels = cv2.GaussianBlur(pixels, (0, 0), rng.uniform(0.5, 2.0))
    if rng.random() < changes.occlusion_probability:
        height, width = frame.shape[:2]
        h, w = rng.integers(height // 12, height // 4), rng.integers(width // 12, width // 4)
        top, left = rng.integers(0, height - h), rng.integers(0, width - w)
        pixels[top : top + h, left : left + w] = rng.uniform(0, 255, 3)
    return pixels.clip(0, 255).astype(np.uint8)


def inside(coordinates: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which frame coordinates (..., 2) lie in the frame."""
    return np.all((coordinates >= 0) & (coordinates < 1), axis=-1)
