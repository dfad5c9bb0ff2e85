"""Which shots help: those that disagree with the others, and the photo to mark next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgecape.studio.models import Photo, Query, Shot, ShotCheck, Suggestion
from edgecape.types import Pose

Floats = NDArray[np.float64]
LEAST = 3  # keypoints that two poses must share to be compared
FAR = 0.1  # of the box's longer side: what counts as wrong in the field's measures


def compare(index: int, shot: Shot, photo: Photo, pose: Pose) -> ShotCheck:
    """A shot beside what the other shots alone find on its photo."""
    _, _, width, height = shot.box or (0, 0, photo.width, photo.height)
    marked = np.array([(np.nan, np.nan) if p is None or p.hidden else (p.x, p.y) for p in shot.points])
    distances = np.linalg.norm(pose.keypoints - marked, axis=1) / max(width, height)
    known = np.isfinite(distances)  # marked here, and shown by another shot
    order = np.argsort(-np.where(known, distances, -1.0))
    return ShotCheck(
        photo=shot.photo,
        index=index,
        distance=round(float(distances[known].mean()), 4) if known.any() else None,
        worst=[int(k) for k in order if known[k] and distances[k] > FAR],
    )


def suggest(photos: Sequence[str], queries: Sequence[Query], shots: Sequence[Shot]) -> list[Suggestion]:
    """That photo first which, as another shot, would bring most photos near to one.

    Near: keypoints lie as they do there. docs/studio.md compares this with other ways.
    """
    found = [query for query in queries if query.pose is not None and query.photo in set(photos)]
    gain = dict.fromkeys(photos, 0.0)
    if found:
        layouts = np.stack([_layout(query.pose.keypoints) for query in found if query.pose is not None])
        marked = [_layout([p and (p.x, p.y) for p in shot.points]) for shot in shots if any(shot.points)]
        nearest = np.min([unlike(one, layouts) for one in marked], axis=0) if marked else np.ones(len(found))
        for query, one in zip(found, layouts, strict=True):
            nearer = np.maximum(nearest - unlike(one, layouts), 0)
            gain[query.photo] = max(gain[query.photo], float(nearer.mean()))
    return [Suggestion(photo=photo, gain=round(gain[photo], 4)) for photo in sorted(gain, key=lambda id_: -gain[id_])]


def _layout(places: Sequence[Any]) -> Floats:
    """(K, 2), nan where there is none."""
    return np.array([place or (np.nan, np.nan) for place in places], dtype=np.float64).reshape(-1, 2)


def unlike(one: Floats, others: Floats) -> Floats:
    """How differently keypoints (K, 2) lie in others (N, K, 2), wherever, however large and whichever way they face:
    mean distance (N,) over the keypoints that both have, of layouts whose squares sum to 1; 1 if they share too few."""
    both: NDArray[np.bool_] = np.asarray(np.isfinite(one).all(axis=1) & np.isfinite(others).all(axis=2))
    number = np.maximum(both.sum(axis=1), 1)

    def settled(points: Floats) -> Floats:
        known = np.where(both[..., None], points, 0)
        centred = np.where(both[..., None], known - known.sum(axis=1, keepdims=True) / number[:, None, None], 0)
        return centred / np.maximum(np.sqrt((centred**2).sum(axis=(1, 2))), 1e-9)[:, None, None]

    here, there = settled(np.broadcast_to(one, others.shape)), settled(others)
    sides = [np.linalg.norm(here - there * (side, 1), axis=2).sum(axis=1) / number for side in (1, -1)]
    return np.where(both.sum(axis=1) < LEAST, 1.0, np.minimum(*sides))
