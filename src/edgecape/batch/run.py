"""Photos and videos through the predictor, each kept in the journal as soon as it is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgecape.batch.parts import Journal
from edgecape.errors import EdgeCapeError
from edgecape.formats.boxes import Boxes
from edgecape.formats.labels import Entry, check_text
from edgecape.io import images, video
from edgecape.io.images import RGB
from edgecape.types import Box, Prompt

if TYPE_CHECKING:
    from edgecape.predictor import EdgeCape


@dataclass(frozen=True, eq=False)
class _Item:
    file: str
    image: Path | RGB
    boxes: list[Box] | None


def run(
    estimator: EdgeCape,
    prompt: Prompt,
    queries: Iterable[Path],
    journal: Journal,
    boxes: Boxes | None = None,
    batch_size: int = 8,
) -> Iterator[Entry | EdgeCapeError | None]:
    """Predict on every photo and frame that is not in the journal, and put it there.

    Each gives one outcome: what was found, the error that prevented it, or None if the journal had it already.
    """
    waiting: list[_Item] = []
    for item in _items(queries, {entry.file for entry in journal}, boxes):
        if not isinstance(item, _Item):
            yield item
            continue
        waiting.append(item)
        if len(waiting) == batch_size:
            yield from _predict(estimator, prompt, waiting, journal, batch_size)
            waiting = []
    yield from _predict(estimator, prompt, waiting, journal, batch_size)


def _items(queries: Iterable[Path], known: set[str], boxes: Boxes | None) -> Iterator[_Item | EdgeCapeError | None]:
    for path in queries:
        try:
            check_text(path.as_posix())  # result files cannot hold every name: found out now, not when all is done
            for file, image in _pictures(path):
                yield None if file in known else _Item(file, image, boxes.find(file) if boxes else None)
        except EdgeCapeError as error:
            yield error


def _pictures(path: Path) -> Iterator[tuple[str, Path | RGB]]:
    """The photo, or the frames of the video, each with its name."""
    if not video.is_video(path):
        yield path.as_posix(), path
        return
    for number, frame in enumerate(video.read_frames(path)):
        yield video.frame_name(path, number), frame


def _predict(
    estimator: EdgeCape, prompt: Prompt, items: list[_Item], journal: Journal, batch_size: int
) -> Iterator[Entry | EdgeCapeError]:
    wanted = [item.boxes for item in items]
    found = estimator.predict(prompt, [item.image for item in items], wanted, batch_size=batch_size, errors="return")
    for item, poses in zip(items, found, strict=True):
        if isinstance(poses, EdgeCapeError):
            yield poses
            continue
        size = images.image_size(item.image) if isinstance(item.image, Path) else item.image.shape[1::-1]
        entry = Entry(item.file, size, poses if isinstance(poses, list) else [poses])
        journal.add(entry)
        yield entry
