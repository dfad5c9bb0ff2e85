"""MP-100's image tree from the folders of its source data sets, by links or copies.

Nothing that exists is ever overwritten, so a run can be repeated as sources come in. How an image is found in a source
is in sources.py, what MP-100 is made of in mp100.py.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgecape.data.sources import ARCHIVE, SOURCES, SourceFolder, Wanted, find, index_folder, same_content, size_of
from edgecape.errors import DataError
from edgecape.io import mp100
from edgecape.io.coco import Entry, load_coco
from edgecape.io.files import atomic_path

Status = Literal["there", "placed", "missing", "ambiguous", "conflict"]


@dataclass(frozen=True)
class Item:
    """What became of a wanted image."""

    file_name: str
    source: str  # key
    status: Status
    detail: str = ""
    other_size: bool = False  # than the annotations say


@dataclass(frozen=True)
class AssemblyReport:
    out: str
    items: tuple[Item, ...]

    @property
    def complete(self) -> bool:
        return all(item.status in ("there", "placed") for item in self.items)

    @property
    def problems(self) -> list[Item]:
        return [item for item in self.items if item.status not in ("there", "placed") or item.other_size]

    def sources(self) -> dict[str, Counter[str]]:
        """Images of each source by status, and under "other size" those whose size is not as annotated."""
        counts: dict[str, Counter[str]] = {}
        for item in self.items:
            mine = counts.setdefault(item.source, Counter())
            mine.update([item.status, "other size"] if item.other_size else [item.status])
        return counts

    def to_dict(self) -> dict[str, Any]:
        return {
            "out": self.out,
            "complete": self.complete,
            "sources": [{**asdict(SOURCES[key]), "images": dict(counts)} for key, counts in self.sources().items()],
            "problems": [asdict(item) for item in self.problems],
        }


def parse_sources(values: Iterable[str]) -> dict[str, Path]:
    """["coco=/data/coco", …] → the folder of each source."""
    sources: dict[str, Path] = {}
    for value in values:
        key, equals, folder = value.partition("=")
        key = key.strip().lower()
        if not equals or key not in SOURCES:
            hint = "; MP-100's DeepFashion is deepfashion2" if key == "deepfashion" else ""
            raise DataError(f"source {value!r} is not NAME=FOLDER with a NAME of {', '.join(SOURCES)}{hint}")
        if not Path(folder).is_dir():
            raise DataError(f"source {key}: folder {folder!r} does not exist")
        sources[key] = Path(folder)
    return sources


def wanted_images(files: Sequence[str | os.PathLike[str]]) -> list[Wanted]:
    """All images with annotations in these MP-100 files, each once."""
    found: dict[str, Wanted] = {}
    for path in files:
        file = load_coco(path)
        for image in file.images.values():
            name, annotations = image["file_name"], file.of_image[image["id"]]
            parts = name.split("/")
            if parts[0] not in mp100.BY_FOLDER or len(parts) < 2 or ".." in parts:
                raise DataError(f"{path}: image {name!r} is in no folder of MP-100; only MP-100 can be assembled")
            if annotations and name not in found:
                size = (image["width"], image["height"]) if "width" in image and "height" in image else None
                points = frozenset(point for annotation in annotations for point in _points(annotation))
                found[name] = Wanted(name, size, points)
    return list(found.values())


def _points(annotation: Entry) -> list[tuple[int, int]]:
    values = annotation.get("keypoints") or []
    return [(int(x), int(y)) for x, y, v in zip(values[::3], values[1::3], values[2::3], strict=True) if v > 0]


def assemble(
    files: Sequence[str | os.PathLike[str]],
    sources: Mapping[str, Path],
    out: str | os.PathLike[str],
    copy: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> AssemblyReport:
    """Place every image that MP-100's annotation files name at OUT/file_name, as far as the sources have it."""
    wanted = wanted_images(files)
    folders = {root: index_folder(root) for root in set(sources.values())}
    items = []
    for number, image in enumerate(wanted, start=1):
        root = sources.get(image.source.key)
        items.append(_treat(image, folders[root] if root else None, Path(out), copy))
        if progress:
            progress(number, len(wanted))
    return AssemblyReport(str(out), tuple(items))


def _treat(image: Wanted, folder: SourceFolder | None, out: Path, copy: bool) -> Item:
    target = out / image.file_name
    paths, why = find(image, folder) if folder else ([], f"no folder given for {image.source.key}")
    from_archive = bool(paths) and paths[0].name.lower() == ARCHIVE

    def item(status: Status, detail: str = "", other_size: bool = False) -> Item:
        return Item(image.file_name, image.source.key, status, detail, other_size)

    if target.is_file():
        if not paths or from_archive or any(same_content(path, target) for path in paths):
            return item("there")
        return item("conflict", f"{target} is there, but not the same as {paths[0]}")
    if not paths:
        return item("missing", why)
    if len(paths) > 1:
        return item("ambiguous", "could be " + " or ".join(str(path) for path in paths[:3]))
    linked = next((parent for parent in target.parents if parent.is_symlink() and out in parent.parents), None)
    if linked:
        return item("missing", f"{linked} is a link to another folder, in which nothing is written")
    if from_archive:
        problem = _extract(image, paths[0], target)
        if problem:
            return item("missing", problem)
    else:
        _put(paths[0], target, copy)
    return item("placed", str(paths[0]), image.size is not None and size_of(target) != image.size)


def _put(path: Path, target: Path, copy: bool) -> None:
    with atomic_path(target) as temporary:  # takes the place of a dangling link, if there is one
        if copy:
            shutil.copy2(path, temporary)
            return
        try:
            temporary.symlink_to(path.resolve())
        except OSError as error:
            raise DataError(f"no link can be made in {target.parent} ({error}); use --copy") from None


def _extract(image: Wanted, archive: Path, target: Path) -> str:
    """Write the frame of an HDF5 file that has the image's keypoints; says what went wrong, if something did."""
    try:
        import h5py
    except ImportError:
        return f"a frame of {archive}; pip install 'edgecape[formats]' to read it"
    from PIL import Image

    try:
        with h5py.File(archive, "r") as content:
            frame = _frame_with(image.points, np.asarray(content["annotations"]))
            pixels = None if frame is None else content["images"][frame]
    except (OSError, KeyError, ValueError, IndexError) as error:
        return f"{archive} cannot be read: {error}"
    if pixels is None:
        return f"no frame of {archive} has its keypoints"
    picture = Image.fromarray(pixels.squeeze())  # both sets are grey
    with atomic_path(target) as temporary:
        picture.save(temporary, format="JPEG", quality=95)
    return ""


def _frame_with(points: Collection[tuple[int, int]], labels: NDArray[np.float64]) -> int | None:
    """The frame whose labels (frames, keypoints, 2) have nearly all of the points; some may be rounded otherwise."""
    if not points:
        return None
    codes = np.trunc(labels) @ (1e5, 1.0)  # one number for a point
    found = np.isin(codes, [1e5 * x + y for x, y in points]).sum(axis=1)
    best = int(found.argmax())
    return best if found[best] >= 0.9 * len(points) else None
