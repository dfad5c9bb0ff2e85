"""A run from beginning to end: begin it or go on with it, do what is left, write the results. For every engine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from edgecape.batch.locking import held
from edgecape.batch.manifest import (
    BOXES,
    MANIFEST,
    PROMPT,
    START_OVER,
    Folder,
    Listed,
    LookedFor,
    Run,
    Shard,
    part_name,
)
from edgecape.batch.outputs import Results, Steadied, Wanted, draw_videos, write_results
from edgecape.batch.queries import DRAWN
from edgecape.batch.survey import changed, survey
from edgecape.batch.worker import Worker
from edgecape.errors import DataError, EdgeCapeError, SettingsError
from edgecape.formats.boxes import Boxes
from edgecape.formats.labels import Entry
from edgecape.io.files import is_temporary
from edgecape.io.storage import LocalFolder, clear_copies
from edgecape.types import Prompt

if TYPE_CHECKING:
    from edgecape.predictor import EdgeCape

BATCH_SIZE = 8
KEPT = "what was found is kept: the same command, perhaps with another --format, writes it"
Tally = tuple[int, int]  # photos done, photos that failed


def check_output(output: Folder) -> None:
    """That results can be written there: found out before the work, and without making the folder."""
    if not isinstance(output, LocalFolder):
        next(output.files("parts"), None)
        return
    place = output.root.absolute()
    there = next(path for path in (place, *place.parents) if path.exists())
    if not there.is_dir():
        raise DataError(f"{there} is a file; give a folder for the results with -o")
    if not os.access(there, os.W_OK):
        raise DataError(f"nothing can be written to {there}; choose another folder with -o")


@dataclass(frozen=True)
class Settings:
    """How a run is worked on; none of it changes what is found, but for a last digit with another batch size."""

    batch_size: int | None = None  # None: the run's own
    shard_size: int | None = None  # None: a hundredth of the photos, within bounds
    shard: tuple[int, int] | None = None  # (i, n): every n-th part, from the i-th on
    engine: Literal["local", "ray"] = "local"
    workers: int | None = None  # of Ray; None: as many as the cluster has processors, or graphics cards
    overwrite: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "shard_size", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingsError(f"--{name.replace('_', '-')} is {value}; give 1 or more")
        if self.overwrite and self.shard is not None:
            raise SettingsError("--overwrite and --shard do not go together: one process would undo the others' work")
        if self.engine == "ray" and self.shard is not None:
            raise SettingsError("--engine ray and --shard do not go together: Ray shares the work out itself")
        if self.workers is not None and self.engine != "ray":
            raise SettingsError("--workers is for --engine ray; leave it out")


@dataclass(frozen=True)
class Task:
    """What is to be done: poses of what, on which photos, where to."""

    output: Folder
    looked_for: LookedFor
    prompt: Callable[[], Prompt]  # made if a run begins; one that goes on has its own
    boxes: Boxes | None
    photos: list[Listed]
    model: str | None  # where others than this process load it from


@dataclass
class Report:
    """What a run came to; counts are of photos and frames."""

    done: int = 0
    before: int = 0
    left: int = 0  # others of a job array have them
    seconds: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    results: str | None = None
    drawn: str | None = None


def run_all(
    task: Task,
    estimator: EdgeCape,
    settings: Settings,
    wanted: Wanted,
    watch: Callable[[int, Iterator[Tally]], Iterable[Tally]],
) -> tuple[Report, Run]:
    """watch: is given the number of photos to do and how they come out, one by one or shard by shard."""
    report, output = Report(), task.output
    with held(output, settings.shard) as hold:
        if settings.overwrite:
            _wipe(output)
        if hold.alone and isinstance(output, LocalFolder):
            _clear(output)
        clear_copies()
        run = _begun(task, settings, report.notes) if hold.alone else _joined(task)
        if settings.shard is not None:
            hold.share()
        state = survey(run)
        report.notes += [f"{what}; it is done again" for what in state.damaged]
        report.before = state.done
        for shards in (state.missing, state.undrawn if wanted.draw else []):
            mine = _mine(shards, settings.shard)
            if not mine:
                continue
            start = time.perf_counter()
            tallies = watch(sum(shard.size for shard in mine), _work(run, mine, task, estimator, settings, wanted))
            done = sum(done for done, _ in tallies)
            if shards is state.missing:  # the others were done before, and are drawn now
                report.done, report.seconds = done, time.perf_counter() - start
        state = survey(run)
        report.left = state.left
        asked = {listed.file for listed in task.photos}
        report.failed = {file: why for file, why in state.failed.items() if file in asked}
        if not state.missing:
            _finish(run, wanted, report)
    return report, run


def _begun(task: Task, settings: Settings, notes: list[str]) -> Run:
    """The run that the output holds, with photos that are new, have changed or failed added to it; or a new one."""
    run = Run.open(task.output)
    if run is None:
        prompt = task.prompt()
        run = Run(task.output, task.looked_for, settings.batch_size or BATCH_SIZE)
        run = run.with_photos(task.photos, settings.shard_size)
        survey(run)  # parts of another run, whose run.json is gone, are found out before this one has its own
        with task.output.writing(PROMPT) as path:
            prompt.save(path)
        if task.boxes is not None:
            run.save_boxes(task.boxes)
        run.save()
        return run
    _check(run, task)
    state = survey(run)
    known = {listed.file for members in run.members for listed in members}
    again = {listed.file for listed in changed(run, task.photos)}
    if again:
        notes.append(f"{len(again)} photos are not what they were, such as {min(again)}; they are done again")
    if settings.shard is None or not state.missing:  # else others may be at work on the rest, and fail again
        again |= state.failed.keys()
    added = [listed for listed in task.photos if listed.file not in known or listed.file in again]
    if added and added == run.members[-1]:  # they failed when they were tried last, and are tried once more
        for shard in run.shards(len(run.lists) - 1):
            task.output.remove(part_name(shard.number))
    elif added:
        run = run.with_photos(added, settings.shard_size)
        run.save()
    return run


def _joined(task: Task) -> Run:
    """The run that another process of the job array has begun."""
    run = Run.open(task.output)
    if run is None:
        raise DataError(f"{task.output} holds no {MANIFEST}, although another process began a run there; start again")
    _check(run, task)
    return run


def _check(run: Run, task: Task) -> None:
    if run.wanted != task.looked_for:
        other = run.wanted.differences(task.looked_for)
        raise DataError(f"{task.output} holds a run with another {other}; {START_OVER}")


def _mine(shards: list[Shard], share: tuple[int, int] | None) -> list[Shard]:
    return shards if share is None else [shard for shard in shards if shard.number % share[1] == share[0] - 1]


def _work(
    run: Run, shards: list[Shard], task: Task, estimator: EdgeCape, settings: Settings, wanted: Wanted
) -> Iterator[Tally]:
    if settings.engine == "ray":
        from edgecape.batch.cluster import Job, work

        yield from work(Job.of(run, task.model, wanted, settings.batch_size), shards, settings.workers)
        return
    worker = Worker(run, estimator, wanted.draw, settings.batch_size, wanted.names)
    for shard in shards:
        yield from ((1, 0) if outcome.failed is None else (0, 1) for outcome in worker.do(shard))


def _finish(run: Run, wanted: Wanted, report: Report) -> None:
    entries: Iterable[Entry] = Steadied(Results(run)) if wanted.smooth else Results(run)
    try:
        report.results = write_results(run.output, entries, wanted)
    except EdgeCapeError as error:
        raise type(error)(f"{error} ({KEPT})") from error
    if wanted.draw:
        report.failed |= {
            video: error for video, error in draw_videos(run.output, entries, wanted.names) if error is not None
        }
        report.drawn = f"{run.output}/{DRAWN}"


def _wipe(output: Folder) -> None:
    """All that a run keeps, run.json last: if this is interrupted, it is still the old run."""
    if output.read(MANIFEST) is None and not any(output.files("parts")):
        return
    for below in ("parts", "lists", DRAWN):
        for file in list(output.files(below)):
            output.remove(file.name)
    for name in (PROMPT, BOXES, MANIFEST):
        if output.read(name) is not None:
            output.remove(name)


def _clear(output: LocalFolder) -> None:
    """Files that killed runs had not finished."""
    unfinished = [path.name for path in output.root.glob(".*") if is_temporary(path.name)]
    for below in ("parts", "lists", "predictions", DRAWN):
        unfinished += [file.name for file in output.files(below) if is_temporary(file.name.rpartition("/")[2])]
    for name in unfinished:
        output.remove(name)
