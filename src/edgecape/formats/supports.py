"""Supports in a file: our small JSON, or any format that edgecape.formats reads.

The small JSON is what a person would write by hand, one support or a list of them:

    {"image": "cow1.jpg", "keypoints": [[120, 80], [64, 200]], "skeleton": [[0, 1]], "names": ["head", "tail"],
     "visible": [true, true], "box": [10, 20, 300, 200], "symmetry": []}

Only image and keypoints are needed; the image is looked for beside the file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from edgecape.errors import AnnotationError
from edgecape.io.edge_base import EdgeBase
from edgecape.io.files import read_json
from edgecape.types import Support

FIELDS = ("image", "keypoints", "skeleton", "visible", "box", "names", "symmetry")


class Supports(NamedTuple):
    supports: list[Support]
    notes: list[str]  # what the reader decided, for people to check


def read_supports(
    path: str | os.PathLike[str],
    format: str | None = None,
    images: str | os.PathLike[str] | None = None,
    category: str | None = None,
    edge_base: EdgeBase | None = None,
) -> Supports:
    """All supports of a file with one keypoint definition; `images` is where its photos are, if not beside it."""
    path = Path(path)
    edge_base = None if edge_base == "auto" else edge_base
    root = Path(images) if images is not None else path.parent
    content = read_json(path) if path.suffix == ".json" and format is None else []
    if is_small_json(content):
        unknown = {name for entry in _entries(content) for name in entry} - set(FIELDS)
        if unknown:
            raise AnnotationError(f"{path} has an unknown field '{min(unknown)}'; known are {', '.join(FIELDS)}")
        return Supports([Support(**{**entry, "image": root / str(entry["image"])}) for entry in _entries(content)], [])
    from edgecape import formats

    label_sets = formats.read(path, format or "auto", **({} if edge_base is None else {"edge_base": edge_base}))
    found = [labels.category for labels in label_sets]
    label_sets = [labels for labels in label_sets if category in (None, labels.category)]
    if len(label_sets) != 1:
        raise AnnotationError(
            f"{path} has {len(found)} keypoint definitions ({', '.join(found)}); say which with --support-category"
        )
    supports = formats.to_supports(label_sets[0], images)
    if not supports:
        raise AnnotationError(f"{path} has no object with a visible keypoint")
    return Supports(supports, list(label_sets[0].notes))


def is_small_json(content: Any) -> bool:
    entries = _entries(content)
    return bool(entries) and all(isinstance(entry, dict) and {"image", "keypoints"} <= set(entry) for entry in entries)


def _entries(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]
