"""Boxes of objects from a label file, by photo: where to look, when photos show more than one thing."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from edgecape.errors import AnnotationError
from edgecape.types import Box

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Boxes:
    path: Path
    of_name: dict[str, dict[str, list[Box]]]  # name of the photo → path of it, as the file has it → its boxes

    def find(self, photo: str | os.PathLike[str]) -> list[Box]:
        """By name; where folders hold photos of one name, by as much of the path as the file has."""
        listed = of_photo(photo, self.of_name)
        if len(listed) != 1:
            what = "several photos of that name" if listed else "no such photo"
            raise AnnotationError(f"image {photo} has no boxes: {self.path} lists {what}")
        return next(iter(listed.values()))

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr(self.of_name).encode()).hexdigest()[:16]


def read_boxes(path: str | os.PathLike[str]) -> Boxes:
    """Of any label file that edgecape.formats reads, and of COCO files of boxes without keypoints.

    An object without box gets the smallest one round its keypoints.
    """
    from edgecape import formats
    from edgecape.formats.shared import box_or_none, plain_path
    from edgecape.io.coco import load_coco

    found: dict[str, list[Box]] = {}
    if formats.detect(path) == "coco":
        file = load_coco(path)
        for id_, image in file.images.items():
            things = [thing["bbox"] for thing in file.of_image[id_] if thing.get("bbox") and not thing.get("iscrowd")]
            boxes = filter(None, map(box_or_none, things))
            found.setdefault(plain_path(image["file_name"]), []).extend(boxes)
    else:
        for photo in (photo for labels in formats.read(path) for photo in labels.images):
            extents = (thing.extent for thing in photo.objects)
            found.setdefault(photo.file, []).extend(box for box in extents if box and min(box[2:]) > 0)
    of_name: dict[str, dict[str, list[Box]]] = {}
    for name, places in found.items():
        of_name.setdefault(PurePosixPath(name).name, {})[name] = places
    return Boxes(Path(path), of_name)


def of_photo(photo: str | os.PathLike[str], of_name: dict[str, dict[str, T]]) -> dict[str, T]:
    """What a file has of a photo; where it lists several of that name, of those whose path ends alike."""
    name = PurePosixPath(Path(photo).as_posix())
    listed = of_name.get(name.name, {})
    if len(listed) < 2:
        return listed
    return {file: value for file, value in listed.items() if _ends_alike(PurePosixPath(file), name)}


def _ends_alike(one: PurePosixPath, other: PurePosixPath) -> bool:
    length = min(len(one.parts), len(other.parts))
    return one.parts[-length:] == other.parts[-length:]
