"""Who may work in an output: one run, or the processes of one job array.

Object stores have no locks. Two runs that look for the same write the same bytes there; another is refused by run.json.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from edgecape.batch.manifest import Folder
from edgecape.errors import DataError
from edgecape.io.locks import Lock, holder_of
from edgecape.io.storage import LocalFolder

LOCK = "run.lock"
ARRAY = "part of a job array"
PATIENCE = 0.5  # seconds that a lock is asked for: somebody may only have looked at it
PLANNING = 600.0  # seconds that another process of the array may take to begin the run
STEP = 0.05


class Hold:
    """alone: nobody else works here, so that photos may be added and what killed runs left may be cleared."""

    def __init__(self, alone: bool, lock: Lock | None = None):
        self.alone, self._lock = alone, lock

    def share(self) -> None:
        """Let other processes of the job array in."""
        if self._lock is not None and not self._lock.take(shared=True):
            raise DataError(f"another run began in the same output: {self._lock.holder}; start this one again later")


@contextmanager
def held(output: Folder, shard: tuple[int, int] | None) -> Iterator[Hold]:
    if not isinstance(output, LocalFolder):
        yield Hold(alone=True)
        return
    with ExitStack() as stack:
        if shard is None:
            lock = _lock(stack, output.root / LOCK, "a run")
            if not _take(lock):
                raise _in_use(output, lock)
            yield Hold(True, lock)
            return
        if not _take(mine := _lock(stack, output.root / f"shard-{shard[0]}-of-{shard[1]}.lock", ARRAY)):
            raise _in_use(output, mine)
        lock = _lock(stack, output.root / LOCK, ARRAY)
        began = time.monotonic()
        while not (alone := lock.take()) and not lock.take(shared=True):
            waited, said = time.monotonic() - began, lock.said
            foreign = said and not said.startswith(ARRAY)
            if waited > PLANNING or (foreign and waited > PATIENCE):
                raise _in_use(output, lock)
            time.sleep(STEP)
        yield Hold(alone, lock)


def holders(output: Folder) -> list[str]:
    """Who works in an output now."""
    if not isinstance(output, LocalFolder):
        return []
    found = (holder_of(path) for path in sorted(output.root.glob("*.lock")))
    return [holder for holder in found if holder is not None]


def _lock(stack: ExitStack, path: Path, who: str) -> Lock:
    lock = Lock(path, who)
    stack.callback(lock.release)
    return lock


def _take(lock: Lock) -> bool:
    until = time.monotonic() + PATIENCE
    while not (taken := lock.take()) and time.monotonic() < until:
        time.sleep(STEP)
    return taken


def _in_use(output: Folder, lock: Lock) -> DataError:
    return DataError(f"{output} is in use by {lock.holder}; wait until it ends, or choose another output with -o")
