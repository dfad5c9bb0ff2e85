"""A video becomes photos of the project: some of its frames, spread over it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from edgecape.errors import ImageError
from edgecape.io.video import SUFFIXES, VideoFacts, count_frames, frame_name, pick_frames, video_facts
from edgecape.studio.checks import as_label
from edgecape.studio.limits import Limits, RefusedError
from edgecape.studio.models import Photo, Uploaded, id_of
from edgecape.studio.pictures import as_jpeg
from edgecape.studio.project import Incoming, ProjectStore, storing

QUALITY = 95  # of the frames as JPEG
ISO_BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide")  # what .mp4 and .mov begin with, after four bytes


def add_video(store: ProjectStore, name: str | None, file: IO[bytes], every: int | None, most: int) -> Uploaded:
    """Each `every`-th frame, or at most that many of them, as photos; frames that are alike are one photo."""
    label = as_label(name)
    with store.scratching() as folder:
        video = folder / f"video{Path(label).suffix.lower()}"
        with storing(), video.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        _check_file(video, label, store.limits)
        try:
            facts = video_facts(video)
            _check_size(facts, label, store.limits)
            numbers = choose(facts.frames or count_frames(video), every, most)
            room = store.limits.photos - len(store.read().photos)
            if len(numbers) > room:
                told = f"gives {len(numbers)} photos, and there is room for {room}; take fewer frames of it"
                raise RefusedError(422, f"'{label}' {told}")
            stills = {}
            for number, picture in pick_frames(video, numbers):
                stills[number] = folder / f"{number}.jpg"
                with storing():
                    stills[number].write_bytes(as_jpeg(picture, QUALITY))
        except ImageError as error:
            raise RefusedError(415, str(error).replace(str(video), f"'{label}'")) from error
        if not stills:
            raise RefusedError(415, f"video '{label}' has no frame that can be read; choose another file")
        clip = _clip_name(label, stills, store.read().photos)
        return store.add_photos(_frames(clip, stills, facts.fps)).uploaded


def choose(total: int, every: int | None, most: int) -> Sequence[int]:
    """Numbers of frames."""
    if every is not None:
        return range(0, total, every)
    return np.unique(np.linspace(0, max(total - 1, 0), min(most, max(total, 1))).round().astype(int)).tolist()


def _frames(clip: str, stills: Mapping[int, Path], fps: float) -> Iterator[Incoming]:
    for number, path in stills.items():
        yield Incoming(frame_name(clip, number), path.read_bytes(), clip, number, round(number / fps, 3))


def _check_file(video: Path, label: str, limits: Limits) -> None:
    """By its first bytes too: a play list would lead the decoder to other files."""
    if video.stat().st_size > limits.video_bytes:
        raise RefusedError(413, f"'{label}' has more than {limits.video_bytes:,} bytes; cut it into shorter ones")
    with video.open("rb") as file:
        head = file.read(12)
    known = head[4:8] in ISO_BOXES or (head[:4] == b"RIFF" and head[8:] == b"AVI ") or head[:4] == b"\x1aE\xdf\xa3"
    if video.suffix not in SUFFIXES or not known:
        raise RefusedError(415, f"'{label}' is not a video that can be read; choose {', '.join(SUFFIXES)}")


def _check_size(facts: VideoFacts, label: str, limits: Limits) -> None:
    width, height = facts.size
    if width * height > limits.pixels:
        raise RefusedError(413, f"'{label}' has frames of {width} × {height} pixels; make it smaller")


def _clip_name(label: str, stills: Mapping[int, Path], photos: Mapping[str, Photo]) -> str:
    """Another video of the same name gets a number; the same one again keeps its name."""
    mine = {id_of(path.read_bytes()) for path in stills.values()}
    taken = {photo.clip for id_, photo in photos.items() if photo.clip and id_ not in mine}
    again = {photo.clip for id_, photo in photos.items() if photo.clip and id_ in mine}
    path, number, name = Path(label), 1, label
    while name in taken - again:
        number += 1
        name = f"{path.stem} ({number}){path.suffix}"
    return name
