"""From parts to what people want of them: one file in some format, and drawn videos.

Entries are gone through more than once (parts are read anew each time), so that none need be kept in memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any

from edgecape import formats
from edgecape.batch.manifest import Folder, Listed, Run
from edgecape.batch.queries import DRAWN, fetched
from edgecape.batch.survey import entries_of
from edgecape.drawing import draw_poses
from edgecape.errors import AnnotationError, EdgeCapeError, SettingsError
from edgecape.formats.boxes import of_photo
from edgecape.formats.labels import Entry, LabelledImage, LabelSet, default_names, from_entries, unique_names
from edgecape.formats.shared import label_files, plain_path
from edgecape.io import video
from edgecape.io.coco import load_coco
from edgecape.io.images import RGB
from edgecape.tracking import OneEuro, smooth_poses
from edgecape.types import Prompt, Support


@dataclass(frozen=True)
class Wanted:
    """How results are to be written."""

    format: str = "csv"
    category: str = "object"
    image_ids: Path | None = None  # COCO file whose ids COCO results take
    smooth: bool = False
    draw: bool = False
    names: bool = False  # of keypoints, in drawings

    @property
    def options(self) -> dict[str, Any]:
        return {} if self.image_ids is None else {"dataset": self.image_ids}


def check_wanted(wanted: Wanted, photos: Sequence[Listed], shown: Sequence[Support] | Prompt) -> None:
    """That the results can be written as they are wanted: found out before the work."""
    format = formats.known(wanted.format, "writer")
    film = next((listed.file for listed in photos if listed.frames is not None), None)
    if film is not None and not format.frames:
        can = ", ".join(name for name, other in formats.FORMATS.items() if other.frames)
        raise AnnotationError(f"{wanted.format} cannot name the frames of {film}; formats that can: {can}")
    if wanted.image_ids is not None and wanted.format != "coco-results":
        raise AnnotationError(f"--image-ids is for --format coco-results, not {wanted.format}; leave it out")
    if wanted.smooth and film is None:
        raise SettingsError("--smooth is for videos, and there is none; leave it out or name a video")
    for names in [shown.names] if isinstance(shown, Prompt) else [shot.names for shot in shown]:
        LabelSet(unique_names(names or default_names(1)), None, wanted.category)
    if format.several and not format.suffix:
        label_files((LabelledImage(listed.file, None, None, ()) for listed in photos), ".txt")
    if wanted.image_ids is not None:
        names_in = dataset_names(wanted.image_ids, wanted.category)
        for listed in photos:
            dataset_name(listed.file, names_in, wanted.image_ids)


def dataset_names(path: Path, category: str) -> dict[str, dict[str, str]]:
    """Name of a photo → its path as a COCO file has it, which must have the category too."""
    file = load_coco(path)
    categories = [str(entry["name"]) for entry in file.categories.values()]
    if category not in categories:
        raise AnnotationError(
            f"{path} has no category '{category}', but {', '.join(categories)}; say which with --category"
        )
    found: dict[str, dict[str, str]] = {}
    for entry in file.images.values():
        name = plain_path(entry["file_name"])
        found.setdefault(PurePosixPath(name).name, {})[name] = name
    return found


def dataset_name(photo: str, names: dict[str, dict[str, str]], path: Path) -> str:
    listed = of_photo(photo, names)
    if len(listed) != 1:
        what = "several photos of that name" if listed else "no such photo"
        raise AnnotationError(f"image {photo} has no id: {path} lists {what}")
    return next(iter(listed))


class Results:
    """All that a run found, sorted by photo, each photo once: the newest of each."""

    def __init__(self, run: Run):
        self.run = run

    def __iter__(self) -> Iterator[Entry]:
        streams = [entries_of(self.run, number) for number in range(len(self.run.lists))]
        return map(itemgetter(1), heapq.merge(*streams, key=itemgetter(0)))


def write_results(output: Folder, entries: Iterable[Entry], wanted: Wanted) -> str | None:
    """All entries as one file, or folder, of that format; where it is. None if nothing was found."""
    if not any(entry.poses for entry in entries):
        return None
    if wanted.image_ids is not None:
        entries = Renamed(entries, wanted.image_ids, dataset_names(wanted.image_ids, wanted.category))
    name = f"predictions{formats.known(wanted.format, 'writer').suffix}"
    with output.writing(name) as path:
        formats.write(path, from_entries(entries, wanted.category), wanted.format, **wanted.options)
    return f"{output}/{name}"


@dataclass(frozen=True, eq=False)
class Renamed:
    """The same entries with their photos named as in a data set."""

    entries: Iterable[Entry]
    path: Path
    names: dict[str, dict[str, str]]

    def __iter__(self) -> Iterator[Entry]:
        return (replace(entry, file=dataset_name(entry.file, self.names, self.path)) for entry in self.entries)


@dataclass(frozen=True, eq=False)
class Steadied:
    """The same entries with the keypoints of video frames steadied."""

    entries: Iterable[Entry]

    def __iter__(self) -> Iterator[Entry]:
        for source, members in groupby(self.entries, source_of):
            if video.is_video(source):
                with fetched(source) as path:
                    euro = OneEuro(video.video_facts(path).fps)
                members = (replace(entry, poses=smooth_poses(entry.poses, euro)) for entry in members)
            yield from members


def source_of(entry: Entry) -> str:
    """The file: of a frame, that of its video."""
    return (video.parse_frame_name(entry.file) or (entry.file, 0))[0]


def draw_videos(output: Folder, entries: Iterable[Entry], names: bool = False) -> Iterator[tuple[str, str | None]]:
    """Every video with what was found on it: its name and what prevented it, or None. Photos were drawn before."""
    for source, members in groupby(entries, source_of):
        if video.is_video(source):
            try:
                with fetched(source) as path, output.writing(drawn_name(source)) as target:
                    video.write_video(target, _drawn_frames(path, members, names), video.video_facts(path).fps)
                yield source, None
            except EdgeCapeError as error:
                yield source, str(error)


def _drawn_frames(path: Path, entries: Iterable[Entry], names: bool) -> Iterator[RGB]:
    """Up to the last one of which something is known; others before it stay as they are."""
    frames = enumerate(video.read_frames(path))
    for entry in entries:
        parsed = video.parse_frame_name(entry.file)
        for number, frame in frames:
            mine = parsed is not None and number == parsed[1]
            yield draw_poses(frame, entry.poses if mine else (), names=names)
            if mine:
                break


@dataclass(frozen=True)
class Certainty:
    """The mean score of all photos, and the least certain of them, for a person to look at first."""

    mean: float
    lowest: list[tuple[float, str]]


def least_certain(entries: Iterable[Entry], number: int = 3) -> Certainty:
    """Where there are no more than `number`, none is picked out."""
    count, total = 0, 0.0
    lowest: list[tuple[float, str]] = []
    for entry in (entry for entry in entries if entry.poses):
        score = min(pose.score for pose in entry.poses)
        count, total = count + 1, total + score
        lowest = sorted([*lowest, (score, entry.file)])[:number]
    return Certainty(total / max(count, 1), lowest if count > number else [])


def drawn_name(source: str) -> str:
    """Where the picture goes in an output: as the photo or video lies, so that no two share one."""
    path = PurePosixPath(source.partition("://")[2] or source)
    suffix = ".mp4" if video.is_video(path) else ".jpg"
    parts = ["up" if part == ".." else part for part in path.parts[:-1] if part != path.anchor]
    name = path.name if path.suffix.lower() == suffix else path.name + suffix
    return "/".join((DRAWN, *parts, name))
