"""A file that one process holds, or several together. The system lets go of it when the process ends, in any way."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from edgecape.errors import DataError

try:
    import fcntl
except ImportError:  # Windows: runs are not kept apart there
    fcntl = None  # type: ignore[assignment]


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
