"""Is a data set in order? What is missing, what is odd, and what its edges are counted from.

Reading (coco.py) refuses damaged files; this looks for what can be read and is still not right.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgecape.data.dataset import Dataset
from edgecape.data.objects import to_dataset
from edgecape.errors import ImageError
from edgecape.io.coco import CocoFile, Entry, load_coco
from edgecape.io.edge_base import EdgeBase
from edgecape.io.images import image_size

SLACK = 1.0  # pixels a box or keypoint may lie outside: files count pixels from 0 or 1, from centre or corner


@dataclass(frozen=True)
class Finding:
    """One odd thing."""

    kind: str
    category: int | None  # id
    annotation: int | None  # id
    image: str  # file name
    detail: str


@dataclass(frozen=True)
class CategoryReport:
    id: int
    name: str
    supercategory: str | None
    keypoints: int
    edges: int
    edge_base: int | None  # of the file; None without edges
    annotations: int  # in the file
    objects: int  # that the protocol keeps
    images: int
    missing: int  # of the images
    odd: int


@dataclass(frozen=True)
class FileReport:
    annotations: str
    images: str
    categories: tuple[CategoryReport, ...]
    images_total: int
    missing: tuple[str, ...]  # file names
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def clean(self) -> bool:
        return not self.missing and not self.findings and not self.warnings

    @property
    def warnings(self) -> list[str]:
        return [note for note in self.notes if note.startswith("warning")]

    def kinds(self) -> Counter[str]:
        return Counter(finding.kind for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "clean": self.clean, "kinds": dict(self.kinds())}


def check_file(
    annotations: str | os.PathLike[str], images: str | os.PathLike[str], edge_base: EdgeBase = "auto", sample: int = 10
) -> FileReport:
    """Look at a file and its images; `sample` images per category are opened to compare their size."""
    file = load_coco(annotations)
    dataset = to_dataset(file, images, edge_base)
    root = Path(images)
    listed = [image for image in file.images.values() if file.of_image[image["id"]]]
    missing = {image["file_name"] for image in listed if not (root / image["file_name"]).is_file()}
    members = zip(dataset.categories, dataset.by_category, strict=True)
    findings = [Finding("category without objects", c.id, None, "", c.name) for c, own in members if not len(own)]
    seen: dict[tuple[Any, ...], int] = {}
    for image, annotation in _pairs(file):
        who = (annotation["category_id"], annotation["id"], image["file_name"])
        findings += [Finding(kind, *who, detail) for kind, detail in _oddities(image, annotation, seen)]
    findings += _odd_images(file, root, missing, sample)
    return FileReport(
        annotations=str(file.path),
        images=str(root),
        categories=tuple(_categories(file, dataset, missing, findings)),
        images_total=len(listed),
        missing=tuple(image["file_name"] for image in listed if image["file_name"] in missing),
        findings=tuple(findings),
        notes=dataset.notes,
    )


def _categories(
    file: CocoFile, dataset: Dataset, missing: set[str], findings: list[Finding]
) -> Iterator[CategoryReport]:
    annotations: Counter[int] = Counter()
    names: dict[int, set[str]] = {id_: set() for id_ in file.categories}
    for image, annotation in _pairs(file):
        annotations[annotation["category_id"]] += 1
        names[annotation["category_id"]].add(image["file_name"])
    odd = Counter(finding.category for finding in findings)
    for category, members in zip(dataset.categories, dataset.by_category, strict=True):
        yield CategoryReport(
            id=category.id,
            name=category.name,
            supercategory=category.supercategory,
            keypoints=category.K,
            edges=len(category.edges),
            edge_base=category.file_base,
            annotations=annotations[category.id],
            objects=len(members),
            images=len(names[category.id]),
            missing=len(names[category.id] & missing),
            odd=odd[category.id],
        )


def _pairs(file: CocoFile) -> Iterator[tuple[Entry, Entry]]:
    for image in file.images.values():
        for annotation in file.of_image[image["id"]]:
            yield image, annotation


def _oddities(image: Entry, annotation: Entry, seen: dict[tuple[Any, ...], int]) -> Iterator[tuple[str, str]]:
    values = np.array(annotation.get("keypoints") or [], dtype=np.float64).reshape(-1, 3)
    shown = values[values[:, 2] > 0]
    width, height = image.get("width"), image.get("height")
    if width and height:
        outside = ((shown[:, :2] < -SLACK) | (shown[:, :2] > (width + SLACK, height + SLACK))).any(axis=1)
        if outside.any():
            x, y = shown[outside][0, :2]
            first = f"first ({x:g}, {y:g}) in {width} × {height}"
            yield "keypoint outside the image", f"{outside.sum()} of {len(shown)}, {first}"
        x, y, w, h = annotation.get("bbox") or (0, 0, width, height)
        if w <= 0 or h <= 0:
            yield "box without area", f"{x:g}, {y:g}, {w:g}, {h:g}"
        elif x < -SLACK or y < -SLACK or x + w > width + SLACK or y + h > height + SLACK:
            yield "box outside the image", f"{x:g}, {y:g}, {w:g}, {h:g} in {width} × {height}"
    at_origin = int((shown[:, :2] == 0).all(axis=1).sum())
    if at_origin:
        yield "visible keypoint at (0, 0)", f"{at_origin} of {len(shown)}"
    if not np.isin(values[:, 2], (0, 1, 2)).all():
        yield "visibility not 0, 1 or 2", f"{sorted(set(values[:, 2].tolist()))}"
    stated = annotation.get("num_keypoints", len(shown))
    if stated != len(shown):
        yield "num_keypoints differs", f"{stated} stated, {len(shown)} marked"
    key = (annotation["image_id"], annotation["category_id"], *values.ravel().tolist())
    if len(shown) and seen.setdefault(key, annotation["id"]) != annotation["id"]:
        yield "object twice", f"the same as annotation {seen[key]}"


def _odd_images(file: CocoFile, root: Path, missing: set[str], sample: int) -> Iterator[Finding]:
    names = Counter(image["file_name"] for image in file.images.values())
    for name, count in names.items():
        if count > 1:
            yield Finding("image listed twice", None, None, name, f"{count} entries")
    there: dict[int, dict[str, Entry]] = {}
    for image, annotation in _pairs(file):
        if image["file_name"] not in missing:
            there.setdefault(annotation["category_id"], {})[image["file_name"]] = image
    for category, found in there.items():
        step = max(1, len(found) // max(sample, 1))
        for image in list(found.values())[::step][:sample]:  # spread over the file
            odd = _odd_image(image, root / image["file_name"])
            if odd:
                yield Finding(odd[0], category, None, image["file_name"], odd[1])


def _odd_image(image: Entry, path: Path) -> tuple[str, str] | None:
    try:
        width, height = image_size(path)
    except ImageError as error:
        return "image cannot be read", str(error)
    stated = (image.get("width", width), image.get("height", height))
    if stated == (width, height):
        return None
    if stated == (height, width):
        return "image lies on its side", f"the file says {stated[0]} × {stated[1]}, upright it is {width} × {height}"
    return "image has another size", f"the file says {stated[0]} × {stated[1]}, it is {width} × {height}"
