"""Boxes of objects from a label file, by photo: where to look, when photos show more than one thing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar

from edgecape import formats
from edgecape.checks import check_box
from edgecape.errors import AnnotationError
from edgecape.formats import shared
from edgecape.io.coco import load_coco
from edgecape.io.images import image_size
from edgecape.values import Box

Size = tuple[int, int] | None

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Boxes:
    path: Path
    of_name: dict[str, dict[str, list[Box]]]  # name of the photo → path of it, as the file has it → its boxes
    sizes: Mapping[str, Size] = field(default_factory=dict)  # path of it → (width, height), where the file knows it
    notes: tuple[str, ...] = ()  # what the reader left out

    def find(self, photo: str | os.PathLike[str]) -> list[Box]:
        """By name; where folders hold photos of one name, by as much of the path as the file has."""
        listed = of_photo(photo, self.of_name)
        if len(listed) != 1:
            what = "several photos of that name" if listed else "no such photo"
            raise AnnotationError(f"image {photo} has no boxes: {self.path} lists {what}")
        ((file, boxes),) = listed.items()
        told = self.sizes.get(file)
        real = image_size(photo) if told and boxes and os.path.isfile(photo) else told
        if told and real and tuple(told) != tuple(real):
            raise AnnotationError(
                f"image {photo} has {real[0]} × {real[1]} pixels, but {self.path} has boxes for {told[0]} × {told[1]}; "
                "give the photo they were made on"
            )
        return boxes

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr(self.of_name).encode()).hexdigest()[:16]


def read_boxes(path: str | os.PathLike[str]) -> Boxes:
    """Of any label file that edgecape.formats reads, and of COCO files of boxes without keypoints.

    An object without box gets the smallest one round its keypoints. A box that does not fit its photo is an error, one
    without area is left out with a note.
    """
    of_name: dict[str, dict[str, list[Box]]] = {}
    sizes: dict[str, Size] = {}
    empty = 0
    for file, size, boxes in _coco_boxes(path) if formats.detect(path) == "coco" else _label_boxes(path):
        mine = of_name.setdefault(PurePosixPath(file).name, {}).setdefault(file, [])
        sizes[file] = size or sizes.get(file)
        for box in boxes:
            if box is None:
                empty += 1
                continue
            with shared.reading(f"{path}: {file}"):
                if size is not None:
                    check_box(box, size)
            mine.append(box)
    notes = (f"warning: {empty} boxes of {path} have no area and are left out",) if empty else ()
    return Boxes(Path(path), of_name, sizes, notes)


def _coco_boxes(path: str | os.PathLike[str]) -> Iterator[tuple[str, Size, list[Box | None]]]:
    """Photos with their size and boxes; None is a box without area."""
    file = load_coco(path)
    for id_, image in file.images.items():
        things = [thing["bbox"] for thing in file.of_image[id_] if thing.get("bbox") and not thing.get("iscrowd")]
        with shared.reading(f"{path}: image {id_}"):
            labelled = formats.LabelledImage(
                shared.plain_path(image["file_name"]), image.get("width"), image.get("height"), ()
            )
            yield labelled.file, _size(labelled), [shared.box_or_none(box) for box in things]


def _label_boxes(path: str | os.PathLike[str]) -> Iterator[tuple[str, Size, list[Box | None]]]:
    for photo in (photo for labels in formats.read(path) for photo in labels.images):
        extents = [thing.extent for thing in photo.objects]
        yield photo.file, _size(photo), [box if min(box[2:]) > 0 else None for box in extents if box]


def _size(image: formats.LabelledImage) -> Size:
    return None if image.width is None or image.height is None else (image.width, image.height)


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
