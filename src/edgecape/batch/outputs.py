"""From what was found on photos and videos to what people want of it: a file in some format, and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from edgecape import formats
from edgecape.batch.parts import Entry
from edgecape.batch.queries import DRAWN
from edgecape.drawing import draw_poses, save_picture
from edgecape.errors import AnnotationError
from edgecape.io import video
from edgecape.tracking import smooth_poses

SUFFIXES = {"csv": ".csv", "deeplabcut": ".csv", "labelme": "", "yolo": "", "sleap": ".slp"}  # none: a folder
OF_FRAMES = ("csv", "coco", "coco-results", "deeplabcut")  # the others lead to photo files


def check_format(format: str, queries: Iterable[Path]) -> None:
    if format not in formats.WRITERS:
        raise AnnotationError(f"there is no format '{format}'; there are {', '.join(formats.WRITERS)}")
    film = next((path for path in queries if video.is_video(path)), None)
    if film is not None and format not in OF_FRAMES:
        raise AnnotationError(f"{format} cannot name the frames of {film}; formats that can: {', '.join(OF_FRAMES)}")


def write_results(output: Path, entries: Sequence[Entry], format: str) -> Path:
    """All entries as one file, or folder, of that format; where it is."""
    target = output / f"predictions{SUFFIXES.get(format, '.json')}"
    poses, files, sizes = ([getattr(entry, name) for entry in entries] for name in ("poses", "file", "size"))
    formats.write(target, formats.from_poses(poses, files, sizes), format)
    return target


def smooth_videos(entries: Sequence[Entry]) -> list[Entry]:
    """The same entries with the keypoints of video frames steadied."""
    steady: dict[str, Entry] = {}
    for source, members in by_source(entries).items():
        if video.is_video(source):
            found = smooth_poses((entry.poses for entry in members), video.video_facts(source).fps)
            steady |= {entry.file: replace(entry, poses=poses) for entry, poses in zip(members, found, strict=True)}
    return [steady.get(entry.file, entry) for entry in entries]


def by_source(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """By file: a photo has one entry, a video its frames, in order and from the first on without a gap."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        source, _ = video.parse_frame_name(entry.file) or (entry.file, 0)
        found.setdefault(source, []).append(entry)
    return found


def draw_source(output: Path, source: str, entries: Sequence[Entry], keep: bool = False) -> None:
    """A photo or video with what was found on it, in the output folder; keep: not if it is a photo that is there."""
    target = drawn_path(output, source)
    if video.is_video(source):
        found = zip((entry.poses for entry in entries), video.read_frames(source), strict=False)
        drawn = (draw_poses(frame, poses) for poses, frame in found)
        video.write_video(target, drawn, video.video_facts(source).fps)
    elif not (keep and target.exists()):
        save_picture(target, draw_poses(source, entries[0].poses))


def drawn_path(output: Path, source: str) -> Path:
    """Where the picture goes: as the photo or video lies, so that no two share one."""
    path = Path(source)
    suffix = ".mp4" if video.is_video(path) else ".jpg"
    parts = ["up" if part == ".." else part for part in path.parts[:-1] if part != path.anchor]
    name = path.name if path.suffix.lower() == suffix else path.name + suffix
    return output.joinpath(DRAWN, *parts, name)
