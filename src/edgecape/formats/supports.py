"""Supports in a file: our small JSON, or any format that edgecape.formats reads.

The small JSON is what a person would write by hand, one support or a list of them:

    {"image": "cow1.jpg", "keypoints": [[120, 80], [64, 200]], "skeleton": [[0, 1]], "names": ["head", "tail"],
     "visible": [true, true], "box": [10, 20, 300, 200], "symmetry": []}

Only image and keypoints are needed; the image is looked for beside the file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from edgecape.errors import AnnotationError
from edgecape.io.files import read_json
from edgecape.types import Support

FIELDS = ("image", "keypoints", "skeleton", "visible", "box", "names", "symmetry")


def read_supports(path: str | os.PathLike[str], images: str | os.PathLike[str] | None = None) -> list[Support]:
    """All supports of a file with one keypoint definition; `images` is where its photos are, if not beside it."""
    path = Path(path)
    root = Path(images) if images is not None else path.parent
    content = read_json(path) if path.suffix == ".json" else []
    if is_small_json(content):
        unknown = {name for entry in _entries(content) for name in entry} - set(FIELDS)
        if unknown:
            raise AnnotationError(f"{path} has an unknown field '{min(unknown)}'; known are {', '.join(FIELDS)}")
        return [Support(**{**entry, "image": root / str(entry["image"])}) for entry in _entries(content)]
    from edgecape import formats

    label_sets = formats.read(path)
    if len(label_sets) != 1:
        found = ", ".join(labels.category for labels in label_sets)
        raise AnnotationError(
            f"{path} has {len(label_sets)} keypoint definitions ({found}); give a file with one of them"
        )
    supports = formats.to_supports(label_sets[0], images)
    if not supports:
        raise AnnotationError(f"{path} has no object with a visible keypoint")
    return supports


def is_small_json(content: Any) -> bool:
    entries = _entries(content)
    return bool(entries) and all(isinstance(entry, dict) and {"image", "keypoints"} <= set(entry) for entry in entries)


def _entries(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]
