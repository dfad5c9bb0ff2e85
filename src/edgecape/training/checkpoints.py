"""Checkpoints that survive anything: written under a temporary name, checked on reading, two kept."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import torch

from edgecape.errors import WeightsError
from edgecape.io.files import atomic_write

SUFFIX = ".checkpoint"


def save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """`last` becomes `previous`, the new one becomes `last`; each carries the hash of its content."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getvalue()
    last, previous = folder / f"last{SUFFIX}", folder / f"previous{SUFFIX}"
    with atomic_write(folder / f"next{SUFFIX}", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
    if last.exists():
        os.replace(last, previous)
    os.replace(folder / f"next{SUFFIX}", last)


def load_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The newest sound checkpoint of a run, None if there is none. A damaged one is never loaded."""
    damaged = []
    for name in ("next", "last", "previous"):
        path = folder / f"{name}{SUFFIX}"
        if not path.is_file():
            continue
        content = path.read_bytes()
        digest, content = content[:32], content[32:]
        if hashlib.sha256(content).digest() == digest:
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        damaged.append(path.name)
    if damaged:
        raise WeightsError(f"all checkpoints in {folder} are damaged ({', '.join(damaged)}); start the run anew")
    return None
