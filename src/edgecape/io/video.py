"""Video files: frames in and out, one at a time, so that length does not matter.

Frame 12 of clip.mp4 is called "clip.mp4#12" wherever photos are named by their files, as in SLEAP files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2

from edgecape.errors import DataError, ImageError
from edgecape.io.files import atomic_path
from edgecape.io.images import RGB

SUFFIXES = (".mp4", ".avi", ".mov", ".mkv", ".webm")
USUAL_FPS = 25.0  # of files that do not tell
CUT_SHORT = 0.9  # containers estimate how many frames they hold; fewer than this share of them is no estimate


@dataclass(frozen=True)
class VideoFacts:
    fps: float
    size: tuple[int, int]  # (width, height), upright
    frames: int  # that the file announces, 0 if it does not tell


def is_video(path: str | os.PathLike[str]) -> bool:
    return Path(path).suffix.lower() in SUFFIXES


def frame_name(file: str, number: int) -> str:
    return f"{file}#{number}"


def parse_frame_name(file: str) -> tuple[str, int] | None:
    """The video and the number of a frame; None for a photo."""
    video, _, number = file.rpartition("#")
    return (video, int(number)) if number.isdecimal() and is_video(video) else None


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    if not Path(path).is_file():
        raise ImageError(f"video {path} {'is a folder' if Path(path).is_dir() else 'does not exist'}")
    capture = cv2.VideoCapture(os.fspath(path))
    try:
        if not capture.isOpened():
            raise ImageError(f"video {path} cannot be opened; it is damaged, cut short or of an unknown codec")
        yield capture
    finally:
        capture.release()


def video_facts(path: str | os.PathLike[str]) -> VideoFacts:
    with _opened(path) as capture:
        fps, frames = capture.get(cv2.CAP_PROP_FPS), capture.get(cv2.CAP_PROP_FRAME_COUNT)
        size = (int(capture.get(cv2.CAP_PROP_FRAME_WIDTH)), int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT)))
        return VideoFacts(fps if 0 < fps < 1e4 else USUAL_FPS, size, int(frames) if 0 < frames < 1e9 else 0)


def read_frames(path: str | os.PathLike[str], first: int = 0, stop: int | None = None) -> Iterator[RGB]:
    """The frames of a video from the first on, up to `stop`, which all are decoded on the way: seeking is not exact.

    Without `stop`, if the file ends long before it should, the error comes after its last good frame.
    """
    announced = video_facts(path).frames
    number = 0
    with _opened(path) as capture:
        while stop is None or number < stop:
            if not capture.grab():
                break
            number += 1
            if number > first:
                there, frame = capture.retrieve()
                if not there:
                    break
                yield cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)
    if stop is None and not number:
        raise ImageError(f"video {path} has no frame that can be read")
    if stop is None and number < CUT_SHORT * announced:
        raise ImageError(f"video {path} ends after {number} of {announced} frames; it is damaged or cut short")


def pick_frames(path: str | os.PathLike[str], numbers: Iterable[int]) -> Iterator[tuple[int, RGB]]:
    """Frames by their number, from 0, in the order of the video; it may end before the last of them."""
    wanted = set(numbers)
    with _opened(path) as capture:
        for number in range(max(wanted, default=-1) + 1):
            if not capture.grab():
                return
            if number in wanted:
                there, frame = capture.retrieve()
                if not there:
                    return
                yield number, cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)


def write_video(path: str | os.PathLike[str], frames: Iterable[RGB], fps: float) -> None:
    """An .mp4 of frames of one size; a side of odd length loses its last row of pixels, as the codec demands."""
    writer, number = None, 0
    with atomic_path(path) as temporary:
        try:
            for frame in frames:
                if writer is None:
                    height, width = frame.shape[:2]
                    code = cv2.VideoWriter.fourcc(*"mp4v")
                    writer = cv2.VideoWriter(str(temporary), code, fps, (width, height))
                if not writer.isOpened():
                    raise DataError(f"{path} cannot be written as a video of {width} × {height} pixels at {fps} fps")
                writer.write(cv2.cvtColor(frame, cv2.COLOR_RGB2BGR))
                number += 1
        finally:
            if writer is not None:
                writer.release()
        there = count_frames(temporary) if number else 0
        if there < number:  # the writer says nothing of a full disk
            raise DataError(f"{path} cannot be written: {there} of {number} frames arrived; is the disk full?")


def count_frames(path: str | os.PathLike[str]) -> int:
    """Those that can be decoded, all of which are."""
    with suppress(ImageError), _opened(path) as capture:
        number = 0
        while capture.grab():
            number += 1
        return number
    return 0
