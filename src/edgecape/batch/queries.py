"""Which photos and videos are meant (files, folders, patterns, lists, places in object stores), and getting at them."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from edgecape.batch.manifest import MANIFEST, Listed
from edgecape.errors import DataError, ImageError
from edgecape.formats.boxes import Boxes, of_photo
from edgecape.io import images, video
from edgecape.io.storage import FileFacts, RemoteFolder, is_remote, split_uri

FILES = (*images.SUFFIXES, *video.SUFFIXES)
DRAWN = "drawn"  # folder of pictures in an output, which are no photos


def find_queries(queries: Sequence[str], notes: list[str], unreadable: list[str]) -> list[Listed]:
    """Photos and videos named by files, folders, patterns, lists and URIs, each once, sorted by name.

    Folders give photos only, as cameras put short videos beside them. Hidden files are left out, and so is what runs
    drew, which goes to `notes`. Folders that cannot be read go to `unreadable`.
    """
    if not queries:
        raise ImageError("no photo is given; name files, folders, patterns, a .txt list or videos")
    found: dict[str, FileFacts | None] = {}
    for query in queries:
        named = False
        for file, facts in _remote(query, notes) if is_remote(query) else _local(query, notes, unreadable):
            found[file], named = facts, True
        if not named:
            raise ImageError(
                f"'{query}' names no photo; give files, folders of photos, patterns, a .txt list, or videos by name"
                + "".join(f" ({note})" for note in notes)
            )
    return [_listed(file, found.pop(file)) for file in sorted(found)]


def _local(query: str, notes: list[str], unreadable: list[str]) -> Iterator[tuple[str, FileFacts | None]]:
    path = Path(query)
    if not query.strip():
        return
    if path.is_dir():
        members: Iterable[Path] = _in_folder(path, notes, unreadable)
    elif path.suffix == ".txt" and path.is_file():
        for line in _lines(path):
            if is_remote(line):  # one by one, a store would take long to tell their sizes
                named = line.lower().endswith(FILES)
                yield from [(line, FileFacts(line, 0, 0))] if named else _remote(line, notes)
            else:
                yield (path.parent / line).as_posix(), None
        return
    else:
        members = [path] if path.exists() else map(Path, glob.glob(query, recursive=True))
    yield from ((member.as_posix(), None) for member in members)


def _in_folder(folder: Path, notes: list[str], unreadable: list[str]) -> Iterator[Path]:
    def left_out(error: OSError) -> None:
        unreadable.append(f"folder {error.filename} cannot be read: {error.strerror}")

    for parent, folders, files in os.walk(folder, onerror=left_out):
        here = Path(parent)
        if MANIFEST in files and DRAWN in folders:
            notes.append(f"{here / DRAWN} is left out: a run drew it")
            folders.remove(DRAWN)
        folders[:] = [name for name in folders if name[0] != "."]
        yield from (here / name for name in files if name[0] != "." and name.lower().endswith(images.SUFFIXES))


def _remote(uri: str, notes: list[str]) -> Iterator[tuple[str, FileFacts]]:
    """One file, or all photos whose names begin with this folder's."""
    if "?" in uri:
        raise DataError(f"{uri} has a ?; settings of a store come from the environment, as AWS_ENDPOINT_URL")
    if uri.lower().endswith(FILES):
        folder, name = split_uri(uri)
        facts = folder.facts(name)
        if facts is not None:
            yield uri, facts
        return
    folder = RemoteFolder(uri.rstrip("/"))
    drawn: list[str] = []  # folders
    photos: list[FileFacts] = []
    for file in folder.files():
        if PurePosixPath(file.name).name == MANIFEST:
            drawn.append(f"{file.name.removesuffix(MANIFEST)}{DRAWN}/")
        elif file.name.lower().endswith(images.SUFFIXES) and not f"/{file.name}".count("/."):
            photos.append(file)
    left_out = 0
    for file in photos:
        if file.name.startswith(tuple(drawn)):
            left_out += 1
        else:
            yield f"{folder}/{file.name}", file
    if left_out:
        notes.append(f"{left_out} pictures below {folder} are left out: a run drew them")


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"list {path} cannot be read: {error}") from None
    return [line.strip() for line in lines if line.strip()]


def _listed(file: str, facts: FileFacts | None) -> Listed:
    size, mtime = (facts.bytes, facts.mtime) if facts is not None else _stat(Path(file))
    return Listed(file, size, mtime, _frames(file) if video.is_video(file) else None)


def _stat(path: Path) -> tuple[int, int]:
    try:
        facts = path.stat()
        return facts.st_size, facts.st_mtime_ns
    except (OSError, ValueError):  # its time to be named comes
        return 0, 0


def _frames(file: str) -> int:
    try:
        with fetched(file) as path:
            return video.video_facts(path).frames
    except ImageError:  # as above
        return 0


def without_boxes(photos: Sequence[Listed], boxes: Boxes) -> Iterator[str]:
    """Notes on photos that a box file says nothing of, before the work."""
    bare = [listed.file for listed in photos if listed.frames is None and not of_photo(listed.file, boxes.of_name)]
    if bare:
        yield f"{boxes.path} has no boxes for {len(bare)} of {len(photos)} photos, such as {bare[0]}; these will fail"


@contextmanager
def fetched(file: str) -> Iterator[Path]:
    """The photo or video as a file of this machine."""
    if not is_remote(file):
        yield Path(file)
        return
    folder, name = split_uri(file)
    with folder.reading(name) as path:
        yield path


def content_digest(path: Path) -> str | None:
    """None if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    except (OSError, ValueError):
        return None
