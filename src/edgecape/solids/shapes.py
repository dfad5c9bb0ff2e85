"""Unit solids that parts are made of: where a ray meets one, and where its surface is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float64]
Shape = Literal["ball", "box", "rod", "cone"]  # rod and cone lie along x; the cone's tip is at x = 1, its base at −1
SLOPE = 0.5  # of the cone: its radius is 1 at the base


def unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12))


def surface(shape: Shape, direction: Vectors) -> Vectors:
    """The point of the surface in a direction from the middle."""
    x, across = direction[0], float(np.hypot(direction[1], direction[2]))
    reach = {
        "ball": float(np.linalg.norm(direction)),
        "box": float(np.abs(direction).max()),
        "rod": max(abs(x), across),
        "cone": max(-x, x + across / SLOPE),  # its base, or its side
    }[shape]
    return direction / max(reach, 1e-9)


def hit(shape: Shape, origin: Vectors, directions: Vectors) -> tuple[Vectors, Vectors]:
    """Of rays from one origin outside: how far each goes, in lengths of its direction (inf: past it), and normals
    there."""
    return HITS[shape](origin, directions)


def _ball(origin: Vectors, directions: Vectors) -> tuple[Vectors, Vectors]:
    near, _ = _roots((directions**2).sum(1), directions @ origin, float(origin @ origin) - 1)
    far = np.where(near > 0, near, np.inf)
    return far, _along(origin, directions, far)


def _box(origin: Vectors, directions: Vectors) -> tuple[Vectors, Vectors]:
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = (np.array((-1.0, 1.0))[:, None, None] - origin) / directions
    enter, leave = ends.min(axis=0), ends.max(axis=0).min(axis=1)
    axis, rows = enter.argmax(axis=1), np.arange(len(directions))
    first = enter[rows, axis]
    normals = np.zeros_like(directions)
    normals[rows, axis] = -np.sign(directions[rows, axis])
    return np.where((first < leave) & (first > 0), first, np.inf), normals


def _rod(origin: Vectors, directions: Vectors) -> tuple[Vectors, Vectors]:
    across, start = directions[:, 1:], origin[1:]
    near, _ = _roots((across**2).sum(1), across @ start, float(start @ start) - 1)
    far = _within(origin, directions, near)
    normals = _along(origin, directions, far) * (0, 1, 1)
    for end in (-1.0, 1.0):
        far = _disc(origin, directions, end, far, normals)
    return far, normals


def _cone(origin: Vectors, directions: Vectors) -> tuple[Vectors, Vectors]:
    form = np.array((-(SLOPE**2), 1.0, 1.0))
    start = origin - (1.0, 0.0, 0.0)
    roots = _roots((directions**2) @ form, directions @ (form * start), float((start**2) @ form))
    far = np.minimum(*(_within(origin, directions, root) for root in roots))
    normals = form * _along(start, directions, far)
    return _disc(origin, directions, -1.0, far, normals), normals


HITS: dict[Shape, Callable[[Vectors, Vectors], tuple[Vectors, Vectors]]] = {
    "ball": _ball,
    "box": _box,
    "rod": _rod,
    "cone": _cone,
}


def _roots(a: Vectors, b: Vectors, c: float) -> tuple[Vectors, Vectors]:
    """Of a t² + 2 b t + c; inf where there are none."""
    inside = b * b - a * c
    root = np.sqrt(np.maximum(inside, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (np.where(inside > 0, (-b + sign * root) / a, np.inf) for sign in (-1, 1))
    return low, high


def _along(origin: Vectors, directions: Vectors, far: Vectors) -> Vectors:
    return np.asarray(origin + np.where(np.isfinite(far), far, 0.0)[:, None] * directions)


def _within(origin: Vectors, directions: Vectors, far: Vectors) -> Vectors:
    """inf where the solid has ended, or lies behind."""
    x = _along(origin, directions, far)[:, 0]
    return np.where((np.abs(x) <= 1) & (far > 0), far, np.inf)


def _disc(origin: Vectors, directions: Vectors, end: float, far: Vectors, normals: Vectors) -> Vectors:
    """The flat end at x = end, where it is nearer than what was met so far; its normals are put in."""
    with np.errstate(divide="ignore", invalid="ignore"):
        there = (end - origin[0]) / directions[:, 0]
    across = _along(origin, directions, there)[:, 1:]
    met = ((across**2).sum(1) <= 1) & (there > 0) & (there < far)
    normals[met] = (end, 0.0, 0.0)
    return np.where(met, there, far)
