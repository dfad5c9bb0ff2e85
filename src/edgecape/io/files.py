"""Writing files so that nobody ever sees half of one, and reading them with errors that name them."""

from __future__ import annotations

import gzip
import json
import os
import re
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from edgecape.errors import DataError


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary name beside `path`, of its suffix; what is written there becomes `path` if the block ends well."""
    target = Path(path)
    temporary = target.with_name(f".{uuid.uuid4().hex}{target.suffix}")  # short: names have a longest length
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        settle(temporary)
        os.replace(temporary, target)
        settle(target.parent)
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def settle(path: Path) -> None:
    """From the system's memory to the disk, a file or the names in a folder: what was renamed before it was written
    is empty after a power cut."""
    if path.is_dir() and os.name != "posix":  # elsewhere folders cannot be opened
        return
    opened = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def is_temporary(name: str) -> bool:
    """Whether `atomic_path` made that name: a file that is there without a living process was never finished."""
    return re.fullmatch(r"\.[0-9a-f]{32}(\..+)?", name) is not None


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w", **options: Any) -> Iterator[IO[Any]]:
    """A file that appears under its name only when the block ends well; options go to `open`, text is UTF-8."""
    if "b" not in mode:
        options.setdefault("encoding", "utf-8")
    with atomic_path(path) as temporary, open(temporary, mode, **options) as file:
        yield file


def write_json(path: str | os.PathLike[str], content: Any, indent: int | None = None) -> None:
    with atomic_write(path) as file:
        json.dump(content, file, ensure_ascii=False, allow_nan=False, indent=indent)
        file.write("\n")


def read_json(path: str | os.PathLike[str]) -> Any:
    """The content of a .json or .json.gz file."""
    path = Path(path)
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig") as file:
            return json.load(file)
    except FileNotFoundError:
        raise DataError(f"file {path} does not exist") from None
    except (ValueError, RecursionError) as error:  # damaged JSON or text
        raise DataError(f"{path} is not a complete JSON file: {error}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def read_yaml(path: str | os.PathLike[str]) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        def flatten_mapping(self, node: Any) -> None:
            """Not done: a few merge keys (<<) in each other fill any memory."""

    try:
        return yaml.load(Path(path).read_text(encoding="utf-8-sig"), Loader)
    except FileNotFoundError:
        raise DataError(f"file {path} does not exist") from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise DataError(f"{path} is not a YAML file: {error}") from None
