"""Many photos and videos: find them, predict on them, keep what is found in a journal."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgecape import formats, images, video
from edgecape.boxes import Boxes
from edgecape.errors import DataError, EdgeCapeError, ImageError
from edgecape.images import RGB
from edgecape.journal import Entry, Journal
from edgecape.results import DRAWN
from edgecape.types import Box, Prompt

if TYPE_CHECKING:
    from edgecape.predictor import EdgeCape  # imports torch


# --- finding -------------------------------------------------------------------------------------------------


def find_queries(queries: Sequence[str], output: Path) -> list[Path]:
    """Photos and videos named by files, folders, patterns and lists, in that order, each once.

    Folders give photos only, as cameras put short videos beside them. Hidden files and drawn results are left out.
    """
    if not queries:
        raise ImageError("no photo is given; name files, folders, patterns, a .txt list or videos")
    found: list[Path] = []
    for query in queries:
        path = Path(query)
        if path.is_dir():
            members = list(_in_folder(path, output / DRAWN))
        elif path.suffix == ".txt" and path.is_file():
            members = _in_list(path)
        elif path.exists():
            members = [path]
        else:
            members = [Path(match) for match in sorted(glob.glob(query, recursive=True))]
        if not members:
            raise ImageError(
                f"'{query}' names no photo; give files, folders of photos, patterns, a .txt list, or videos by name"
            )
        found += members
    return list(dict.fromkeys(found))


def _in_folder(folder: Path, besides: Path) -> Iterator[Path]:
    besides = besides.resolve()
    for parent, folders, files in os.walk(folder):
        here = Path(parent)
        folders[:] = sorted(name for name in folders if name[0] != "." and (here / name).resolve() != besides)
        yield from (here / name for name in sorted(files) if name[0] != "." and name.lower().endswith(images.SUFFIXES))


def _in_list(path: Path) -> list[Path]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"list {path} cannot be read: {error}") from None
    return [path.parent / line.strip() for line in lines if line.strip()]


def count(queries: Iterable[Path]) -> int:
    """Photos and frames, as far as videos tell."""
    return sum(_frames(path) if video.is_video(path) else 1 for path in queries)


def _frames(path: Path) -> int:
    try:
        return video.video_facts(path).frames or 1
    except ImageError:  # its time to be named comes
        return 1


# --- predicting ----------------------------------------------------------------------------------------------


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
    batch: int = 8,
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
        if len(waiting) == batch:
            yield from _predict(estimator, prompt, waiting, journal, batch)
            waiting = []
    yield from _predict(estimator, prompt, waiting, journal, batch)


def _items(queries: Iterable[Path], known: set[str], boxes: Boxes | None) -> Iterator[_Item | EdgeCapeError | None]:
    for path in queries:
        try:
            _check_name(path)
            for file, image in _pictures(path):
                skip = file in known
                yield None if skip else _Item(file, image, None if boxes is None else boxes.find(file))
        except EdgeCapeError as error:
            yield error


def _pictures(path: Path) -> Iterator[tuple[str, Path | RGB]]:
    """The photo, or the frames of the video, each with its name."""
    if not video.is_video(path):
        yield path.as_posix(), path
        return
    for number, frame in enumerate(video.read_frames(path)):
        yield video.frame_name(path, number), frame


def _check_name(path: Path) -> None:
    """That result files can hold it: found out now, not when all is done."""
    formats.LabelSet(("keypoint",), images=(formats.LabelledImage(path.as_posix(), None, None, ()),))


def _predict(
    estimator: EdgeCape, prompt: Prompt, items: list[_Item], journal: Journal, batch: int
) -> Iterator[Entry | EdgeCapeError]:
    wanted = [item.boxes for item in items]
    found = estimator.predict(prompt, [item.image for item in items], wanted, batch=batch, errors="return")
    for item, poses in zip(items, found, strict=True):
        if isinstance(poses, EdgeCapeError):
            yield poses
            continue
        size = images.image_size(item.image) if isinstance(item.image, Path) else item.image.shape[1::-1]
        entry = Entry(item.file, size, poses if isinstance(poses, list) else [poses])
        journal.add(entry)
        yield entry
