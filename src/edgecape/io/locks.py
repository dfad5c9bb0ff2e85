"""A file that one process holds, or several together. The system lets go of it when the process ends, in any way.
And work that processes share by such files.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from edgecape.errors import DataError

try:
    import fcntl
except ImportError:  # Windows: runs are not kept apart there
    fcntl = None  # type: ignore[assignment]

WAIT = 2.0  # seconds, for what other processes are doing
Piece = TypeVar("Piece")


class Lock:
    """who: written into the file, for those who come too late."""

    def __init__(self, path: Path, who: str):
        self.who = f"{who}, process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file = open(path, "a+", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error.strerror or error}") from error

    def take(self, shared: bool = False) -> bool:
        """Whether it is ours now; a lock that is ours already changes its kind."""
        if fcntl is not None:
            try:
                fcntl.flock(self.file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError:  # a file system without locks: parts are whole or absent there too
                return True
        if not shared:
            with suppress(OSError):  # on a full disk the lock holds without its text
                self.file.truncate(0)
                self.file.write(self.who)
                self.file.flush()
        return True

    @property
    def holder(self) -> str:
        """Who took it last for himself alone."""
        return self.said or "another process"

    @property
    def said(self) -> str:
        """What stands in the file. Whoever has just taken it has not written there yet: for a moment it is empty, or
        speaks of somebody before."""
        self.file.seek(0)
        return self.file.read()

    def release(self) -> None:
        self.file.close()


def holder_of(path: Path) -> str | None:
    """Who holds it now; None if nobody does."""
    if fcntl is None or not path.is_file():
        return None
    with open(path, encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read() or "another process"
        except OSError:
            return None
    return None


def do_together(
    pieces: Iterable[Piece],
    do: Callable[[Piece], object],
    is_done: Callable[[Piece], bool],
    lock: Callable[[Piece], Lock],
    can_begin: Callable[[Piece], bool] = lambda piece: True,
) -> None:
    """Have all pieces of a work done, together with other processes that call this for the same pieces: each is done by
    whoever has its lock. What a process that died has left is done by another."""
    left = list(pieces)
    while left := [piece for piece in left if not is_done(piece)]:
        if not any(_do_alone(piece, do, is_done, lock(piece)) for piece in left if can_begin(piece)):
            time.sleep(WAIT)  # others are doing the rest


def _do_alone(piece: Piece, do: Callable[[Piece], object], is_done: Callable[[Piece], bool], lock: Lock) -> bool:
    """Whether it was done here: not if another process does it, or has."""
    try:
        if not lock.take() or is_done(piece):
            return False
        do(piece)
        return True
    finally:
        lock.release()
