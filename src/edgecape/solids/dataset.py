"""A data set of such kinds on disk: annotations/NAME.json (COCO keypoints) and images/, to train on like any other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from edgecape.drawing import draw_keypoints, save_picture
from edgecape.errors import DataError
from edgecape.io.files import read_json, write_json
from edgecape.io.images import RGB, SUFFIXES
from edgecape.solids.kinds import Kind, random_kind
from edgecape.solids.pictures import Drawn, picture_of
from edgecape.solids.settings import Drawing

SUPERCATEGORY = "solids"
QUALITY = 90  # of JPEGs
SHOWN = 6  # kinds, and objects of each, in the picture that shows some of them


def draw_dataset(
    out: str | os.PathLike[str],
    drawing: Drawing,
    backgrounds: Sequence[Path] = (),
    name: str = "train",
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """The annotation file, which is written last; OUT/NAME.jpg shows some of them. A picture depends on the seed, its
    kind and its number alone: a run that was stopped and is begun again draws the same."""
    drawing.check()
    out = Path(out)
    path = out / "annotations" / f"{name}.json"
    said = {"drawing": asdict(drawing), "backgrounds": len(backgrounds)}
    if path.exists():
        if read_json(path).get("info", {}).get("made") != said:
            raise DataError(f"{path} is there and was made otherwise; give another folder or another --name")
        return path
    content: dict[str, Any] = {
        "info": {"description": "kinds of objects drawn by edgecape", "edge_base": 0, "made": said},
        "categories": [],
        "images": [],
        "annotations": [],
    }
    shown: list[RGB] = []
    for number in range(drawing.kinds):
        kind = random_kind(np.random.default_rng((drawing.seed, number)))
        called = f"solid_{number:04d}"
        content["categories"].append(_category(kind, number + 1, called))
        for count in range(drawing.objects):
            drawn = picture_of(kind, np.random.default_rng((drawing.seed, number, count)), drawing.size, backgrounds)
            file_name = f"{name}/{called}/{count:04d}.jpg"
            save_picture(out / "images" / file_name, drawn.image, quality=QUALITY)
            if number < SHOWN and count < SHOWN:
                shown.append(
                    draw_keypoints(
                        drawn.image, np.where(drawn.visible[:, None], drawn.keypoints, np.float32(np.nan)), kind.edges
                    )
                )
            id_ = number * drawing.objects + count + 1
            sides = {"width": drawing.size, "height": drawing.size}
            content["images"].append({"id": id_, "file_name": file_name, **sides})
            content["annotations"].append(_annotation(drawn, id_, number + 1))
        if progress is not None:
            progress(number + 1, drawing.kinds)
    columns = min(SHOWN, drawing.objects)
    rows = [np.hstack(shown[k : k + columns]) for k in range(0, len(shown), columns)]
    save_picture(out / f"{name}.jpg", np.vstack(rows), quality=QUALITY)
    write_json(path, content)
    return path


def photos_in(folder: Path) -> list[Path]:
    """Pictures anywhere below a folder, in an order that is always the same."""
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not found:
        raise DataError(f"{folder} has no photos ({', '.join(SUFFIXES)}) to put behind objects")
    return found


def _category(kind: Kind, id_: int, name: str) -> dict[str, Any]:
    return {
        "id": id_,
        "name": name,
        "supercategory": SUPERCATEGORY,
        "keypoints": kind.names,
        "skeleton": [list(edge) for edge in kind.edges],
        "symmetry": [list(pair) for pair in kind.symmetry],
    }


def _annotation(drawn: Drawn, id_: int, category: int) -> dict[str, Any]:
    points = [
        [round(float(x), 2), round(float(y), 2), 2] if seen else [0, 0, 0]
        for (x, y), seen in zip(drawn.keypoints, drawn.visible, strict=True)
    ]
    return {
        "id": id_,
        "image_id": id_,
        "category_id": category,
        "bbox": list(drawn.box),
        "area": drawn.box[2] * drawn.box[3],
        "iscrowd": 0,
        "num_keypoints": int(drawn.visible.sum()),
        "keypoints": [value for point in points for value in point],
    }
