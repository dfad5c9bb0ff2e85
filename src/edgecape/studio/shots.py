"""Which shots help: those that disagree with the others, and the photo to mark next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from edgecape.studio.models import Photo, Query, Shot, ShotCheck, Suggestion
from edgecape.types import Pose

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


def suggest(photos: Sequence[str], queries: Iterable[Query]) -> list[Suggestion]:
    """Those photos on which the model is least sure of what it found first."""
    lowest = dict.fromkeys(photos, 1.0)
    found = set()
    for query in queries:
        if query.photo in lowest and query.pose is not None:
            found.add(query.photo)
            score = float(np.mean(query.pose.scores)) if query.pose.scores else 0.0
            lowest[query.photo] = min(lowest[query.photo], score)
    scores = {photo: score if photo in found else 0.0 for photo, score in lowest.items()}
    return [Suggestion(photo=photo, score=scores[photo]) for photo in sorted(scores, key=scores.__getitem__)]
