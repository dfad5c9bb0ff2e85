"""COCO-keypoints files → Dataset, in the order and with the filters of the evaluation protocol."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np

from edgecape.data.dataset import Category, Dataset, Instance
from edgecape.geometry import clip_box


def read_coco(annotations: str | os.PathLike[str], images: str | os.PathLike[str]) -> Dataset:
    path, root = Path(annotations), Path(images)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        content = json.load(file)
    categories = tuple(
        Category(
            id=entry["id"],
            name=entry["name"],
            K=len(entry["keypoints"]),
            edges=tuple((int(i), int(j)) for i, j in entry.get("skeleton", [])),
            names=tuple(entry["keypoints"]),
            supercategory=entry.get("supercategory"),
        )
        for entry in content["categories"]
    )
    place = {category.id: index for index, category in enumerate(categories)}
    of_image: dict[int, list[dict]] = {}
    for annotation in content["annotations"]:
        of_image.setdefault(annotation["image_id"], []).append(annotation)
    instances: list[Instance] = []
    for image in content["images"]:
        for annotation in of_image.get(image["id"], []):
            values = np.array(annotation["keypoints"], dtype=np.float32).reshape(-1, 3)
            box = clip_box(annotation["bbox"], image["width"], image["height"])
            if annotation.get("iscrowd") or box is None or annotation.get("area", 1) <= 0:
                continue
            if values.max() == 0 or annotation.get("num_keypoints", 1) == 0:
                continue
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
    return Dataset(path.name.removesuffix(".gz").removesuffix(".json"), categories, tuple(instances))
