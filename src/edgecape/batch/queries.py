"""Which photos and videos are meant: files, folders, patterns, lists."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from edgecape.errors import DataError, ImageError
from edgecape.io import images, video

DRAWN = "drawn"  # folder of pictures in the output folder, which are no photos


def find_queries(queries: Sequence[str], output: Path) -> list[Path]:
    """Photos and videos named by files, folders, patterns and lists, in that order, each once.

    Folders give photos only, as cameras put short videos beside them. Hidden files and drawn results are left out.
    """
    if not queries:
        raise ImageError("no photo is given; name files, folders, patterns, a .txt list or videos")
    found: list[Path] = []
    for query in queries:
        path = Path(query)
        if path.is_dir():
            members = list(_in_folder(path, output / DRAWN))
        elif path.suffix == ".txt" and path.is_file():
            members = _in_list(path)
        elif path.exists():
            members = [path]
        else:
            members = [Path(match) for match in sorted(glob.glob(query, recursive=True))]
        if not members:
            raise ImageError(
                f"'{query}' names no photo; give files, folders of photos, patterns, a .txt list, or videos by name"
            )
        found += members
    return list(dict.fromkeys(found))


def _in_folder(folder: Path, besides: Path) -> Iterator[Path]:
    besides = besides.resolve()
    for parent, folders, files in os.walk(folder):
        here = Path(parent)
        folders[:] = sorted(name for name in folders if name[0] != "." and (here / name).resolve() != besides)
        yield from (here / name for name in sorted(files) if name[0] != "." and name.lower().endswith(images.SUFFIXES))


def _in_list(path: Path) -> list[Path]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"list {path} cannot be read: {error}") from None
    return [path.parent / line.strip() for line in lines if line.strip()]


def count(queries: Iterable[Path]) -> int:
    """Photos and frames, as far as videos tell."""
    return sum(_frames(path) if video.is_video(path) else 1 for path in queries)


def _frames(path: Path) -> int:
    try:
        return video.video_facts(path).frames or 1
    except ImageError:  # its time to be named comes
        return 1
