"""A picture of an object of a kind: proportions, joints, colours, camera, light and background are new each time; where
its keypoints are, and which of them can be seen, is known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edgecape.io.images import RGB, load_image
from edgecape.solids.kinds import MIRROR, Kind, Places, around, is_doubled, place_of, posed, random_colour
from edgecape.solids.shapes import Vectors, hit, surface, unit
from edgecape.types import Box

SMALLEST = 0.005  # share of a picture that an object takes
CORNERS = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * 0.8
UP = np.array((0.0, 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class Drawn:
    image: RGB
    keypoints: NDArray[np.float32]  # (K, 2), pixels
    visible: NDArray[np.bool_]  # (K,)
    box: Box  # x, y, width, height


def picture_of(kind: Kind, rng: np.random.Generator, size: int, backgrounds: Sequence[Path] = ()) -> Drawn:
    """backgrounds: photos; without, plain ones and patterns."""
    while True:
        places = _posed(kind, rng)
        camera = _camera(kind, places, rng)
        depth, colours = _traced(kind, places, camera, camera.rays(size), rng)
        seen = np.isfinite(depth).reshape(size, size)
        keypoints, visible = _keypoints(kind, places, camera, depth.reshape(size, size))
        if seen.mean() >= SMALLEST and visible.any():
            break
    behind = _background(rng, size, backgrounds).reshape(-1, 3)
    pixels = np.where(seen.reshape(-1, 1), colours, behind).reshape(size, size, 3)
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    left, top, right, bottom = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    box = tuple(float(edge) for edge in (left, top, right - left, bottom - top))
    image = (255 * np.clip(pixels, 0, 1)).astype(np.uint8)
    if rng.random() < 0.5:  # not every photo is sharp
        image = cv2.GaussianBlur(image, (0, 0), rng.uniform(0.3, 1.2))
    return Drawn(image, keypoints, visible, (box[0], box[1], box[2], box[3]))


def _posed(kind: Kind, rng: np.random.Generator) -> Places:
    """Sizes are those of a part on both sides, joints turn on each side alone."""
    count = len(kind.parts)
    bends = np.array([part.bend for part in kind.parts])[:, None, None]
    turns = unit(rng.normal(size=(count, 3, 3))) * rng.normal(size=(count, 3, 1)) * bends * kind.suppleness
    return posed(kind.parts, np.exp(kind.spread * rng.normal(size=(count, 3))), turns)


# --- camera ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Camera:
    eye: Vectors
    axes: Vectors  # (3, 3): right, up, back
    middle: Vectors  # (2,) of what is seen, on the plane one length ahead
    half: float  # half the side of what is seen there

    def rays(self, size: int) -> Vectors:
        """(size², 3) directions, one length ahead."""
        grid = ((np.arange(size) + 0.5) / size * 2 - 1) * self.half
        x, y = np.meshgrid(self.middle[0] + grid, self.middle[1] - grid)
        return np.asarray(np.stack([x.ravel(), y.ravel(), np.full(x.size, -1.0)], axis=1) @ self.axes)

    def project(self, points: Vectors) -> tuple[Vectors, Vectors]:
        """Where points are in the picture, in [0, 1], and how far ahead."""
        x, y, back = self.axes @ (points - self.eye).T
        flat = np.stack([x / -back, y / -back], axis=1)
        return ((flat - self.middle) / self.half * (1, -1) + 1) / 2, -back


def _camera(kind: Kind, places: Places, rng: np.random.Generator) -> Camera:
    sideways = (kind.yaw + 0.45 * rng.normal()) * rng.choice((-1, 1))  # from its side, or from the opposite one
    yaw = rng.uniform(0, 2 * np.pi) if kind.all_round else sideways
    pitch = float(np.clip(kind.pitch + 0.25 * rng.normal(), -0.5, 1.4))
    back = np.array((np.cos(pitch) * np.cos(yaw), np.cos(pitch) * np.sin(yaw), np.sin(pitch)))
    right = np.array((-np.sin(yaw), np.cos(yaw), 0.0))
    roll = 0.12 * rng.normal()
    up = np.cross(back, right)
    right, up = np.cos(roll) * right + np.sin(roll) * up, np.cos(roll) * up - np.sin(roll) * right
    corners = np.concatenate([middle + CORNERS @ shape.T for shape, middle in places.values()])
    middle = (corners.max(axis=0) + corners.min(axis=0)) / 2
    radius = np.linalg.norm(corners - middle, axis=1).max()
    camera = Camera(middle + back * radius * rng.uniform(2.2, 7), np.stack([right, up, back]), np.zeros(2), 1.0)
    flat = (camera.project(corners)[0] * 2 - 1) * (1, -1)
    low, high = flat.min(axis=0), flat.max(axis=0)
    return Camera(camera.eye, camera.axes, (low + high) / 2, float((high - low).max()) / 2 * rng.uniform(1.1, 1.35))


def _keypoints(
    kind: Kind, places: Places, camera: Camera, depth: Vectors
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """A keypoint can be seen if its part, or nothing nearer, is within two pixels of it."""
    size = len(depth)
    points = np.array([place_of(landmark, kind.parts, places) for landmark in kind.landmarks])
    flat, ahead = camera.project(points)
    pixels = flat * size
    reach = np.linalg.norm(points - points.mean(axis=0), axis=1).max()
    visible = np.asarray(((flat >= 0) & (flat < 1)).all(axis=1))
    for k in np.flatnonzero(visible):
        x, y = pixels[k].astype(int)
        near = depth[max(y - 2, 0) : y + 3, max(x - 2, 0) : x + 3]
        farthest = np.where(np.isfinite(near), near, -np.inf).max()
        part, _ = around(kind.landmarks[k], kind.parts, places)
        visible[k] = ahead[k] <= farthest + 0.12 * _size(part) + 0.02 * reach
    return pixels.astype(np.float32), visible


def _size(shape: Vectors) -> float:
    return float(np.cbrt(abs(np.linalg.det(shape))))


# --- surfaces ----------------------------------------------------------------------------------------------


class Pattern:
    """A colour that changes to another along random waves: a texture in space, or on a plane."""

    def __init__(self, rng: np.random.Generator, waves: int = 24):
        rate = np.exp(rng.uniform(0, np.log(14), waves)) * rng.uniform(0.5, 1.2)
        self.waves = unit(rng.normal(size=(waves, 3))) * rate[:, None]
        self.phases = rng.uniform(0, 2 * np.pi, waves)
        heights = rate ** -rng.uniform(0.3, 1.0)
        self.heights = heights / (0.4 * heights.sum())
        self.sharpness = 6.0 if rng.random() < 0.35 else 1.0
        self.strength = float(rng.choice((0.05, 0.2, 0.5)) * rng.uniform(0.5, 1))
        self.other = random_colour(rng)

    def __call__(self, points: Vectors, colour: Vectors) -> Vectors:
        height = np.cos(points @ self.waves.T + self.phases) @ self.heights
        mixed = (np.clip(self.sharpness * height, -1, 1) + 1) / 2 * self.strength
        return np.asarray(colour + mixed[:, None] * (self.other - colour))


def _traced(
    kind: Kind, places: Places, camera: Camera, rays: Vectors, rng: np.random.Generator
) -> tuple[Vectors, Vectors]:
    """How far ahead the object is at every pixel (inf: not there), and its colours under a light."""
    own = kind.palette if kind.steady else np.stack([random_colour(rng) for _ in kind.palette])
    palette = np.clip(own * rng.uniform(0.75, 1.25, (len(own), 1)) + 0.08 * rng.normal(size=own.shape), 0.02, 1)
    patterns = [Pattern(rng) for _ in palette]
    depth, colours, normals = np.full(len(rays), np.inf), np.zeros_like(rays), np.zeros_like(rays)
    for (number, _), (shape, middle) in places.items():
        part, inverse = kind.parts[number], np.linalg.inv(shape)
        origin, directions = inverse @ (camera.eye - middle), rays @ inverse.T
        # Only rays that pass the ball around the unit solid are looked at.
        b = directions @ origin
        near = np.flatnonzero(b * b > (directions**2).sum(1) * (origin @ origin - 3.01))
        far, facing = hit(part.shape, origin, directions[near])
        first = far < depth[near]
        pixels, far = near[first], far[first]
        depth[pixels], normals[pixels] = far, unit(facing[first] @ inverse)
        at = origin + far[:, None] * directions[pixels]
        colour = patterns[part.colour](at * 2 * _size(shape) + 7.0 * number, palette[part.colour])
        for spot in part.spots:
            both = (spot.at, spot.at * MIRROR) if is_doubled(spot) and not part.paired else (spot.at,)
            for place in both:
                inside = np.linalg.norm(at - surface(part.shape, place), axis=1) < spot.radius
                colour[inside] = 0.9 * palette[spot.colour] + 0.1 * colour[inside]
        colours[pixels] = colour
    return depth, _lit(colours, normals, camera.axes[2], rng)


def _lit(colours: Vectors, normals: Vectors, back: Vectors, rng: np.random.Generator) -> Vectors:
    light = unit(back + 0.8 * rng.normal(size=3) + 0.6 * UP)
    ambient, gloss = rng.uniform(0.25, 0.6), rng.choice((0.0, 0.3))
    diffuse = ambient + (1 - ambient) * np.clip(normals @ light, 0, 1)
    shine = gloss * np.clip(normals @ unit(light + back), 0, 1) ** 30
    return np.asarray(colours * diffuse[:, None] + shine[:, None])


def _background(rng: np.random.Generator, size: int, photos: Sequence[Path]) -> Vectors:
    chance = rng.random()
    if photos and chance < 0.6:
        return _piece(load_image(photos[int(rng.integers(len(photos)))]), rng, size)
    if chance < 0.75:
        plain = random_colour(rng) if rng.random() < 0.6 else np.full(3, rng.choice((1.0, 0.95, 0.1)))
        return np.broadcast_to(plain, (size, size, 3))
    pattern = Pattern(rng)
    pattern.strength = rng.uniform(0.2, 1)
    x, y = np.meshgrid(*2 * [np.linspace(0, 3, size)])
    return pattern(np.stack([x, y, np.zeros_like(x)], axis=-1).reshape(-1, 3), random_colour(rng))


def _piece(photo: RGB, rng: np.random.Generator, size: int) -> Vectors:
    """A square of a photo."""
    side = max(2, round(rng.uniform(0.4, 1.0) * min(photo.shape[:2])))
    top, left = (int(rng.integers(length - side + 1)) for length in photo.shape[:2])
    return cv2.resize(photo[top : top + side, left : left + side], (size, size), interpolation=cv2.INTER_AREA) / 255.0
