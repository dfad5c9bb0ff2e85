"""The structure of a COCO-keypoints file, checked once for everybody: entries, categories, edges counted from 0.

A file whose structure is damaged is an error that names the file, the entry and the value.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgecape.errors import DataError
from edgecape.io import mp100
from edgecape.io.edge_base import Decision, EdgeBase, Skeleton, decide
from edgecape.io.files import read_json
from edgecape.skeleton import Pairs, flip_pairs

Entry = dict[str, Any]


@dataclass(frozen=True, eq=False)
class CocoFile:
    """A file whose structure is sound; entries are as they stand in it."""

    path: Path
    content: Entry
    categories: dict[int, Entry]  # by id, file order
    images: dict[int, Entry]  # by id, file order
    of_image: dict[int, list[Entry]]  # annotations of each listed image, file order
    K: dict[int, int]  # keypoints of each category
    notes: list[str] = field(default_factory=list)


def load_coco(path: str | os.PathLike[str]) -> CocoFile:
    path = Path(path)
    content = read_json(path)
    if not isinstance(content, dict):
        raise DataError(f"{path} holds a {type(content).__name__}, not images, annotations and categories")
    lists: dict[str, list[Entry]] = {}
    for part in ("images", "annotations", "categories"):
        entries = content.get(part)
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise DataError(f"{path}: '{part}' must be a list of objects; is this a COCO-keypoints file?")
        lists[part] = entries
    categories = _by_id(lists["categories"], "category", path)
    images = _by_id(lists["images"], "image", path)
    _by_id(lists["annotations"], "annotation", path)
    for id_, entry in categories.items():
        if not isinstance(entry.get("name"), str):
            raise DataError(f"{path}: category {id_} has the name {entry.get('name')!r}; a name is a text")
    for id_, entry in images.items():
        if not isinstance(entry.get("file_name"), str) or not entry["file_name"]:
            raise DataError(f"{path}: image {id_} has the file_name {entry.get('file_name')!r}")
    file = CocoFile(path, content, categories, images, {id_: [] for id_ in images}, {})
    strays = [entry["id"] for entry in lists["annotations"] if not _place(entry, file)]
    if strays:
        file.notes.append(f"{len(strays)} annotations skipped: their image is not listed (first: {strays[0]})")
    file.K.update(_count_keypoints(file))
    return file


def _by_id(entries: list[Entry], what: str, path: Path) -> dict[int, Entry]:
    found: dict[int, Entry] = {}
    for position, entry in enumerate(entries):
        id_ = entry.get("id")
        if not isinstance(id_, int) or isinstance(id_, bool):
            raise DataError(f"{path}: {what} number {position} has the id {id_!r}; an id is a whole number")
        if id_ in found:
            raise DataError(f"{path}: {what} id {id_} occurs twice; ids must differ")
        found[id_] = entry
    return found


def _place(annotation: Entry, file: CocoFile) -> bool:
    """Put a sound annotation with its image; False if that is not listed."""
    who = f"{file.path}: annotation {annotation['id']}"
    category, image = annotation.get("category_id"), annotation.get("image_id")
    if not isinstance(category, int) or category not in file.categories:
        raise DataError(f"{who} has the category_id {category!r}, which the file does not list")
    if not isinstance(image, int):
        raise DataError(f"{who} has the image_id {image!r}; an id is a whole number")
    for key, size in (("keypoints", None), ("bbox", 4)):
        values = annotation.get(key)
        if values is None:
            continue
        if not isinstance(values, list) or not all(is_number(value) for value in values):
            raise DataError(f"{who} has {key} {str(values)[:60]}; expected a list of finite numbers")
        if size is not None and len(values) != size:
            raise DataError(f"{who} has {key} {values}; a box is x, y, width, height")
    if len(annotation.get("keypoints") or []) % 3:
        raise DataError(f"{who} has {len(annotation['keypoints'])} numbers as keypoints; they come as x, y, visibility")
    for key in ("area", "num_keypoints", "iscrowd"):
        if not is_number(annotation.get(key, 0)):
            raise DataError(f"{who} has {key} {annotation[key]!r}; expected a number")
    if image not in file.of_image:
        return False
    file.of_image[image].append(annotation)
    return True


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 1e15  # nor nan, nor infinite


def _count_keypoints(file: CocoFile) -> dict[int, int]:
    """Keypoints of each category: as many as it names, else as many as its annotations have; all must agree."""
    counts: dict[int, int] = {}
    by: dict[int, str] = {}
    for id_, entry in file.categories.items():
        names = entry.get("keypoints") or []
        if not isinstance(names, list):
            raise DataError(f"{file.path}: category {entry['name']!r} has keypoints {names!r}, not a list of names")
        if names:
            counts[id_], by[id_] = len(names), "its category names"
    for annotation in (annotation for members in file.of_image.values() for annotation in members):
        K = len(annotation.get("keypoints") or []) // 3
        id_ = annotation["category_id"]
        if K and counts.setdefault(id_, K) != K:
            raise DataError(
                f"{file.path}: annotation {annotation['id']} of category {file.categories[id_]['name']!r} has "
                f"{K} keypoints, but {by[id_]} {counts[id_]}"
            )
        if K:
            by.setdefault(id_, f"annotation {annotation['id']} has")
    return {id_: counts.get(id_, 0) for id_ in file.categories}


# --- categories --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Category:
    """A kind of object and its keypoint definition."""

    id: int
    name: str
    K: int
    edges: tuple[tuple[int, int], ...]  # 0-based
    names: tuple[str, ...] | None = None  # of the keypoints
    supercategory: str | None = None
    symmetry: tuple[tuple[int, int], ...] = ()  # 0-based pairs of keypoints that change places in a mirror
    file_base: int | None = None  # what the file counted its edges from; None without edges


def read_categories(file: CocoFile, edge_base: EdgeBase) -> tuple[list[Category], list[str]]:
    """Categories with their edges counted from 0, and what there is to say about it."""
    skeletons = [
        Skeleton(entry["name"], file.K[id_], _pairs(entry, "skeleton", file.path))
        for id_, entry in file.categories.items()
    ]
    ours = mp100.is_mp100((id_, entry["name"]) for id_, entry in file.categories.items())
    stated = _stated_base(file) if edge_base == "auto" else edge_base
    decisions = decide(skeletons, stated, str(file.path), mp100.KNOWN_BASES if ours else None)
    categories, notes = [], []
    for (id_, entry), skeleton, decision in zip(file.categories.items(), skeletons, decisions, strict=True):
        edges = dict.fromkeys((i - decision.base, j - decision.base) for i, j in skeleton.edges)
        once = [(i, j) for i, j in edges if i != j and not (j < i and (j, i) in edges)]
        if len(once) < len(skeleton.edges):
            notes.append(f"{skeleton.name}: {len(skeleton.edges) - len(once)} edges dropped (double, or to itself)")
        names = entry.get("keypoints")
        categories.append(
            Category(
                id=id_,
                name=skeleton.name,
                K=skeleton.K,
                edges=tuple(once),
                names=tuple(str(name) for name in names) if names else None,
                supercategory=str(entry["supercategory"]) if entry.get("supercategory") else None,
                symmetry=_symmetry(entry, skeleton.K, decision.base, file.path),
                file_base=decision.base if skeleton.edges else None,
            )
        )
    return categories, notes + _base_notes(skeletons, decisions, ours and stated == "auto")


def _symmetry(category: Entry, K: int, base: int, path: Path) -> Pairs:
    """Pairs of left and right keypoints: those the category declares, counted like its edges; else by their names."""
    if "symmetry" not in category:
        names = category.get("keypoints") or ()
        return flip_pairs([str(name) for name in names]) if len(names) == K else ()
    pairs = tuple((i - base, j - base) for i, j in _pairs(category, "symmetry", path))
    once = {index for pair in pairs for index in pair}
    if len(once) != 2 * len(pairs) or not once <= set(range(K)):
        raise DataError(
            f"{path}: the symmetry of category {category['name']!r} must pair each of its {K} keypoints at most once, "
            f"counted from {base} like its edges"
        )
    return pairs


def _pairs(category: Entry, key: str, path: Path) -> tuple[tuple[int, int], ...]:
    pairs = category.get(key) or []
    sound = isinstance(pairs, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(index, int) for index in pair) for pair in pairs
    )
    if not sound:
        raise DataError(
            f"{path}: the {key} of category {category['name']!r} is {str(pairs)[:60]}; "
            "expected a list of pairs of keypoint numbers"
        )
    return tuple((i, j) for i, j in pairs)


def _stated_base(file: CocoFile) -> EdgeBase:
    """What the file itself says in info.edge_base, as files written by this package do."""
    info = file.content.get("info")
    stated: Any = info.get("edge_base", "auto") if isinstance(info, dict) else "auto"
    if stated not in ("auto", 0, 1):
        raise DataError(f"{file.path}: info.edge_base is {stated!r}; it can be 0 or 1")
    return stated


def _base_notes(skeletons: Sequence[Skeleton], decisions: Sequence[Decision], is_mp100: bool) -> list[str]:
    drawn = [(s, d) for s, d in zip(skeletons, decisions, strict=True) if s.edges]
    notes = [
        f"warning: {s.name}: edges taken as counted from {d.base}: {d.why}; if that is wrong, give --edge-base"
        for s, d in drawn
        if not d.proven
    ]
    edition = mp100.edition((s.name, d.base if d.proven else None) for s, d in drawn) if is_mp100 else None
    return [f"MP-100, {edition} edition", *notes] if edition else notes
