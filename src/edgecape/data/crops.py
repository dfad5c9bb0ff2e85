"""Augmented views of an object: a transform from photo to frame, and changes of the pixels.

A view is a pure function of (settings, seed, object, view number): streams differ from view to view and from epoch
to epoch, and are reproducible from one seed. View 0 of the settings `plain` is the evaluation crop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from edgecape.geometry import Matrix, apply, crop_transform, mirror_transform, quarter_turn, warp
from edgecape.io.images import RGB
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


@dataclass(frozen=True, eq=False)
class View:
    """How one frame is made from a photo."""

    transform: Matrix  # photo pixels → frame pixels
    pixel_seed: tuple[int, ...] | None = None  # None: pixels stay as they are
    mirrored: bool = False  # left and right keypoints have changed places

    def render(self, image: RGB, size: tuple[int, int], settings: AugmentSettings) -> RGB:
        frame = warp(image, self.transform, size)
        if self.pixel_seed is None:
            return frame
        return change_pixels(frame, np.random.default_rng(self.pixel_seed), settings)

    def coordinates(self, points: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
        """Photo pixels (..., 2) → coordinates in [0, 1] of the frame."""
        height, width = size
        return (apply(self.transform, points) / (width, height)).astype(np.float32)

    def mirror_image(self, size: tuple[int, int]) -> View:
        """The same frame seen in a mirror; keypoints keep their names."""
        return replace(self, transform=mirror_transform(size) @ self.transform)

    def turned(self, size: tuple[int, int], quarters: int) -> View:
        """The same frame turned to the left by so many quarters."""
        return replace(self, transform=quarter_turn(size, quarters) @ self.transform)

    def key(self, settings: AugmentSettings) -> str:
        """All that the frame depends on besides the photo, for the feature cache."""
        changes = (settings.colour, settings.blur_probability, settings.occlusion_probability)
        pixels = "" if self.pixel_seed is None else f"{self.pixel_seed}{changes}"
        return self.transform.tobytes().hex() + pixels


def make_view(
    box: Box,
    size: tuple[int, int],
    settings: AugmentSettings,
    seed: int,
    instance: int,
    number: int,
    symmetric: bool = False,
) -> View:
    """View `number` of an object; symmetric: it may be mirrored, because its left and right keypoints are known."""
    view = _unmirrored_view(box, size, settings, seed, instance, number)
    rng = np.random.default_rng((seed, instance, number, 2))
    if not symmetric or rng.random() >= settings.flip_probability:
        return view
    return replace(view.mirror_image(size), mirrored=True)


def _unmirrored_view(
    box: Box, size: tuple[int, int], settings: AugmentSettings, seed: int, instance: int, number: int
) -> View:
    rng = np.random.default_rng((seed, instance, number))
    scale = float(np.clip(1 + settings.scale * rng.standard_normal(), 1 - settings.scale, 1 + settings.scale))
    rotation = float(np.clip(settings.rotation * rng.standard_normal(), -2 * settings.rotation, 2 * settings.rotation))
    if rng.random() >= settings.rotation_probability:
        rotation = 0.0
    if rng.random() >= settings.strong_probability:
        return View(crop_transform(box, size, scale, rotation))
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
    return View(perspective @ transform, (seed, instance, number, 1))


def change_pixels(frame: RGB, rng: np.random.Generator, settings: AugmentSettings) -> RGB:
    """Colour, blur and occlusion; the geometry stays."""
    pixels = frame.astype(np.float32)
    brightness, contrast, saturation = 1 + rng.uniform(-settings.colour, settings.colour, 3)
    grey = pixels.mean(axis=2, keepdims=True)
    pixels = grey + (pixels - grey) * saturation
    pixels = (pixels - pixels.mean()) * contrast + pixels.mean() * brightness
    if rng.random() < settings.blur_probability:
        pixels = cv2.GaussianBlur(pixels, (0, 0), rng.uniform(0.5, 2.0))
    if rng.random() < settings.occlusion_probability:
        height, width = frame.shape[:2]
        h, w = rng.integers(height // 12, height // 4), rng.integers(width // 12, width // 4)
        top, left = rng.integers(0, height - h), rng.integers(0, width - w)
        pixels[top : top + h, left : left + w] = rng.uniform(0, 255, 3)
    return pixels.clip(0, 255).astype(np.uint8)


def inside(coordinates: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which frame coordinates (..., 2) lie in the frame."""
    return np.all((coordinates >= 0) & (coordinates < 1), axis=-1)
