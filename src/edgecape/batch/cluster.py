"""Shards on a Ray cluster: Ray Data maps them over actors with one model each. Retries and lost nodes are Ray's."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edgecape.batch.manifest import Listed, Run, Shard
from edgecape.batch.outputs import Wanted
from edgecape.batch.worker import Worker
from edgecape.errors import DataError, EdgeCapeError, require
from edgecape.io.storage import LocalFolder, open_folder


@dataclass(frozen=True)
class Job:
    """All that an actor is told, wherever it runs; the rest is in the output."""

    output: str
    folder: str  # that names of photos are relative to
    model: str | None
    wanted: Wanted
    batch_size: int | None

    @classmethod
    def of(cls, run: Run, model: str | None, wanted: Wanted, batch_size: int | None) -> Job:
        local = isinstance(run.output, LocalFolder)
        place = os.path.abspath(str(run.output)) if local else str(run.output)
        return cls(place, os.getcwd(), model, wanted, batch_size)


class Actor:
    """One model on one node."""

    def __init__(self, job: Job):
        from edgecape.predictor import EdgeCape

        try:
            os.chdir(job.folder)
        except OSError as error:
            raise DataError(f"this node has no folder {job.folder}; use a shared one, or a store: {error}") from None
        run = Run.open(open_folder(job.output))
        if run is None:
            raise DataError(f"this node finds no run in {job.output}; use a shared folder, or a store such as s3://…")
        self.worker = Worker(
            run, EdgeCape.from_pretrained(job.model), job.wanted.draw, job.batch_size, job.wanted.names
        )

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        done, failed = [], []
        for text in rows["shard"]:
            outcomes = [outcome.failed is None for outcome in self.worker.do(unpack(str(text)))]
            done.append(sum(outcomes))
            failed.append(len(outcomes) - sum(outcomes))
        return {"done": done, "failed": failed}


def pack(shard: Shard) -> str:
    return json.dumps([shard.number, shard.members, shard.first, shard.stop])


def unpack(text: str) -> Shard:
    number, members, first, stop = json.loads(text)
    return Shard(number, tuple(Listed(*values) for values in members), first, stop)


def work(job: Job, shards: list[Shard], workers: int | None) -> Iterator[tuple[int, int]]:
    """Photos done and failed, shard by shard, as they come."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # it warns of what Ray Data does with its own actors
    require("cluster", "--engine ray", "ray", "pyarrow")
    import ray
    from ray.data import ActorPoolStrategy, DataContext

    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    DataContext.get_current().enable_progress_bars = False  # there is one for all engines
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # errors are raised, once
    has = ray.cluster_resources()
    cards = int(has.get("GPU", 0))
    number = min(workers or cards or int(has.get("CPU", 1)), len(shards))
    rows = ray.data.from_items([{"shard": pack(shard)} for shard in shards], override_num_blocks=len(shards))
    counted = rows.map_batches(
        Actor,
        fn_constructor_args=(job,),
        batch_size=1,
        compute=ActorPoolStrategy(size=number),
        num_cpus=0 if cards else 1,
        num_gpus=1 if cards else 0,
    )
    try:
        for row in counted.iter_rows():
            yield int(row["done"]), int(row["failed"])
    except ray.exceptions.RayError as error:
        raise _cause(error) from error


def _cause(error: BaseException) -> BaseException:
    """What was wrong on the node, if it is something that a user can put right."""
    seen: BaseException | None = error
    while seen is not None:
        inner = getattr(seen, "cause", None) or seen.__cause__
        if isinstance(inner, EdgeCapeError):
            return inner
        seen = inner
    last = str(error).strip().splitlines()[-1]  # of an actor that could not begin, Ray keeps the text only
    return DataError(f"the cluster gave up: {last.partition('Error: ')[2] if 'edgecape.errors.' in last else last}")
