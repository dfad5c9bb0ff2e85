"""LabelMe: one JSON file per photo, beside it and of the same name.

Units: pixels. A keypoint is a shape of type "point" whose label is its name; shapes of one object share a group_id, and
a "rectangle" of that group is its box, labelled with the category. Points without group_id are one object. Other shapes
are passed over. Visibility: a keypoint that is not there has no place, flags.occluded marks one that is hidden. LabelMe
knows no order of keypoints, no edges and no scores: the writer adds the first two (edges from 0) under "edgecape", and
`score` to the shapes; LabelMe keeps them when it saves the file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from edgecape.errors import AnnotationError, DataError
from edgecape.formats import shared
from edgecape.formats.labels import LabelledImage, LabelledObject, LabelSet
from edgecape.io.files import read_json, write_json

VERSION = "5.5.0"  # of the LabelMe whose files these are like
EXTRA = "edgecape"

Shape = dict[str, Any]


def write(path: str | os.PathLike[str], label_sets: Sequence[LabelSet]) -> None:
    """A folder with a file for each photo, or one .json file for one photo.

    The files lead to the photos where these are found; else they are meant to lie beside them.
    """
    labels, path = shared.only(label_sets, "LabelMe"), Path(path)
    if path.suffix != ".json":
        targets = shared.label_files(labels.images, ".json")
        for image in labels.images:
            write_json(path / targets[image.file], _content(labels, image, path / targets[image.file]), indent=2)
    elif len(labels.images) == 1:
        write_json(path, _content(labels, labels.images[0], path), indent=2)
    else:
        raise AnnotationError(f"{path} would hold {len(labels.images)} photos; LabelMe has one per file, give a folder")


def _content(labels: LabelSet, image: LabelledImage, target: Path) -> Shape:
    shapes = [shape for group, thing in enumerate(image.objects, start=1) for shape in _shapes(thing, group, labels)]
    photo = (labels.root or Path()) / image.file
    return {
        "version": VERSION,
        "flags": {},
        "shapes": shapes,
        "imagePath": shared.plain_path(os.path.relpath(photo, target.parent)) if photo.is_file() else photo.name,
        "imageData": None,
        "imageHeight": image.height,
        "imageWidth": image.width,
        EXTRA: {"category": labels.category, "keypoints": list(labels.names), "skeleton": labels.skeleton},
    }


def _shapes(thing: LabelledObject, group: int, labels: LabelSet) -> list[Shape]:
    shapes = []
    if thing.box is not None:
        x, y, w, h = thing.box
        corners = [shared.pixels((x, y)), shared.pixels((x + w, y + h))]
        shapes.append(_shape(labels.category, "rectangle", corners, group, thing.score))
    for index in np.flatnonzero(thing.visible):
        score = None if thing.scores is None else thing.scores[index]
        shape = _shape(labels.names[index], "point", [shared.pixels(thing.keypoints[index])], group, score)
        if thing.occluded[index]:
            shape["flags"] = {"occluded": True}
        shapes.append(shape)
    return shapes


def _shape(label: str, kind: str, points: list[list[float]], group: int, score: float | None) -> Shape:
    shape = {"label": label, "points": points, "group_id": group, "description": "", "shape_type": kind, "flags": {}}
    return shape if score is None else shape | {"score": shared.rounded_score(score)}


def read(path: str | os.PathLike[str]) -> list[LabelSet]:
    """One file, or a folder with its subfolders. Keypoints are in the order of "edgecape", else of first appearance."""
    path = Path(path)
    root = path if path.is_dir() else path.parent
    files = sorted(file for file in path.rglob("*.json") if file.name[0] != ".") if path.is_dir() else [path]
    contents = [(file, read_json(file)) for file in files]
    contents = [(file, content) for file, content in contents if file == path or is_labelme(content)]
    names: dict[str, None] = {}
    categories: dict[str, None] = {}
    skeleton = None
    for file, content in contents:
        with shared.reading(file):
            extra = content.get(EXTRA) or {}
            names |= dict.fromkeys(extra.get("keypoints") or ())
            names |= dict.fromkeys(
                shared.text(shape["label"]) for shape in content["shapes"] if _kind(shape) == "point"
            )
            skeleton = skeleton or extra.get("skeleton")
            boxes = (shared.text(shape["label"]) for shape in content["shapes"] if _kind(shape) == "rectangle")
            categories |= dict.fromkeys([extra["category"]] if "category" in extra else boxes)
    if not names:
        raise DataError(f"{path} has no LabelMe shapes of type 'point', so no keypoints")
    order = {name: index for index, name in enumerate(names)}
    images = []
    for file, content in contents:
        with shared.reading(file):
            folder = PurePosixPath(file.parent.relative_to(root).as_posix())
            objects = tuple(_objects(content["shapes"], order))
            name = str(folder / shared.plain_path(shared.text(content["imagePath"])))
            images.append(LabelledImage(name, content.get("imageWidth"), content.get("imageHeight"), objects))
    with shared.reading(path):
        category = next(iter(categories)) if len(categories) == 1 else "object"
        return [LabelSet(tuple(names), skeleton, category, images, root)]


def is_labelme(content: Any) -> bool:
    return isinstance(content, dict) and "shapes" in content and "imagePath" in content


def _kind(shape: Shape) -> str:
    return shape.get("shape_type") or "polygon"


def _objects(shapes: list[Shape], order: dict[str, int]) -> list[LabelledObject]:
    """Objects with at least one point; rectangles alone are somebody else's labels."""
    groups: dict[int | None, list[Shape]] = {}
    for shape in shapes:
        if _kind(shape) in ("point", "rectangle"):
            groups.setdefault(shape.get("group_id"), []).append(shape)
    return [
        _object(members, group, order)
        for group, members in groups.items()
        if any(_kind(shape) == "point" for shape in members)
    ]


def _object(members: list[Shape], group: int | None, order: dict[str, int]) -> LabelledObject:
    boxes = [shape for shape in members if _kind(shape) == "rectangle"]
    if len(boxes) > 1:
        raise ValueError(f"group_id {group} has {len(boxes)} rectangles; give each object a group_id of its own")
    facts = {}
    if boxes:
        low, high = np.sort(np.array(boxes[0]["points"], dtype=float).reshape(2, 2), axis=0)
        facts = {"box": shared.box_or_none((*low, *(high - low))), "score": boxes[0].get("score")}
    marks = (
        (shape["label"], shape["points"][0], shape.get("score"), bool((shape.get("flags") or {}).get("occluded")))
        for shape in members
        if _kind(shape) == "point"
    )
    return shared.from_marks(marks, order, "give each object a group_id of its own", **facts)
