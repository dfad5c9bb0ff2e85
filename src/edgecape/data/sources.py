"""The data sets that MP-100 takes its images from, and finding an image in the folder of one of them.

A folder is indexed once and may be laid out in any way: an image is found by its file name. Where one name means
several files, its folders and then the picture's size decide; what stays ambiguous is said to be, not guessed.

CarFusion's images are named after ids that its converter gave them: sequence × 10⁸ + camera × 10⁵ + frame. The number
of a sequence was its place in a directory listing, which differs from machine to machine. So camera_frame.jpg is looked
for in all sequences, and the one whose labels (gt/camera_frame.txt) have the annotated keypoints is it.

Frames of fly and locust are found by their keypoints too, where the HDF5 file they come in is there.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from edgecape.errors import ImageError
from edgecape.io import mp100
from edgecape.io.images import image_size

FRAME = re.compile(r"(\d+)_(\d+)\.jpe?g")  # camera and frame, as CarFusion names its images
ARCHIVE = "annotation_data_release.h5"  # in which DeepPoseKit-Data keeps its frames


@dataclass(frozen=True)
class Source:
    """A data set that MP-100 takes images from."""

    key: str
    title: str
    group: str  # MP-100's super-category, as in the cross super-category experiments
    url: str
    terms: str
    wanted: str  # which part of the download
    inside: tuple[str, ...] | None = None
    """Where names alone are ambiguous: folders in one of which an image has to lie, if not in MP-100's own folder."""


_ENTRIES: list[dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
for _entry in _ENTRIES:
    _entry["inside"] = tuple(_entry["inside"]) if "inside" in _entry else None
SOURCES = {entry["key"]: Source(**entry) for entry in _ENTRIES}


def group(category_id: int) -> str:
    """MP-100's super-category: body, face, hand, animal_body, animal_face, clothes, furniture or vehicle."""
    return SOURCES[mp100.KINDS[category_id - 1].source].group


@dataclass(frozen=True)
class Wanted:
    """An image of MP-100."""

    file_name: str
    size: tuple[int, int] | None
    points: frozenset[tuple[int, int]]  # of its marked keypoints

    @property
    def folder(self) -> str:
        return self.file_name.split("/")[0]

    @property
    def source(self) -> Source:
        return SOURCES[mp100.BY_FOLDER[self.folder].source]


@dataclass(frozen=True)
class SourceFolder:
    root: Path
    files: dict[str, list[Path]]  # by lower-case name
    frames: dict[tuple[int, int], list[Path]]  # by CarFusion's camera and frame

    def folders_of(self, path: Path) -> set[str]:
        """Names of the folders a file lies in, from the one above the root downwards."""
        names = (*self.root.absolute().parts[-2:], *path.relative_to(self.root).parts[:-1])
        return {name.lower() for name in names}


def index_folder(root: Path) -> SourceFolder:
    """All files below a folder; links are followed, each folder once."""
    index = SourceFolder(root, {}, {})
    visited: set[str] = set()
    for folder, folders, names in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in visited:
            folders.clear()
            continue
        visited.add(real)
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            index.files.setdefault(name.lower(), []).append(path)
            frame = FRAME.fullmatch(name.lower())
            if frame:
                index.frames.setdefault((int(frame[1]), int(frame[2])), []).append(path)
    return index


def find(image: Wanted, folder: SourceFolder) -> tuple[list[Path], str]:
    """The file that an image (or the archive that it) is in a source: one path; several if that is ambiguous; none,
    and why."""
    source, name = image.source, PurePosixPath(image.file_name)
    if source.key in ("fly", "locust"):  # labels in the archive are better evidence than a number
        archives = [path for path in folder.files.get(ARCHIVE, []) if source.key in folder.folders_of(path)]
        if archives:
            return archives, ""
    candidates = [path for path in folder.files.get(name.name.lower(), []) if path.is_file()]
    why = f"not below {folder.root}"
    if source.inside is not None:
        allowed = {image.folder, *source.inside}
        if candidates:
            why = f"{candidates[0]} has the name, but is in no folder called {' or '.join(sorted(allowed))}"
        candidates = [path for path in candidates if allowed & folder.folders_of(path)]
    if candidates:
        return _narrow(image, candidates, folder), ""
    if source.key == "carfusion":
        return _find_carfusion(image, folder)
    return [], why


def _narrow(image: Wanted, candidates: list[Path], folder: SourceFolder) -> list[Path]:
    tail = tuple(part.lower() for part in PurePosixPath(image.file_name).parts[1:])
    tests: tuple[Callable[[Path], bool], ...] = (
        lambda path: tuple(part.lower() for part in path.parts[-len(tail) :]) == tail,
        lambda path: image.folder in folder.folders_of(path),
        lambda path: size_of(path) == image.size,
    )
    for test in tests:
        if len(candidates) > 1:
            candidates = [path for path in candidates if test(path)] or candidates
    first = candidates[0]
    return [first] if all(same_content(first, path) for path in candidates[1:]) else candidates


def _find_carfusion(image: Wanted, folder: SourceFolder) -> tuple[list[Path], str]:
    number = PurePosixPath(image.file_name).stem
    if not number.isdigit():
        return [], f"{number} is not a number as CarFusion's converter gives"
    camera, frame = int(number) // 10**5 % 10**3, int(number) % 10**5
    candidates = folder.frames.get((camera, frame), [])
    if not candidates:
        return [], f"no {camera}_{frame}.jpg in any sequence below {folder.root}"
    # half of the points is far more than chance gives, and forgives labels that were corrected since
    proven = [path for path in candidates if 2 * len(image.points & _labels(path)) > len(image.points)]
    return proven, f"{candidates[0]} is that camera and frame, but its gt folder does not have the annotated keypoints"


def _labels(path: Path) -> set[tuple[int, int]]:
    """Keypoints that CarFusion's own labels have for an image: lines of x, y, keypoint, object, visibility."""
    try:
        lines = (path.parent.parent / "gt" / f"{path.stem}.txt").read_text().splitlines()
        rows = [line.split(",") for line in lines if line.strip()]
        return {(int(float(x)), int(float(y))) for x, y, *_ in rows}
    except (OSError, ValueError):
        return set()


def size_of(path: Path) -> tuple[int, int] | None:
    try:
        return image_size(path)
    except ImageError:
        return None


def same_content(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second) or filecmp.cmp(first, second)
    except OSError:
        return False
