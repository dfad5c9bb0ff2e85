"""Further supports that nobody marked: photos of a run whose poses the model is surest of (`EdgeCape.propagate`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from edgecape.batch.manifest import Listed
from edgecape.batch.queries import fetched
from edgecape.errors import EdgeCapeError
from edgecape.formats.boxes import Boxes
from edgecape.io import video
from edgecape.runtime.base import Effort
from edgecape.types import Prompt, Support

if TYPE_CHECKING:
    from edgecape.predictor import EdgeCape

LOOKED_AT = 64  # photos and frames, spread evenly over all that there are


def propagated(
    estimator: EdgeCape,
    shots: Sequence[Support],
    photos: Sequence[Listed],
    boxes: Boxes | None,
    number: int,
    effort: Effort,
) -> Prompt:
    """number: of poses to take for supports."""
    with ExitStack() as held:
        found = list(_pictures(spread(photos), boxes, held))
        images, places = [image for image, _ in found], [there for _, there in found]
        return estimator.propagate(shots, images, places, number, effort=effort)


def spread(photos: Sequence[Listed]) -> list[tuple[Listed, list[int]]]:
    """Some of the photos, each with the numbers of the frames to look at if it is a video."""
    sizes = [1 if listed.frames is None else listed.frames for listed in photos]
    ends = np.cumsum(sizes, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    chosen: dict[int, list[int]] = {}
    for place in np.unique(np.linspace(0, total - 1, min(total, LOOKED_AT)).round().astype(np.int64)).tolist():
        index = int(np.searchsorted(ends, place, side="right"))
        chosen.setdefault(index, []).append(place - int(ends[index]) + sizes[index])
    return [(photos[index], numbers) for index, numbers in chosen.items()]


def _pictures(
    chosen: Sequence[tuple[Listed, list[int]]], boxes: Boxes | None, held: ExitStack
) -> Iterator[tuple[Any, Any]]:
    """Images and their boxes; what cannot be read is left out here and named when its turn comes in the run."""
    for listed, numbers in chosen:
        try:
            path = held.enter_context(fetched(listed.file))
            if listed.frames is None:
                yield path, None if boxes is None else boxes.find(listed.file)
                continue
            for number, frame in video.pick_frames(path, numbers):
                yield frame, None if boxes is None else boxes.find(video.frame_name(listed.file, number))
        except (EdgeCapeError, OSError):
            continue
