"""A small, sound COCO-keypoints file to start from, and pictures to go with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def sample() -> dict[str, Any]:
    """Two categories (3 named keypoints with edges, 4 without names or edges), three images, four objects."""
    return {
        "categories": [
            {
                "id": 5,
                "name": "dog",
                "supercategory": "body",
                "keypoints": ["nose", "neck", "tail"],
                "skeleton": [[0, 1], [1, 2]],
            },
            {"id": 2, "name": "chair", "supercategory": "furniture"},
        ],
        "images": [
            {"id": 30, "file_name": "b/30.png", "width": 40, "height": 30},
            {"id": 10, "file_name": "a/10.png", "width": 40, "height": 30},
            {"id": 20, "file_name": "a/20.png", "width": 40, "height": 30},
        ],
        "annotations": [
            annotation(1, 10, 5, [10, 11, 2, 12, 13, 1, 0, 0, 0]),
            annotation(2, 30, 2, [1, 2, 2, 3, 4, 2, 5, 6, 2, 7, 8, 2]),
            annotation(3, 10, 2, [10, 11, 2, 12, 13, 2, 14, 15, 2, 16, 17, 2]),
            annotation(4, 30, 5, [20, 21, 2, 22, 23, 2, 24, 25, 2]),
        ],
    }


def annotation(id_: int, image: int, category: int, keypoints: list[float], **changes: Any) -> dict[str, Any]:
    entry = {
        "id": id_,
        "image_id": image,
        "category_id": category,
        "keypoints": keypoints,
        "num_keypoints": sum(v > 0 for v in keypoints[2::3]),
        "bbox": [2, 3, 30, 20],
        "area": 600,
        "iscrowd": 0,
    }
    return {**entry, **changes}


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def picture(path: Path, width: int = 40, height: int = 30, shade: int = 128) -> Path:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (width, height), (shade, shade, shade)).save(path)
    return path


def pictures(root: Path, content: dict[str, Any]) -> Path:
    for image in content["images"]:
        picture(root / image["file_name"], image["width"], image["height"])
    return root
