"""What of a run is done, bad and left, as its parts tell: for going on, for the exit code and for `edgecape status`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from edgecape.batch.manifest import Listed, Run, Shard
from edgecape.batch.parts import Outcome, Part, read_part, whole_part
from edgecape.batch.queries import content_digest, fetched
from edgecape.formats.labels import Entry


@dataclass
class Survey:
    """Counts are of photos and frames; photos that a later list took over count there only."""

    done: int = 0
    left: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # photo or video → why
    missing: list[Shard] = field(default_factory=list)
    undrawn: list[Shard] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def survey(run: Run) -> Survey:
    """Reads every part, one at a time: one that is damaged is as good as missing, one of another run is an error."""
    found = Survey()
    for number in range(len(run.lists)):
        for shard in run.shards(number):
            part = whole_part(run, shard, found.damaged)
            if part is None:
                found.missing.append(shard)
                newest = sum(run.is_newest(listed.file, number) for listed in shard.members)
                found.left += shard.size if newest == len(shard.members) else newest
                continue
            failed = list(part.failures())
            found.failed |= {x.file: x.failed or "" for x in failed if run.is_newest(x.file, number)}
            found.done += sum(1 for _ in _newest(part, number)) if run.newest else len(part.lines) - len(failed)
            if not part.drawn:
                found.undrawn.append(shard)
    return found


def _newest(part: Part, number: int) -> Iterator[Outcome]:
    return (x for x in part if x.failed is None and part.run.is_newest(x.file, number))


def entries_of(run: Run, number: int) -> Iterator[tuple[tuple[str, int], Entry]]:
    """What was found on the photos of one list, in order, each with what it is sorted by."""
    for shard in run.shards(number):
        part = read_part(run, shard)
        for outcome in () if part is None else _newest(part, number):
            yield (outcome.file, outcome.frame or 0), outcome.entry


def changed(run: Run, found: list[Listed]) -> Iterator[Listed]:
    """Photos that are not what they were when they were looked at: of another size, or touched and of other content."""
    before = {listed.file: (number, listed) for number, members in enumerate(run.members) for listed in members}
    touched: dict[int, dict[str, Listed]] = {}  # by list
    for photo in found:
        number, known = before.get(photo.file, (-1, photo))
        if known != photo:
            touched.setdefault(number, {})[photo.file] = photo
    for number, photos in touched.items():
        for shard in run.shards(number):
            part = whole_part(run, shard) if any(listed.file in photos for listed in shard.members) else None
            for outcome in part or ():
                now = photos.get(outcome.file)
                if now is not None and outcome.failed is None and not _same(outcome, now):
                    yield photos.pop(outcome.file)  # once for all frames of a video


def _same(outcome: Outcome, listed: Listed) -> bool:
    if outcome.bytes != listed.bytes or outcome.mtime == listed.mtime or outcome.digest is None:
        return outcome.bytes == listed.bytes and outcome.mtime == listed.mtime
    with fetched(listed.file) as path:
        return content_digest(path) == outcome.digest
