"""COCO-keypoints files → Dataset, in the order and with the filters of the evaluation protocol.

A single object that the protocol drops, or that has nothing to offer, is skipped and counted in Dataset.notes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from edgecape.data.dataset import Dataset, Instance
from edgecape.errors import DataError
from edgecape.geometry import clip_box
from edgecape.io.coco import CocoFile, Entry, is_number, load_coco, read_categories
from edgecape.io.edge_base import EdgeBase
from edgecape.io.images import image_size
from edgecape.types import Box


def read_coco(
    annotations: str | os.PathLike[str], images: str | os.PathLike[str], edge_base: EdgeBase = "auto"
) -> Dataset:
    """A COCO-keypoints file (.json or .json.gz) whose file names are relative to the folder `images`.

    edge_base: what the file counts its edges from: 0, 1 or "auto" (see edge_base.py). Images need not exist.
    """
    return to_dataset(load_coco(annotations), images, edge_base)


def to_dataset(file: CocoFile, images: str | os.PathLike[str], edge_base: EdgeBase = "auto") -> Dataset:
    categories, notes = read_categories(file, edge_base)
    place = {category.id: index for index, category in enumerate(categories)}
    root = Path(images)
    skipped: dict[str, list[int]] = {}
    instances: list[Instance] = []
    for image in file.images.values():
        members = file.of_image[image["id"]]
        if not members:
            continue
        width, height = _size(image, root, file.path)
        for annotation in members:
            box = clip_box(annotation["bbox"], width, height) if annotation.get("bbox") else None
            reason = _why_not(annotation, box)
            if reason or box is None:
                skipped.setdefault(reason or "no box", []).append(annotation["id"])
                continue
            values = np.array(annotation["keypoints"], dtype=np.float32).reshape(-1, 3)
            visible = values[:, 2] > 0
            instances.append(
                Instance(
                    index=len(instances),
                    category=place[annotation["category_id"]],
                    image=root / image["file_name"],
                    box=box,
                    keypoints=np.where(visible[:, None], values[:, :2], 0),
                    visible=visible,
                    annotation_id=annotation["id"],
                )
            )
    notes += file.notes
    notes += [f"{len(ids)} annotations skipped: {why} (first: {ids[0]})" for why, ids in skipped.items()]
    name = file.path.name.removesuffix(".gz").removesuffix(".json")
    return Dataset(name, tuple(categories), tuple(instances), tuple(notes))


def _why_not(annotation: Entry, box: Box | None) -> str | None:
    """Why the protocol does not use an object, or None."""
    keypoints = annotation.get("keypoints")
    if annotation.get("iscrowd"):
        return "a crowd"
    if not keypoints:
        return "no keypoints"
    if annotation.get("bbox") is None:
        return "no box"
    if box is None or annotation.get("area", 1) <= 0:
        return "the box has no area inside the image"
    if max(keypoints) == 0 or annotation.get("num_keypoints", 1) == 0:
        return "no keypoint is marked"
    return None


def _size(image: Entry, root: Path, path: Path) -> tuple[int, int]:
    width: Any = image.get("width")
    height: Any = image.get("height")
    if width is None and height is None and (root / image["file_name"]).is_file():
        return image_size(root / image["file_name"])
    if not (is_number(width) and is_number(height) and width > 0 and height > 0):
        raise DataError(
            f"{path}: image {image['id']} ({image['file_name']}) has width {width!r} and height {height!r}; "
            "both are needed in pixels, unless the image is there to look at"
        )
    return width, height
