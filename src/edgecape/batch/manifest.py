"""What a run is: what it looks for, on which photos, and how these are cut into shards.

An output holds run.json (this, for people too), the lists of photos, the encoded prompt, the boxes, and a part for each
shard that is done. Whoever has the output and the model can work on it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgecape.errors import DataError
from edgecape.formats.boxes import Boxes
from edgecape.io.files import atomic_write
from edgecape.io.images import load_image
from edgecape.io.storage import LocalFolder, RemoteFolder
from edgecape.runtime.base import Effort
from edgecape.types import Prompt, Support

VERSION = 1
MANIFEST, PROMPT, BOXES = "run.json", "support.prompt", "boxes.json.gz"
LARGEST_SHARD = 1000
START_OVER = "choose another output with -o, or start over with --overwrite"
Folder = LocalFolder | RemoteFolder


class Listed(NamedTuple):
    """A photo or video as it was found."""

    file: str  # as it was given, with /; in a store its URI
    bytes: int
    mtime: int
    frames: int | None = None  # that a video announces, 0 if it does not tell; None is a photo


@dataclass(frozen=True)
class Shard:
    """What one part holds: photos, or consecutive frames of one video."""

    number: int
    members: tuple[Listed, ...]
    first: int = 0
    stop: int | None = None  # None: to the end of the video

    @property
    def size(self) -> int:
        """Photos, or frames as far as the video tells."""
        frames = self.members[0].frames
        return len(self.members) if frames is None else max(self.stop or frames, self.first + 1) - self.first


@dataclass(frozen=True)
class PhotoList:
    """Photos that were added to a run at one time, sorted; `digest` is of all that is listed."""

    name: str
    photos: int
    digest: str
    shard_size: int
    first_part: int
    parts: int


@dataclass(frozen=True)
class LookedFor:
    """What must be the same for results to belong together: everything that changes a pose but the photo itself."""

    model: str
    support: str  # digest of photos, marks, box and visibility of all supports, or of a saved prompt
    names: tuple[str, ...] | None
    skeleton: tuple[tuple[int, int], ...] | None
    symmetry: tuple[tuple[int, int], ...] | None
    boxes: str | None
    effort: Effort
    propagated: int = 0  # poses of unmarked photos that were taken for supports

    @cached_property
    def digest(self) -> str:
        told = asdict(self)
        if not self.propagated:  # runs that were begun before there was this go on
            del told["propagated"]
        return _digest(json.dumps(told).encode())

    def differences(self, other: LookedFor) -> str:
        """In words, for a person who mixed two things up."""
        what = {"model": "model", "support": "support photo or marks", "names": "names of keypoints",
                "skeleton": "skeleton", "symmetry": "symmetry", "boxes": "boxes", "effort": "effort",
                "propagated": "number of propagated poses"}  # fmt: skip
        return ", ".join(said for name, said in what.items() if getattr(self, name) != getattr(other, name))


def looked_for(
    model: str,
    shots: Sequence[Support] | Prompt,
    boxes: Boxes | None,
    effort: Effort = "auto",
    propagated: int = 0,
) -> LookedFor:
    """By what was given, not by what was computed from it, whose last digits differ from machine to machine."""
    if isinstance(shots, Prompt):
        names, skeleton, symmetry = shots.names, shots.skeleton, None
        content = b"".join(np.ascontiguousarray(array).tobytes() for array in (shots.tokens, shots.places, shots.graph))
    else:
        names, skeleton, symmetry = (
            next((value for shot in shots if (value := getattr(shot, name)) is not None), None)
            for name in ("names", "skeleton", "symmetry")
        )
        content = b"".join(_marks(shot) for shot in shots)
    of_boxes = None if boxes is None else boxes.digest
    return LookedFor(model, _digest(content), names, skeleton, symmetry, of_boxes, effort, propagated)


def _marks(shot: Support) -> bytes:
    stored = isinstance(shot.image, (str, os.PathLike)) and Path(shot.image).is_file()
    picture = Path(shot.image).read_bytes() if stored else load_image(shot.image).tobytes()
    facts = [_digest(picture), shot.keypoints.tolist(), shot.visible.tolist(), shot.box]
    return json.dumps(facts).encode()


@dataclass(frozen=True)
class Run:
    """A run as run.json has it, and the output that holds it."""

    output: Folder
    wanted: LookedFor
    batch_size: int  # other batches change the last digit of a coordinate, so a run keeps its own
    lists: tuple[PhotoList, ...] = field(default=())

    @classmethod
    def open(cls, output: Folder) -> Run | None:
        """None if the output holds no run."""
        text = output.read(MANIFEST)
        if text is None:
            return None
        try:
            content = json.loads(text)
            if content["edgecape run"] != VERSION:
                raise ValueError(f"version {content['edgecape run']}")
            wanted = {name: _tupled(value) for name, value in content["looked for"].items()}
            lists = tuple(PhotoList(**values) for values in content["lists"])
            return cls(output, LookedFor(**wanted), int(content["batch_size"]), lists)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"{output}/{MANIFEST} is no run of this version ({error}); {START_OVER}") from None

    def save(self) -> None:
        facts = ",\n".join(f'    "{name}": {json.dumps(value)}' for name, value in asdict(self.wanted).items())
        lists = ",\n".join(f"    {json.dumps(asdict(photos))}" for photos in self.lists)
        with self.output.writing(MANIFEST) as path, atomic_write(path) as file:
            file.write(f'{{\n  "edgecape run": {VERSION},\n  "looked for": {{\n{facts}\n  }},\n')
            file.write(f'  "batch_size": {self.batch_size},\n  "lists": [\n{lists}\n  ]\n}}\n')

    def with_photos(self, photos: Iterable[Listed], shard_size: int | None = None) -> Run:
        """The same run with a further list, which is written; run.json is not, yet."""
        members = sorted(photos)
        lines = "".join(json.dumps(listed) + "\n" for listed in members).encode()
        size = shard_size or usual_shard_size(sum(listed.frames or 1 for listed in members), self.batch_size)
        first = sum(listed.parts for listed in self.lists)
        name = f"lists/list-{len(self.lists):03d}.jsonl.gz"
        with self.output.writing(name) as path, atomic_write(path, "wb") as file:
            file.write(gzip.compress(lines, mtime=0))
        parts = sum(1 for _ in cut(members, size, first))
        new = PhotoList(name, len(members), _digest(lines), size, first, parts)
        return replace(self, lists=(*self.lists, new))

    @cached_property
    def members(self) -> tuple[list[Listed], ...]:
        """The photos of each list."""
        return tuple(self._read(photos) for photos in self.lists)

    def _read(self, photos: PhotoList) -> list[Listed]:
        packed = self.output.read(photos.name)
        try:
            lines = gzip.decompress(packed or b"")
            if _digest(lines) != photos.digest:
                raise ValueError("it is not the list that this run began with")
            return [Listed(*json.loads(line)) for line in lines.splitlines()]
        except (ValueError, TypeError, OSError, EOFError) as error:
            raise DataError(f"{self.output}/{photos.name} is damaged ({error}); {START_OVER}") from None

    @cached_property
    def newest(self) -> dict[str, int]:
        """Of each photo that a later list holds: the number of the last such list, which alone counts."""
        later = enumerate(self.members[1:], start=1)
        return {listed.file: number for number, members in later for listed in members}

    def is_newest(self, file: str, number: int) -> bool:
        """Whether what this list's parts say of a photo counts."""
        return self.newest.get(file, 0) == number

    def shards(self, number: int) -> Iterator[Shard]:
        """Of one list."""
        return cut(self.members[number], self.lists[number].shard_size, self.lists[number].first_part)

    def list_of(self, shard: Shard) -> int:
        """The number of the list that a shard was cut from."""
        return sum(photos.first_part <= shard.number for photos in self.lists) - 1

    def heading(self, shard: Shard) -> dict[str, Any]:
        """The first line of its part: a part of anything else is not of this run."""
        return {"run": self.wanted.digest, "list": self.lists[self.list_of(shard)].digest, "part": shard.number}

    def save_boxes(self, boxes: Boxes) -> None:
        with self.output.writing(BOXES) as path, atomic_write(path, "wb") as file:
            content = {each.name: getattr(boxes, each.name) for each in fields(boxes)}
            file.write(gzip.compress(json.dumps(content, default=str).encode(), mtime=0))

    def prompt(self) -> Prompt:
        """What it looks for, encoded."""
        with self.output.reading(PROMPT) as path:
            return Prompt.load(path)

    def boxes(self) -> Boxes | None:
        """Where to look, if not at whole photos."""
        if self.wanted.boxes is None:
            return None
        packed = self.output.read(BOXES)
        try:
            content = json.loads(gzip.decompress(packed or b""))
            return Boxes(**{**content, "path": Path(content["path"])})
        except (ValueError, TypeError, KeyError, OSError, EOFError) as error:
            raise DataError(f"{self.output}/{BOXES} is damaged ({error}); {START_OVER}") from None


def part_name(number: int) -> str:
    return f"parts/part-{number:05d}.jsonl"


def usual_shard_size(photos: int, batch_size: int) -> int:
    """Full batches; about a hundredth of the photos, so that no stop costs much, within bounds."""
    batches = max(2, math.ceil(photos / 100 / batch_size))
    return min(batches * batch_size, max(LARGEST_SHARD // batch_size, 1) * batch_size)


def cut(members: Sequence[Listed], size: int, number: int) -> Iterator[Shard]:
    """Shards in the order of the list. The last one of a video is open: what a file announces is an estimate."""
    photos: list[Listed] = []
    for listed in members:
        if listed.frames is None:
            photos.append(listed)
            if len(photos) < size:
                continue
        if photos:
            yield Shard(number, tuple(photos))
            number, photos = number + 1, []
        if listed.frames is not None:
            starts = [*range(0, max(listed.frames, 1), size), None]
            for first, stop in pairwise(starts):
                yield Shard(number, (listed,), first or 0, stop)
                number += 1
    if photos:
        yield Shard(number, tuple(photos))


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
