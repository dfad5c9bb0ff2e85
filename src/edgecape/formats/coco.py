"""COCO keypoints (.json, .json.gz), as CVAT and most pose tools read and write them.

Units: pixels. Edges: counted from 1; files with edges from 0 exist, so the reader checks (data/bases.py) and the writer
states the base in info.edge_base. Visibility: 0 no place (x = y = 0), 1 marked but hidden, 2 seen. Ids count from 1.

`write` makes what CVAT's "COCO Keypoints 1.0" importer asks for: category ids from 1, `keypoints` and `skeleton` in
each category, `iscrowd`, `segmentation` and `num_keypoints` in each annotation. There, the category is the name of a
skeleton label whose points bear the keypoint names, and photos are found by file name. Scores are written besides, as
`score` and `keypoint_scores`, which other tools pass over.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from edgecape.errors import AnnotationError, DataError
from edgecape.formats import shared
from edgecape.formats.labels import LabelledImage, LabelledObject, LabelSet, default_names, unique_names
from edgecape.io.edge_base import EdgeBase
from edgecape.io.files import atomic_write

Entry = dict[str, Any]


def read(path: str | os.PathLike[str], edge_base: EdgeBase = "auto") -> list[LabelSet]:
    """A label set for each category with keypoints. Crowds are left out.

    With one such category it lists every photo of the file, with several each lists the photos that show it.
    edge_base: what the file counts its edges from: 0, 1 or "auto".
    """
    from edgecape.io.coco import load_coco, read_categories
    from edgecape.io.paths import find_annotations

    with shared.reading(path):
        file = load_coco(path)
        categories, notes = read_categories(file, edge_base)
    root = find_annotations(path)[1]
    categories = [category for category in categories if category.K]
    if not categories:
        raise DataError(f"{path}: no category has keypoints; is this a COCO file of boxes or masks?")
    of_category: dict[int, list[LabelledImage]] = {category.id: [] for category in categories}
    for image in file.images.values():
        objects: dict[int, list[LabelledObject]] = {id_: [] for id_ in of_category} if len(of_category) == 1 else {}
        for annotation in file.of_image[image["id"]]:
            if annotation.get("keypoints") and not annotation.get("iscrowd"):
                with shared.reading(f"{path}: annotation {annotation['id']}"):
                    objects.setdefault(annotation["category_id"], []).append(_object(annotation))
        with shared.reading(f"{path}: image {image['id']}"):
            file_name, sides = shared.plain_path(image["file_name"]), (image.get("width"), image.get("height"))
            for id_, members in objects.items():
                of_category[id_].append(LabelledImage(file_name, *sides, tuple(members)))
    label_sets = []
    for category in categories:
        with shared.reading(f"{path}: category {category.id}"):
            names = unique_names(category.names or default_names(category.K))
            images = of_category[category.id]
            declared = category.symmetry if "symmetry" in file.categories[category.id] else None
            found = [*notes, *file.notes]
            label_sets.append(LabelSet(names, category.edges, category.name, images, root, found, declared))
    return label_sets


def _object(annotation: Entry) -> LabelledObject:
    values = np.array(annotation["keypoints"], dtype=np.float64).reshape(-1, 3)
    box = annotation.get("bbox")
    return LabelledObject(
        values[:, :2],
        visible=values[:, 2] > 0,
        occluded=values[:, 2] == 1,
        scores=annotation.get("keypoint_scores"),
        box=None if box is None else shared.box_or_none(box),
        score=annotation.get("score"),
    )


def write(path: str | os.PathLike[str], label_sets: Sequence[LabelSet]) -> None:
    """A whole data set. An object without box gets the smallest one round its keypoints."""
    images: dict[str, Entry] = {}  # all that is held of a photo; its objects are written as they come
    for labels in label_sets:
        for image in labels.images:
            entry = images.setdefault(image.file, {"id": len(images) + 1, "file_name": image.file})
            if image.width is not None and image.height is not None:
                entry |= {"width": image.width, "height": image.height}
    ids = itertools.count(1)
    annotations = (
        {"id": next(ids), "image_id": images[image.file]["id"], "category_id": category_id} | _annotation(thing)
        for category_id, labels in enumerate(label_sets, start=1)
        for image in labels.images
        for thing in image.objects
    )
    categories = [
        {
            "id": category_id,
            "name": labels.category,
            "supercategory": "",
            "keypoints": list(labels.names),
            "skeleton": [[i + 1, j + 1] for i, j in labels.skeleton or ()],
        }
        | ({} if labels.symmetry is None else {"symmetry": [[i + 1, j + 1] for i, j in labels.symmetry]})
        for category_id, labels in enumerate(label_sets, start=1)
    ]
    info = json.dumps({"description": "keypoints written by edgecape", "edge_base": 1})
    with atomic_write(path) as file:
        file.write(f'{{"info": {info}, "licenses": []')
        for name, items in (("images", images.values()), ("annotations", annotations), ("categories", categories)):
            file.write(f', "{name}": ')
            file.writelines(shared.json_items(items))
        file.write("}\n")


def _annotation(thing: LabelledObject) -> Entry:
    box = shared.pixels(thing.extent or (0, 0, 0, 0))
    entry: Entry = {
        "keypoints": _triples(thing, thing.codes.tolist()),
        "num_keypoints": int(thing.visible.sum()),
        "bbox": box,
        "area": round(box[2] * box[3], 3),
        "segmentation": [],
        "iscrowd": 0,
    }
    if thing.scores is not None:
        entry["keypoint_scores"] = [shared.rounded_score(score) for score in thing.scores]
    if thing.score is not None:
        entry["score"] = shared.rounded_score(thing.score)
    return entry


def write_results(
    path: str | os.PathLike[str], label_sets: Sequence[LabelSet], dataset: str | os.PathLike[str] | None = None
) -> None:
    """A list of detections for COCO's own evaluation: x, y and the score of each keypoint, and a score of each object.

    dataset: the COCO file to evaluate against, whose ids are taken; without one, the ids are those `write` would give.
    An object without score gets the mean of its keypoints' scores, or 1.
    """
    image_ids, category_ids = _ids(label_sets, dataset)
    results = (
        {"image_id": image_ids[image.file], "category_id": category_id} | _result(thing)
        for labels, category_id in zip(label_sets, category_ids, strict=True)
        for image in labels.images
        for thing in image.objects
        if thing.visible.any()
    )
    with atomic_write(path) as file:
        file.writelines(shared.json_items(results))
        file.write("\n")


def _result(thing: LabelledObject) -> Entry:
    scores = thing.scores if thing.scores is not None else thing.visible.astype(np.float32)
    whole = thing.score if thing.score is not None else float(scores[thing.visible].mean())
    return {"keypoints": _triples(thing, map(shared.rounded_score, scores)), "score": shared.rounded_score(whole)}


def _triples(thing: LabelledObject, last: Iterable[float]) -> list[float]:
    flat = iter(shared.pixels(thing.keypoints))
    return [value for triple in zip(flat, flat, last, strict=True) for value in triple]


def _ids(label_sets: Sequence[LabelSet], dataset: str | os.PathLike[str] | None) -> tuple[dict[str, int], list[int]]:
    """Ids of images by file, and the id of each label set's category."""
    files = dict.fromkeys(image.file for labels in label_sets for image in labels.images)
    if dataset is None:
        return {file: id_ for id_, file in enumerate(files, start=1)}, list(range(1, len(label_sets) + 1))
    from edgecape.io.coco import load_coco

    known = load_coco(dataset)
    image_ids = {shared.plain_path(entry["file_name"]): id_ for id_, entry in known.images.items()}
    category_ids = {entry["name"]: id_ for id_, entry in known.categories.items()}
    categories = [labels.category for labels in label_sets]
    for what, wanted, there in (("image", files, image_ids), ("category", categories, category_ids)):
        missing = next((name for name in wanted if name not in there), None)
        if missing is not None:
            raise AnnotationError(f"{what} {missing!r} is not in {dataset}, so its results have no id there")
    return image_ids, [category_ids[category] for category in categories]
