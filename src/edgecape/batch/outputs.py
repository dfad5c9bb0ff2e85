"""From what was found on photos and videos to what people want of it: a file in some format, and pictures.

Entries are gone through more than once (a journal reads its file anew each time), so that none need be kept in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from edgecape import formats
from edgecape.batch.queries import DRAWN
from edgecape.drawing import draw_poses, save_picture
from edgecape.errors import AnnotationError, EdgeCapeError
from edgecape.formats.labels import Entry, from_entries
from edgecape.io import video
from edgecape.tracking import OneEuro, smooth_poses


def check_format(format: str, queries: Iterable[Path]) -> None:
    film = next((path for path in queries if video.is_video(path)), None)
    if not formats.known(format, "writer").frames and film is not None:
        can = ", ".join(name for name, other in formats.FORMATS.items() if other.frames)
        raise AnnotationError(f"{format} cannot name the frames of {film}; formats that can: {can}")


def write_results(output: Path, entries: Iterable[Entry], format: str) -> Path | None:
    """All entries as one file, or folder, of that format; where it is. None if nothing was found."""
    if not any(entry.poses for entry in entries):
        return None
    target = output / f"predictions{formats.known(format, 'writer').suffix}"
    formats.write(target, from_entries(entries), format)
    return target


@dataclass(frozen=True, eq=False)
class Steadied:
    """The same entries with the keypoints of video frames steadied."""

    entries: Iterable[Entry]

    def __iter__(self) -> Iterator[Entry]:
        filters: dict[str, OneEuro] = {}  # of each video: photos and other videos may lie between its frames
        for entry in self.entries:
            source = source_of(entry)
            if video.is_video(source):
                euro = filters.get(source) or filters.setdefault(source, OneEuro(video.video_facts(source).fps))
                entry = replace(entry, poses=smooth_poses(entry.poses, euro))
            yield entry


def source_of(entry: Entry) -> str:
    """The file: of a frame, that of its video."""
    return (video.parse_frame_name(entry.file) or (entry.file, 0))[0]


def draw_all(output: Path, entries: Iterable[Entry], keep: bool = False) -> Iterator[EdgeCapeError | None]:
    """Every photo and video with what was found on it; yields what prevented it, or None. keep: photos drawn before."""
    begun: set[str] = set()
    for source, members in groupby(entries, source_of):
        if source in begun:  # a run stopped within this video and went on elsewhere first: draw it from the beginning
            members = (entry for entry in entries if source_of(entry) == source)
        if video.is_video(source):
            begun.add(source)
        try:
            _draw(drawn_path(output, source), source, members, keep)
            yield None
        except EdgeCapeError as error:
            yield error


def _draw(target: Path, source: str, entries: Iterator[Entry], keep: bool) -> None:
    if video.is_video(source):
        found = zip(entries, video.read_frames(source), strict=False)
        drawn = (draw_poses(frame, entry.poses) for entry, frame in found)
        video.write_video(target, drawn, video.video_facts(source).fps)
    elif not (keep and target.exists()):
        save_picture(target, draw_poses(source, next(entries).poses))


def drawn_path(output: Path, source: str) -> Path:
    """Where the picture goes: as the photo or video lies, so that no two share one."""
    path = Path(source)
    suffix = ".mp4" if video.is_video(path) else ".jpg"
    parts = ["up" if part == ".." else part for part in path.parts[:-1] if part != path.anchor]
    name = path.name if path.suffix.lower() == suffix else path.name + suffix
    return output.joinpath(DRAWN, *parts, name)
