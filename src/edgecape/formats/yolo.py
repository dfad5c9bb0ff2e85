"""YOLO pose (Ultralytics): a folder with data.yaml, photos under images/ and a text file for each under labels/.

A line is an object: its class (from 0), its box as centre x, centre y, width, height, then the keypoints as x, y and,
if kpt_shape says 3, visibility. Units: parts of the photo's width and height, so the reader looks at the photos.
Visibility: 0 no place (x = y = 0), 1 marked but hidden, 2 seen; without it, x = y = 0 or a negative number is no place.
All classes have equally many keypoints; kpt_names has their names. Ultralytics refuses what is outside the photo: such
keypoints are written as absent, and boxes are cut. There are no scores. The edges, from 0, stand under `skeleton` (one
list, or one for each class), which Ultralytics passes over.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgecape.errors import AnnotationError, DataError
from edgecape.formats import shared
from edgecape.formats.labels import LabelledImage, LabelledObject, LabelSet, cut, default_names, unique_names
from edgecape.io.files import atomic_write, read_yaml
from edgecape.io.images import SUFFIXES, image_size

DIGITS = 8  # decimals: an error of at most 0.0005 px in a photo of 100 000 px

Content = dict[str, Any]


def write(path: str | os.PathLike[str], label_sets: Sequence[LabelSet]) -> None:
    """A folder with data.yaml and labels/; the photos belong under images/, by the names the label sets give them.

    An object without box gets the smallest one round its keypoints.
    """
    import yaml

    root = Path(path)
    counts = {len(labels.names) for labels in label_sets}
    if len(counts) != 1:
        raise AnnotationError(
            f"a YOLO data set has one number of keypoints, got {sorted(counts)}; write each kind apart"
        )
    lines: dict[str, list[str]] = {}  # the text of all photos is held: nothing is written before all is known to fit
    for class_index, labels in enumerate(label_sets):
        for image in labels.images:
            members = lines.setdefault(image.file, [])
            members += [_line(class_index, thing, *image.size("YOLO")) for thing in image.objects]
    targets = shared.label_files((image for labels in label_sets for image in labels.images), ".txt")
    edges = [[list(edge) for edge in labels.skeleton or ()] for labels in label_sets]
    content: Content = {
        "train": "images",
        "val": "images",
        "kpt_shape": [counts.pop(), 3],
        "names": {index: labels.category for index, labels in enumerate(label_sets)},
        "kpt_names": {index: list(labels.names) for index, labels in enumerate(label_sets)},
    }
    if any(edges):
        content["skeleton"] = edges[0] if len(edges) == 1 else dict(enumerate(edges))
    for photo, members in lines.items():
        with atomic_write(root / "labels" / targets[photo]) as file:
            file.writelines(members)
    with atomic_write(root / "data.yaml") as file:
        yaml.safe_dump(content, file, allow_unicode=True, sort_keys=False)


def _line(class_index: int, thing: LabelledObject, width: int, height: int) -> str:
    thing = thing.inside(width, height)
    x, y, w, h = thing.extent or (0, 0, 0, 0)
    scale = np.array([width, height])
    box = np.array([x + w / 2, y + h / 2, w, h]) / np.tile(scale, 2)
    points = [
        f"{x:.{DIGITS}f} {y:.{DIGITS}f} {code}"
        for (x, y), code in zip(thing.keypoints / scale, thing.codes, strict=True)
    ]
    return " ".join([str(class_index), *(f"{side:.{DIGITS}f}" for side in box), *points]) + "\n"


def read(path: str | os.PathLike[str]) -> list[LabelSet]:
    """data.yaml or its folder → a label set for each class, of all splits.

    With one class it lists every photo, with several each lists the photos that show it.
    """
    config = find_config(Path(path))
    if config is None:
        raise DataError(f"{path} has no data.yaml with kpt_shape; is it a YOLO-pose data set?")
    content = read_yaml(config)
    with shared.reading(config):
        K, dims = (int(value) for value in content["kpt_shape"])
        if K < 1 or dims not in (2, 3):
            raise ValueError(f"kpt_shape is {content['kpt_shape']}; expected [keypoints, 2 or 3]")
        names = content["names"]
        listed = names.items() if isinstance(names, dict) else enumerate(names)
        classes = {int(index): shared.text(name, numbers=True) for index, name in listed}
        base = config.parent / (content.get("path") or "")
        base = base if base.is_dir() else config.parent
        photos = _photos(content, base)
    if not photos:
        raise DataError(
            f"{config}: there are no photos in its folders; labels are parts of their size, so they are needed"
        )
    root = base / "images" if all((base / "images") in photo.parents for photo in photos) else base
    of_class: dict[int, list[LabelledImage]] = {index: [] for index in classes}
    for photo in photos:
        width, height = image_size(photo)
        objects: dict[int, list[LabelledObject]] = {index: [] for index in classes} if len(classes) == 1 else {}
        for index, thing in _objects(_label_file(photo), (K, dims), classes, width, height):
            objects.setdefault(index, []).append(thing)
        name = photo.relative_to(root).as_posix() if root in photo.parents else photo.as_posix()
        for index, members in objects.items():
            of_class[index].append(LabelledImage(name, width, height, tuple(members)))
    with shared.reading(config):
        return [
            LabelSet(
                unique_names(_of_class(content.get("kpt_names"), index) or default_names(K)),
                *(_of_class(content.get("skeleton"), index), category, of_class[index], root),
            )
            for index, category in classes.items()
        ]


def find_config(path: Path) -> Path | None:
    """The file itself, or the one in the folder that tells a keypoint shape."""
    files = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml")) if path.is_dir() else [path]
    contents = ((file, read_yaml(file)) for file in files)
    return next((file for file, content in contents if isinstance(content, dict) and "kpt_shape" in content), None)


def _of_class(values: Any, index: int) -> list[Any] | None:
    """What is given for each class, or one list for all."""
    return (values.get(index) if isinstance(values, dict) else values) or None


def _photos(content: Content, base: Path) -> list[Path]:
    """Photos of all splits: a folder, a list in a .txt file, or several of these."""
    found: dict[Path, None] = {}
    for split in ("train", "val", "test"):
        entries = content.get(split) or []
        for entry in [entries] if isinstance(entries, str) else entries:
            place = base / entry
            if place.suffix == ".txt":
                lines = place.read_text(encoding="utf-8").split("\n") if place.is_file() else []
                found |= dict.fromkeys(place.parent / line.strip() for line in lines if line.strip())
            elif place.is_dir():
                found |= dict.fromkeys(sorted(file for file in place.rglob("*") if file.suffix.lower() in SUFFIXES))
    return list(found)


def _label_file(photo: Path) -> Path:
    """labels/ in the place of the last images/."""
    before, images, after = photo.as_posix().rpartition("/images/")
    return (Path(f"{before}/labels/{after}") if images else photo).with_suffix(".txt")


def _objects(
    path: Path, shape: tuple[int, int], classes: dict[int, str], width: int, height: int
) -> list[tuple[int, LabelledObject]]:
    """Objects with their class; none if there is no file."""
    if not path.is_file():
        return []
    K, dims = shape
    objects = []
    with shared.reading(path):
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        with shared.reading(f"{path}, line {number}"):
            values = np.array([float(word) for word in line.split()])
            if len(values) != 5 + K * dims:
                raise ValueError(f"it has {len(values)} numbers, but kpt_shape {list(shape)} asks for {5 + K * dims}")
            if not np.isfinite(values).all() or values[0] not in classes:
                raise ValueError(f"class {values[0]:g} is not one of {sorted(classes)}, or a number is not finite")
            x, y, w, h = values[1:5] * (width, height, width, height)
            points = values[5:].reshape(K, dims)
            codes = points[:, 2] if dims == 3 else np.where((points > 0).any(axis=1) & (points >= 0).all(axis=1), 2, 0)
            box = cut(shared.box_or_none((x - w / 2, y - h / 2, w, h)), width, height)
            thing = LabelledObject(points[:, :2] * (width, height), codes > 0, codes == 1, box=box)
            objects.append((int(values[0]), thing))
    return objects
