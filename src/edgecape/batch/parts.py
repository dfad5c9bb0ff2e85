"""What was found, photo by photo, as it is found: so that a run that was stopped can go on.

A text file. Its first line says what was looked for, each further line (JSON) holds a finished photo. A line that a
crash left half-written is dropped; the photo is done again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from edgecape.errors import AnnotationError, DataError
from edgecape.formats.labels import Entry
from edgecape.types import Pose, Prompt

VERSION = 1
OF_PROMPT = ("names", "skeleton")  # stand in the first line, not with each pose
START_OVER = "leave out --skip-existing to start over, or choose another output folder"


class Journal:
    """Open for new entries. resume: keep those it holds, which must be of the same prompt and boxes."""

    def __init__(self, path: str | os.PathLike[str], prompt: Prompt, boxes: str = "", resume: bool = False):
        self.path, self.prompt = Path(path), prompt
        heading = _heading(prompt, boxes)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file: IO[bytes] = open(self.path, "r+b" if resume and self.path.exists() else "w+b")  # noqa: SIM115
            first = self.file.readline()
            if first.endswith(b"\n"):
                self._check(first, heading)
            self.file.seek(0)
            whole = sum(len(line) for line in self.file if line.endswith(b"\n"))
            self.file.truncate(whole)
            self.file.seek(whole)
            if not whole:
                self._write(heading)
        except OSError as error:
            raise DataError(f"{self.path} cannot be written: {error.strerror or error}") from error

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __iter__(self) -> Iterator[Entry]:
        with open(self.path, "rb") as file:
            next(file)
            for number, line in enumerate(file, start=2):
                try:
                    yield self._entry(json.loads(line))
                except (ValueError, KeyError, TypeError, AnnotationError) as error:
                    raise DataError(f"{self.path}, line {number} is damaged ({error}); {START_OVER}") from None

    def add(self, entry: Entry) -> None:
        poses = [
            {name: value for name, value in pose.to_dict().items() if name not in OF_PROMPT} for pose in entry.poses
        ]
        try:
            self._write({"file": entry.file, "size": entry.size, "poses": poses})
        except OSError as error:
            raise DataError(f"{self.path} cannot be written: {error.strerror or error}") from error

    def _write(self, content: Any) -> None:
        self.file.write(json.dumps(content, allow_nan=False).encode() + b"\n")
        self.file.flush()

    def _entry(self, content: dict[str, Any]) -> Entry:
        names, skeleton = self.prompt.names, self.prompt.skeleton
        poses = [replace(Pose.from_dict(pose), names=names, skeleton=skeleton) for pose in content["poses"]]
        width, height = content["size"]
        return Entry(content["file"], (width, height), poses)

    def _check(self, line: bytes, wanted: dict[str, Any]) -> None:
        there = None
        with suppress(ValueError):
            there = json.loads(line)
        if not isinstance(there, dict) or there.keys() != wanted.keys():
            raise DataError(f"{self.path} is not a journal of this version of edgecape; {START_OVER}")
        if not _same(there, wanted):
            raise DataError(f"{self.path} was begun with another support, model or boxes; {START_OVER}")


def _heading(prompt: Prompt, boxes: str) -> dict[str, Any]:
    return {
        "edgecape journal": VERSION,
        "model": prompt.model,
        "names": None if prompt.names is None else list(prompt.names),
        "skeleton": None if prompt.skeleton is None else [list(edge) for edge in prompt.skeleton],
        "boxes": boxes,
        "tokens": np.where(prompt.usable[:, None], prompt.tokens[0].astype(np.float64), 0).round(5).tolist(),
    }


def _same(there: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Up to rounding: another machine or number of threads computes tokens that differ in their last digits."""
    tokens, expected = np.array(there["tokens"]), np.array(wanted["tokens"])
    alike = all(there[name] == value for name, value in wanted.items() if name != "tokens")
    return alike and tokens.shape == expected.shape and np.allclose(tokens, expected, atol=1e-3)
