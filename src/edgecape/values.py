"""Values as people and files give them → numpy and tuples of the right kind, or an error that shows them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgecape.errors import AnnotationError, brief

Box = tuple[float, float, float, float]


def as_array(values: Any, kinds: str) -> NDArray[Any] | None:
    """An array, None unless its values are of one of these kinds of numpy (O: objects that may turn out as numbers)."""
    try:
        array = np.asarray(values)
    except Exception:  # conversion runs code of whatever type was given
        return None
    return array if array.dtype.kind in kinds else None


def as_numbers(values: Any, kind: type[np.generic]) -> NDArray[Any] | None:
    """An array of this kind, None where anything is not a number (None is: it becomes nan)."""
    array = as_array(values, "iufO")
    try:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite
            return None if array is None else array.astype(kind)
    except Exception:  # as above
        return None


def as_points(values: ArrayLike, what: str = "keypoints") -> NDArray[np.float32]:
    """(K, 2) float32, K ≥ 1."""
    points = as_numbers(values, np.float32)
    if points is None:
        raise AnnotationError(f"{what} must be a list of (x, y) pairs, got {brief(values)}")
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise AnnotationError(f"{what} must be a list of (x, y) pairs, got an array of shape {points.shape}")
    return points


def as_flags(values: ArrayLike, K: int, what: str = "visible") -> NDArray[np.bool_]:
    """(K,) bools, also given as 0 and 1, or as COCO's 0, 1, 2."""
    flags = as_array(values, "biuf")
    if flags is None or not flags.ndim or (flags.dtype != bool and not np.isin(flags, (0, 1, 2)).all()):
        raise AnnotationError(f"{what} is {brief(values)}; give True or False for each keypoint")
    if flags.shape != (K,):
        raise AnnotationError(f"{what} has {flags.size} values for {K} keypoints; give one bool per keypoint")
    return flags.astype(bool)


def _members(values: Any) -> list[Any] | None:
    try:
        return list(values)
    except TypeError:
        return None


def as_names(values: Any, K: int) -> tuple[str, ...]:
    """K texts."""
    names = None if isinstance(values, str) else _members(values)
    if names is None:
        raise AnnotationError(f"names is {brief(values)}; give a list with one name per keypoint")
    wrong = [name for name in names if not isinstance(name, (str, int))]
    if wrong:
        raise AnnotationError(f"a keypoint is named {brief(wrong[0])}; a name is a text")
    if len(names) != K:
        raise AnnotationError(f"{len(names)} names for {K} keypoints; give one name per keypoint")
    return tuple(str(name) for name in names)


def as_edges(values: Any, K: int) -> tuple[tuple[int, int], ...]:
    """Edges as 0-based pairs, each once, no loops."""
    given = _members(values)
    if given is None:
        raise AnnotationError(f"a skeleton is a list of pairs of keypoint numbers, got {brief(values)}")
    edges: dict[tuple[int, int], None] = {}
    for edge in given:
        try:
            i, j = (operator.index(number) for number in edge)
        except (TypeError, ValueError):
            raise AnnotationError(f"skeleton edge {brief(edge)} is not a pair of whole keypoint numbers") from None
        if not (0 <= i < K and 0 <= j < K):
            raise AnnotationError(
                f"skeleton edge {brief((i, j))} does not fit {K} keypoints; edges are counted from 0, "
                "so subtract 1 if yours are counted from 1"
            )
        if i == j:
            raise AnnotationError(f"skeleton edge ({i}, {j}) connects a keypoint to itself; remove it")
        edges[min(i, j), max(i, j)] = None
    return tuple(edges)


def as_pairs(values: Any, K: int) -> tuple[tuple[int, int], ...]:
    """Pairs of left and right keypoints, each keypoint in one of them at most."""
    pairs = as_edges(values, K)
    paired = [k for pair in pairs for k in pair]
    if len(set(paired)) < len(paired):
        twice = next(k for k in paired if paired.count(k) > 1)
        raise AnnotationError(f"symmetry has keypoint {twice} in two pairs; each keypoint has one partner at most")
    return pairs


def as_box(value: ArrayLike) -> Box:
    """(x, y, w, h) with positive sides."""
    box = as_numbers(value, np.float64)
    if box is None or box.shape != (4,) or not np.isfinite(box).all():
        raise AnnotationError(f"a box is (x, y, w, h) with finite numbers, got {brief(value)}")
    if box[2] <= 0 or box[3] <= 0:
        raise AnnotationError(f"box {tuple(box.tolist())} has no area; width and height must be above 0")
    return (float(box[0]), float(box[1]), float(box[2]), float(box[3]))


def check_finite(points: NDArray[np.float32], visible: NDArray[np.bool_]) -> None:
    bad = np.flatnonzero(visible & ~np.isfinite(points).all(axis=1))
    if bad.size:
        place = tuple(points[bad[0]].tolist())
        raise AnnotationError(f"keypoint {bad[0]} is at {place}; mark it as not visible instead")
