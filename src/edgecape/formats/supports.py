"""Supports in a file: our small JSON, or any format that edgecape.formats reads.

The small JSON is what a person would write by hand, one support or a list of them:

    {"image": "cow1.jpg", "keypoints": [[120, 80], [64, 200]], "skeleton": [[0, 1]], "names": ["head", "tail"],
     "visible": [true, true], "box": [10, 20, 300, 200], "symmetry": []}

Only image and keypoints are needed; the image is looked for beside the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from edgecape import formats
from edgecape.errors import AnnotationError, DataError, SettingsError, brief
from edgecape.formats import shared
from edgecape.formats.labels import LabelledImage, LabelSet
from edgecape.io.edge_base import EdgeBase
from edgecape.io.files import read_json
from edgecape.io.images import image_size
from edgecape.types import Support

FIELDS = ("image", "keypoints", "skeleton", "visible", "box", "names", "symmetry")
WHERE = "say where its photos are with --support-images"
TOLD = 10  # categories that an error names


class Supports(NamedTuple):
    """What a file shows, and what its reader decided or left out, for a person to read."""

    supports: list[Support]
    """In the order of the file."""
    notes: list[str]
    """A sentence each."""


def read_supports(
    path: str | os.PathLike[str],
    format: str | None = None,
    images: str | os.PathLike[str] | None = None,
    category: str | None = None,
    edge_base: EdgeBase | None = None,
) -> Supports:
    """All supports of a file with one keypoint definition. The photos must be there, and as large as the file says.

    Args:
        path: Our small JSON, or a file of any format that is read.
        format: A key of `edgecape.formats.FORMATS`; found out if None.
        images: Folder of the photos, if it is not the one that the file leads to.
        category: The kind of object, of a file with several.
        edge_base: What a COCO file counts edges from.
    """
    path = Path(path)
    edge_base = None if edge_base == "auto" else edge_base
    if format is None and path.suffix.lower() == ".json" and is_small_json(read_json(path)):
        if category is not None or edge_base is not None:
            what = "category" if category is not None else "edge base"
            raise SettingsError(f"{path} is a small JSON, of one kind of object and with edges from 0; give no {what}")
        shots = read_small_json(path, images)
        for shot in shots:
            if not os.path.isfile(shot.image):
                raise DataError(f"photo {shot.image} of {path} does not exist; {WHERE}")
        return Supports(shots, [])
    format = format or formats.detect(path)
    if edge_base is not None and format != "coco":
        raise SettingsError(f"{path} is a {format} file; an edge base is for COCO files, give none")
    label_sets = formats.read(path, format, **({} if edge_base is None else {"edge_base": edge_base}))
    labels = _choose(label_sets, category, path)
    marked = [image for image in labels.images if any(thing.visible.any() for thing in image.objects)]
    if not marked:
        raise AnnotationError(f"{path} has no object with a visible keypoint")
    photos = list(_found(marked, labels.root or Path(), images, path))
    return Supports(formats.to_supports(replace(labels, images=photos), Path()), list(labels.notes))


def read_small_json(path: Path, images: str | os.PathLike[str] | None = None) -> list[Support]:
    """The supports of our own JSON, whether or not their photos are there."""
    root = Path(images) if images is not None else path.parent
    supports = []
    for number, entry in enumerate(_entries(read_json(path))):
        unknown = set(entry) - set(FIELDS)
        if unknown:
            raise AnnotationError(f"{path} has an unknown field {brief(min(unknown))}; known are {', '.join(FIELDS)}")
        with shared.reading(f"{path}: support {number}"):
            supports.append(Support(**{**entry, "image": root / entry["image"]}))
    return supports


def is_small_json(content: Any) -> bool:
    entries = _entries(content)
    return bool(entries) and all(isinstance(entry, dict) and {"image", "keypoints"} <= set(entry) for entry in entries)


def _entries(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _choose(label_sets: Sequence[LabelSet], category: str | None, path: Path) -> LabelSet:
    chosen = [labels for labels in label_sets if category in (None, labels.category)]
    if len(chosen) == 1:
        return chosen[0]
    found = ", ".join([labels.category for labels in label_sets][:TOLD]) + (", …" if len(label_sets) > TOLD else "")
    if category is not None:
        number = len(chosen) or "no"
        raise AnnotationError(f"{path} has {number} kinds of object called {brief(category)}; it has {found}")
    raise AnnotationError(
        f"{path} has {len(label_sets)} keypoint definitions ({found}); choose one with --support-category"
    )


def _found(
    images: Sequence[LabelledImage], root: Path, given: str | os.PathLike[str] | None, path: Path
) -> Iterator[LabelledImage]:
    """The same with the photos as they are on disk: where the file says, or by the end of their path in the folder that
    was given, as labels are often moved without their folders."""
    labelled_as: dict[Path, str] = {}
    for image in images:
        parts = PurePosixPath(image.file).parts
        tails = [image.file] if given is None else [PurePosixPath(*parts[start:]) for start in range(len(parts))]
        places = [Path(given or root) / tail for tail in tails]
        photo = next((place for place in places if os.path.isfile(place)), None)
        if photo is None:
            raise DataError(f"photo {places[0]} of {path} does not exist; {WHERE}")
        if labelled_as.setdefault(photo, image.file) != image.file:
            raise DataError(f"{labelled_as[photo]} and {image.file} of {path} would both be {photo}; {WHERE}")
        _check_size(image, photo, path)
        yield replace(image, file=photo.as_posix())


def _check_size(image: LabelledImage, photo: Path, path: Path) -> None:
    labelled, real = (image.width, image.height), image_size(photo)
    if None not in labelled and labelled != real:
        change = "turned" if labelled == real[::-1] else "resized"
        raise AnnotationError(
            f"{path} says that {photo} has {image.width} × {image.height} pixels, but it has {real[0]} × {real[1]}; "
            f"it was {change}, give the photo that was labelled"
        )
