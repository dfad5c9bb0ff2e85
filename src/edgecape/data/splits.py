"""Parts of data sets: all but one super-category to train on and that one to test on, or some categories by name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgecape.data.dataset import Category
from edgecape.data.objects import to_dataset
from edgecape.data.sources import group
from edgecape.errors import DataError
from edgecape.io import mp100
from edgecape.io.coco import load_coco
from edgecape.io.edge_base import EdgeBase
from edgecape.io.files import write_json


def super_categories(categories: Sequence[Category]) -> list[str | None]:
    """The super-category of each category: MP-100's own eight for its files, else what the file says."""
    if mp100.is_mp100((category.id, category.name) for category in categories):
        return [group(category.id) for category in categories]
    return [category.supercategory for category in categories]


def _held(categories: Sequence[Category], name: str, where: str) -> set[int]:
    groups = super_categories(categories)
    known = sorted({group for group in groups if group})
    if not known:
        raise DataError(f"{where} gives no category a supercategory, so there is none to hold out")
    held = {index for index, group in enumerate(groups) if group and group.lower() == name.lower()}
    if not held:
        raise DataError(f"{where} has no super-category {name!r}; it has {', '.join(known)}")
    if len(held) == len(categories):
        raise DataError(f"{where} has no other super-category than {name!r}, so nothing would be left to train on")
    return held


def write_hold_out(
    files: Sequence[str | os.PathLike[str]], name: str, out: str | os.PathLike[str], edge_base: EdgeBase = "auto"
) -> tuple[Path, Path]:
    """Two COCO files, OUT/without_NAME.json and OUT/NAME.json, from one file or from several that go together (such as
    the train, val and test files of an MP-100 split). Edges are written counted from 0, and the files say so."""
    content, categories = _read(files, edge_base)
    held = {categories[index].id for index in _held(categories, name, ", ".join(map(str, files)))}
    rest = {category.id for category in categories} - held
    paths = Path(out) / f"without_{name.lower()}.json", Path(out) / f"{name.lower()}.json"
    for path, ids in zip(paths, (rest, held), strict=True):
        write_json(path, _part(content, ids))
    return paths


def write_categories(
    files: Sequence[str | os.PathLike[str]],
    names: Sequence[str],
    out: str | os.PathLike[str],
    edge_base: EdgeBase = "auto",
) -> Path:
    """One COCO file of the categories with these names, from one file or from several that go together. Edges are
    written counted from 0, and the file says so."""
    content, categories = _read(files, edge_base)
    known = {category.name for category in categories}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        wanted = f"has no category {unknown[0]!r}" if unknown else "was asked for no category"
        raise DataError(f"{', '.join(map(str, files))} {wanted}; it has {', '.join(sorted(known))}")
    target = Path(out)
    if target.resolve() in {Path(path).resolve() for path in files}:
        raise DataError(f"{target} is the file to pick from, whose other categories would be lost; give another name")
    write_json(target, _part(content, {category.id for category in categories if category.name in names}))
    return target


def _read(
    paths: Sequence[str | os.PathLike[str]], edge_base: EdgeBase
) -> tuple[dict[str, list[dict[str, Any]]], list[Category]]:
    """All that files that go together hold."""
    if not paths:
        raise DataError("no annotation file was given; name one, or several that go together")
    files = [load_coco(path) for path in paths]
    entries: dict[str, dict[int, dict[str, Any]]] = {"images": {}, "annotations": {}, "categories": {}}
    categories: dict[int, Category] = {}
    for file in files:
        for category in to_dataset(file, file.path.parent, edge_base).categories:
            edges = [list(edge) for edge in category.edges]
            _add(entries["categories"], {**file.categories[category.id], "skeleton": edges}, "category", file.path)
            categories.setdefault(category.id, category)
        for image in file.images.values():
            _add(entries["images"], image, "image", file.path)
        for annotation in file.content["annotations"]:
            _add(entries["annotations"], annotation, "annotation", file.path)
    return {part: list(found.values()) for part, found in entries.items()}, list(categories.values())


def _add(found: dict[int, dict[str, Any]], entry: dict[str, Any], what: str, path: Path) -> None:
    if found.setdefault(entry["id"], entry) != entry:
        raise DataError(f"{path}: {what} {entry['id']} is another one in the other files; they do not go together")


def _part(content: dict[str, list[dict[str, Any]]], ids: set[int]) -> dict[str, Any]:
    annotations = [entry for entry in content["annotations"] if entry["category_id"] in ids]
    images = {entry["image_id"] for entry in annotations}
    return {
        "info": {"edge_base": 0},
        "images": [entry for entry in content["images"] if entry["id"] in images],
        "annotations": annotations,
        "categories": [entry for entry in content["categories"] if entry["id"] in ids],
    }
