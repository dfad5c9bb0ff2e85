"""The part of a shard: a line of JSON for each photo or frame, between a heading and a checksum.

A part is written whole or not at all. One that was damaged since is told by its checksum and done again; one of another
run is told by its heading and never touched.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from edgecape.batch.manifest import START_OVER, Run, Shard, part_name
from edgecape.errors import AnnotationError, DataError
from edgecape.formats.labels import Entry
from edgecape.io.files import atomic_write
from edgecape.io.video import frame_name
from edgecape.types import Pose

OF_RUN = ("names", "skeleton")  # stand in run.json, not with each pose
FAILED = b'{"failed": '


class DamagedPartError(DataError):
    """To be done again."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of one photo or frame: what was found, or why nothing could be."""

    file: str  # the photo or video
    frame: int | None
    bytes: int  # the file's, as it was when it was looked at …
    mtime: int
    digest: str | None  # … of its content; videos have none, as reading them takes long
    size: tuple[int, int] | None = None
    poses: tuple[Pose, ...] = ()
    failed: str | None = None

    @property
    def entry_name(self) -> str:
        return self.file if self.frame is None else frame_name(self.file, self.frame)

    @property
    def entry(self) -> Entry:
        assert self.size is not None
        return Entry(self.entry_name, self.size, self.poses)


def write_part(run: Run, shard: Shard, outcomes: Iterable[Outcome], drawn: bool) -> Iterator[Outcome]:
    """Writes them as they come and hands them on; the part is there when the last one has been."""
    checksum, count = hashlib.sha256(), 0
    with run.output.writing(part_name(shard.number)) as path, atomic_write(path, "wb") as file:

        def write(content: dict[str, Any]) -> None:
            line = json.dumps(content, allow_nan=False).encode() + b"\n"
            checksum.update(line)
            file.write(line)

        write({**run.heading(shard), "drawn": drawn})
        for outcome in outcomes:
            write(_plain(outcome))
            count += 1
            yield outcome
        write({"entries": count, "sha256": checksum.hexdigest()})


def _plain(outcome: Outcome) -> dict[str, Any]:
    facts: dict[str, Any] = {} if outcome.failed is None else {"failed": outcome.failed}
    facts |= {name: getattr(outcome, name) for name in ("file", "frame", "bytes", "mtime", "digest")}
    if outcome.failed is None:
        poses = [{name: value for name, value in p.to_dict().items() if name not in OF_RUN} for p in outcome.poses]
        facts |= {"size": outcome.size, "poses": poses}
    return facts


@dataclass(frozen=True, eq=False)
class Part:
    run: Run
    number: int
    drawn: bool
    lines: list[bytes]  # of photos

    def __iter__(self) -> Iterator[Outcome]:
        return map(self._outcome, self.lines)

    def failures(self) -> Iterator[Outcome]:
        return (self._outcome(line) for line in self.lines if line.startswith(FAILED))

    def _outcome(self, line: bytes) -> Outcome:
        try:
            values = json.loads(line)
            wanted = self.run.wanted
            poses = (Pose.from_dict(pose) for pose in values.pop("poses", ()))
            named = tuple(replace(pose, names=wanted.names, skeleton=wanted.skeleton) for pose in poses)
            size = values.pop("size", None)
            return Outcome(**values, size=None if size is None else (int(size[0]), int(size[1])), poses=named)
        except (ValueError, LookupError, TypeError, AttributeError, AnnotationError) as error:
            place = f"{self.run.output}/{part_name(self.number)}"
            raise DataError(f"{place} holds what no version of edgecape writes ({error}); {START_OVER}") from None


def whole_part(run: Run, shard: Shard, damaged: list[str] | None = None) -> Part | None:
    """As `read_part`, but a part that is damaged is as good as none; it is named in `damaged`."""
    try:
        return read_part(run, shard)
    except DamagedPartError as error:
        if damaged is not None:
            damaged.append(str(error))
        return None


def read_part(run: Run, shard: Shard) -> Part | None:
    """None if it is not there."""
    name = part_name(shard.number)
    content = run.output.read(name)
    if content is None:
        return None
    place = f"{run.output}/{name}"
    heading, *lines = content.splitlines(keepends=True) or [b""]
    there: Any = None
    with suppress(ValueError, RecursionError):
        there = json.loads(heading)
    if not isinstance(there, dict) or not lines:
        raise DamagedPartError(f"{place} is damaged: it has no heading or no end")
    wanted = run.heading(shard)
    if any(there.get(name) != value for name, value in wanted.items()):
        if not set(wanted) <= set(there):
            raise DamagedPartError(f"{place} is damaged: it has no heading")
        raise DataError(f"{place} belongs to another run; {START_OVER}")
    last = lines.pop()
    checksum = hashlib.sha256(b"".join((heading, *lines))).hexdigest()
    if last != json.dumps({"entries": len(lines), "sha256": checksum}).encode() + b"\n":
        raise DamagedPartError(f"{place} is damaged: its checksum is wrong")
    return Part(run, shard.number, bool(there.get("drawn")), lines)
