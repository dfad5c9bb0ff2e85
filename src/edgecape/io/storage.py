"""Folders that lie on this machine or in an object store (s3://, gs://, hdfs://, … by pyarrow.fs), used alike.

A file appears under its name only when it is whole: locally because the package's writers rename, in a store because an
upload that was not completed leaves nothing.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from edgecape.errors import DataError, require

FLAT = ("s3", "gcs", "abfs")  # stores without folders: a name may hold any number of /
CHUNK = 1 << 23
COPIES = "edgecape-copy-"  # temporary folders
FORGOTTEN = 86_400  # seconds after which nobody can be at work on a copy any more


class FileFacts(NamedTuple):
    name: str  # below the folder, with /
    bytes: int
    mtime: int  # nanoseconds


def is_remote(place: str | os.PathLike[str]) -> bool:
    return "://" in os.fspath(place)


def open_folder(place: str | os.PathLike[str]) -> LocalFolder | RemoteFolder:
    return RemoteFolder(os.fspath(place).rstrip("/")) if is_remote(place) else LocalFolder(Path(place))


@dataclass(frozen=True)
class LocalFolder:
    root: Path

    def __str__(self) -> str:
        return str(self.root)

    def files(self, below: str = "") -> Iterator[FileFacts]:
        """All files of a subfolder, also deeper ones; none if it is not there."""
        for parent, _, names in os.walk(self.root / below):
            for name in names:
                path = Path(parent, name)
                with suppress(FileNotFoundError):  # it was there a moment ago
                    facts = path.stat()
                    yield FileFacts(path.relative_to(self.root).as_posix(), facts.st_size, facts.st_mtime_ns)

    def read(self, name: str) -> bytes | None:
        """None if there is no such file."""
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(f"{self.root / name} cannot be read: {error.strerror or error}") from error

    @contextmanager
    def reading(self, name: str) -> Iterator[Path]:
        """A file of this machine with that content."""
        yield self.root / name

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Where to write with one of the package's writers, each of which writes all or nothing."""
        yield self.root / name

    def remove(self, name: str) -> None:
        try:
            (self.root / name).unlink(missing_ok=True)
        except OSError as error:
            raise DataError(f"{self.root / name} cannot be removed: {error.strerror or error}") from error


@dataclass(frozen=True)
class RemoteFolder:
    uri: str

    def __post_init__(self) -> None:
        require("cluster", self.uri, "pyarrow")

    def __str__(self) -> str:
        return self.uri

    @cached_property
    def _base(self) -> tuple[Any, str]:
        scheme, _, rest = self.uri.partition("://")
        authority, _, path = rest.partition("/")
        if not authority and scheme != "hdfs":
            raise DataError(f"{self.uri} is no place that can be reached: it names no bucket")
        filesystem, root = _filesystem(f"{scheme}://{authority}")
        return filesystem, "/".join(part for part in (root.rstrip("/"), path) if part)

    def _path(self, name: str) -> str:
        base = self._base[1]
        return f"{base}/{name}" if name else base

    def files(self, below: str = "") -> Iterator[FileFacts]:
        from pyarrow.fs import FileSelector, FileType

        filesystem, base = self._base
        with _naming(f"{self}/{below}".rstrip("/"), "listed"):
            try:
                found = filesystem.get_file_info(FileSelector(self._path(below), recursive=True))
            except FileNotFoundError:  # not a bucket that is missing: that is an error of another kind
                found = []
        found.reverse()
        while found:  # let go of one by one: a bucket may hold millions
            facts = found.pop()
            if facts.type == FileType.File:
                yield FileFacts(facts.path[len(base) :].lstrip("/"), facts.size, facts.mtime_ns or 0)

    def facts(self, name: str) -> FileFacts | None:
        """Of one file; None if it is not there."""
        from pyarrow.fs import FileType

        with _naming(f"{self}/{name}", "read"):
            found = self._base[0].get_file_info(self._path(name))
        return FileFacts(name, found.size, found.mtime_ns or 0) if found.type == FileType.File else None

    def read(self, name: str) -> bytes | None:
        with _naming(f"{self}/{name}", "read"):
            try:
                with self._base[0].open_input_stream(self._path(name), compression=None) as stream:
                    return bytes(stream.readall())
            except FileNotFoundError:
                return None

    @contextmanager
    def reading(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix=COPIES) as folder:
            target = Path(folder) / Path(name).name
            self.download(name, target)
            yield target

    def download(self, name: str, target: Path) -> None:
        from pyarrow.fs import LocalFileSystem, copy_files

        with _naming(f"{self}/{name}", "read"):
            copy_files(self._path(name), str(target), self._base[0], LocalFileSystem())

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Written on this machine first; when that went well, it is put there whole, a folder file by file."""
        with tempfile.TemporaryDirectory(prefix=COPIES) as folder:
            yield Path(folder) / name
            for facts in LocalFolder(Path(folder)).files():
                self._upload(Path(folder) / facts.name, facts.name)

    def _upload(self, source: Path, name: str) -> None:
        filesystem, target = self._base[0], self._path(name)
        with _naming(f"{self}/{name}", "written"), open(source, "rb") as file:
            if filesystem.type_name not in FLAT:
                filesystem.create_dir(target.rpartition("/")[0], recursive=True)
            stream = filesystem.open_output_stream(target, compression=None)
            try:
                shutil.copyfileobj(file, stream, CHUNK)
                stream.close()
            except BaseException:  # a stream that is given up completes what it has
                with suppress(OSError):
                    stream.close()
                with suppress(OSError):
                    filesystem.delete_file(target)
                raise

    def remove(self, name: str) -> None:
        with _naming(f"{self}/{name}", "removed"):
            self._base[0].delete_file(self._path(name))


def clear_copies() -> None:
    """Remove what killed processes copied from stores and could not remove."""
    for folder in Path(tempfile.gettempdir()).glob(f"{COPIES}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > FORGOTTEN:
                shutil.rmtree(folder, ignore_errors=True)


def split_uri(uri: str) -> tuple[RemoteFolder, str]:
    """The folder and the name of one file."""
    folder, _, name = uri.rpartition("/")
    return RemoteFolder(folder), name


@lru_cache
def _filesystem(root: str) -> tuple[Any, str]:
    """Of scheme://authority; one connection for all that is asked of it."""
    from pyarrow.fs import FileSystem

    try:
        filesystem, path = FileSystem.from_uri(root)
    except (ValueError, OSError) as error:
        raise DataError(f"{root} is no place that can be reached: {_explained(error)}") from error
    return filesystem, path


@contextmanager
def _naming(place: str, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"{place} cannot be {done}: {_explained(error)}") from error


def _explained(error: Exception) -> str:
    """Its first line, and what to do."""
    text = (str(error).splitlines() or [type(error).__name__])[0].partition(" (Request ID")[0].rstrip(".")
    if any(word in text for word in ("ACCESS_DENIED", "ACCESS_KEY", "SIGNATURE", "TOKEN", "redentials")):
        return f"{text}; check the credentials (for S3: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or a profile)"
    if "NO_SUCH_BUCKET" in text or ("ucket" in text and "not found" in text):
        return f"{text}; check its name, or make the bucket first"
    if "NETWORK_CONNECTION" in text:
        return f"{text}; check the connection, and AWS_ENDPOINT_URL if the store is not Amazon's"
    return text
