"""HDF5 files from anywhere: read in a process of their own, so that a damaged one ends in a sentence.

The HDF5 library crashes on some damaged files, and some ask for any amount of memory. So the file is opened by a child
process with limits on memory and time, which answers in JSON; whatever happens there, this process goes on. Nothing is
unpickled on either side, and what leads out of the file (links, raw data elsewhere) is refused.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from edgecape.errors import DataError

MEMORY = 4 << 30  # bytes of address space, of which Python and its libraries need about half a gigabyte
SECONDS = 120  # hours of video take seconds
CHILD = "import sys; sys.path[:] = {path!r}; from edgecape.formats.hdf5 import answer; answer({module!r}, {name!r})"


def read_apart(reader: Callable[[str], Any], path: str | os.PathLike[str], kind: str) -> Any:
    """The plain values that `reader`, a function at the top of its module, makes of a file, which should be `kind`."""
    if not os.path.isfile(path):
        raise DataError(f"file {path} does not exist")
    # this process's own search path and no other: the current folder may hold anything
    call = CHILD.format(path=sys.path, module=reader.__module__, name=reader.__name__)
    few = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # each thread would reserve memory
    plain = {"HDF5_PLUGIN_PRELOAD": "::"}  # HDF5 looks for no plug-ins
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", call, os.fspath(path)],
            capture_output=True,
            timeout=SECONDS,
            env=os.environ | few | plain,
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"{path} is not {kind}: reading it took more than {SECONDS} seconds") from None
    if done.returncode:
        raise DataError(f"{path} is not {kind}: it is damaged, the HDF5 library gave up on it")
    reply = json.loads(done.stdout.splitlines()[-1])
    if "error" in reply:
        raise DataError(f"{path} is not {kind}: {reply['error']}")
    return reply["content"]


def answer(module: str, name: str) -> None:
    """What the child does: one line of JSON."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected: no dump of it
    except (ImportError, ValueError, OSError):  # not on this system, or less is allowed already
        pass
    try:
        reply = {"content": getattr(importlib.import_module(module), name)(sys.argv[1])}
    except MemoryError:
        reply = {"error": f"reading it takes more than {MEMORY >> 30} GB of memory"}
    except Exception as error:  # HDF5 and its readers raise whatever they like on damaged files
        reply = {"error": " ".join(str(error).split()) or type(error).__name__}
    print(f"\n{json.dumps(reply)}")


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """In the child: the file, if all that it holds is in it."""
    import h5py

    def leads_out(name: str, link: Any) -> str | None:
        thing = file[name] if isinstance(link, h5py.HardLink) else None
        elsewhere = isinstance(thing, h5py.Dataset) and (thing.external or thing.is_virtual)
        return name if elsewhere or isinstance(link, h5py.ExternalLink) else None

    with h5py.File(path, "r") as file:
        name = file.visititems_links(leads_out)  # the first there is
        if name is not None:
            raise ValueError(f"its '{name}' leads to another file")
        yield file
