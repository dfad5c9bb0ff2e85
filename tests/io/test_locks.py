"""Files that processes hold, and work that they share by them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from edgecape.io import locks
from edgecape.io.locks import Lock, do_together, holder_of

SHARED = """
import sys, time
from pathlib import Path
from edgecape.io import locks
locks.WAIT = 0.01
folder = Path(sys.argv[1])
def do(piece):
    time.sleep(0.02)
    with open(folder / f"{piece}.done", "x") as file:  # fails if it was done before
        file.write(sys.argv[2])
locks.do_together(
    range(20), do, lambda piece: (folder / f"{piece}.done").exists(),
    lambda piece: locks.Lock(folder / f"{piece}.lock", "a test"),
    can_begin=lambda piece: piece == 0 or (folder / f"{piece // 2}.done").exists(),
)
print(len(list(folder.glob("*.done"))))
"""


def locked(folder: Path):
    return lambda piece: Lock(folder / f"{piece}.lock", "a test")


def test_processes_share_work_and_none_of_it_is_done_twice(tmp_path: Path) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", SHARED, str(tmp_path), name], stdout=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    said = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert said == ["20\n", "20\n"]  # both end when all is done
    assert Counter(path.read_text() for path in tmp_path.glob("*.done")).total() == 20


def test_what_is_done_is_left_and_what_cannot_begin_waits(tmp_path: Path) -> None:
    done, order = {1}, []

    def do(piece: int) -> None:
        order.append(piece)
        done.add(piece)

    do_together([3, 2, 1], do, done.__contains__, locked(tmp_path), can_begin=lambda piece: piece == 2 or 2 in done)
    assert order == [2, 3]


def test_a_piece_that_fails_is_free_for_others(tmp_path: Path) -> None:
    def fail(piece: int) -> None:
        raise ValueError(piece)

    with pytest.raises(ValueError, match="7"):
        do_together([7], fail, lambda piece: False, locked(tmp_path))
    assert holder_of(tmp_path / "7.lock") is None


def test_a_piece_that_is_held_is_left_to_its_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, waited, held = set[int](), [], Lock(tmp_path / "1.lock", "the other")
    assert held.take()

    def sleep(seconds: float) -> None:  # meanwhile the other one ends
        waited.append(seconds)
        assert done == {2} and str(os.getpid()) in str(holder_of(tmp_path / "1.lock"))
        done.add(1)
        held.release()

    monkeypatch.setattr(locks.time, "sleep", sleep)
    do_together([1, 2], done.add, done.__contains__, locked(tmp_path))
    assert done == {1, 2} and waited == [locks.WAIT]
