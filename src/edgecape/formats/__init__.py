"""Labels of other tools: one file per format, one shape for all (labels.py), and here the table of formats.

from edgecape import formats

label_sets = formats.read("CollectedData_me.csv")
formats.write("cow.json", label_sets, "coco")
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edgecape.errors import DataError
from edgecape.formats import coco, deeplabcut, labelme, labelstudio, sleap, tidy, yolo
from edgecape.formats.labels import LabelledImage, LabelledObject, LabelSet, from_poses, to_supports
from edgecape.io.files import read_json

__all__ = [
    "READERS",
    "WRITERS",
    "LabelSet",
    "LabelledImage",
    "LabelledObject",
    "detect",
    "from_poses",
    "read",
    "to_supports",
    "write",
]

READERS: dict[str, Callable[..., list[LabelSet]]] = {
    "coco": coco.read,
    "csv": tidy.read,
    "deeplabcut": deeplabcut.read,
    "labelme": labelme.read,
    "labelstudio": labelstudio.read,
    "sleap": sleap.read,
    "yolo": yolo.read,
}
WRITERS: dict[str, Callable[..., None]] = {
    "coco": coco.write,
    "coco-results": coco.write_results,
    "csv": tidy.write,
    "cvat": coco.write,  # CVAT's "COCO Keypoints 1.0" takes our COCO file as it is
    "deeplabcut": deeplabcut.write,
    "labelme": labelme.write,
    "labelstudio": labelstudio.write,
    "sleap": sleap.write,
    "yolo": yolo.write,
}


def read(path: str | os.PathLike[str], format: str = "auto", **options: Any) -> list[LabelSet]:
    """The labels of a file or folder, a label set for each keypoint definition; options are the format's own."""
    name = detect(path) if format == "auto" else format
    return _known(READERS, name, "read")(path, **options)


def write(path: str | os.PathLike[str], labels: LabelSet | Sequence[LabelSet], format: str, **options: Any) -> None:
    """Labels to a file (a folder for LabelMe and YOLO), whole or not at all; options are the format's own."""
    _known(WRITERS, format, "written")(path, [labels] if isinstance(labels, LabelSet) else list(labels), **options)


def _known(table: dict[str, Callable[..., Any]], name: str, done: str) -> Callable[..., Any]:
    if name not in table:
        raise DataError(f"format {name!r} cannot be {done}; formats that can: {', '.join(table)}")
    return table[name]


def detect(path: str | os.PathLike[str]) -> str:
    """The format of a file or folder.

    By suffix: .slp is SLEAP, .h5 DeepLabCut. By content: a CSV that begins with "scorer" is DeepLabCut's, one with
    columns image, keypoint, x, y is tidy; JSON with shapes and imagePath is LabelMe's, with images, annotations and
    categories COCO, a list of tasks with data Label Studio's; YAML with kpt_shape is YOLO's. A folder with such YAML is
    YOLO's, one with LabelMe files LabelMe's. Anything else, and a folder that is both, is an error that asks for it.
    """
    path = Path(path)
    if path.is_dir():
        found = _in_folder(path)
    elif not path.exists():
        raise DataError(f"{path} does not exist")
    elif path.name.lower().endswith((".json", ".json.gz")):
        found = _in_json(path)
    elif path.suffix.lower() == ".csv":
        found = _in_csv(path)
    elif path.suffix.lower() in (".yaml", ".yml"):
        found = ["yolo"] if yolo.find_config(path) is not None else []
    else:
        suffixes = {".slp": "sleap", ".h5": "deeplabcut", ".hdf5": "deeplabcut"}
        found = [suffixes[path.suffix.lower()]] if path.suffix.lower() in suffixes else []
    if len(found) != 1:
        what = f"could be {' or '.join(found)}" if found else "is of no known format"
        raise DataError(f"{path} {what}; say which with the format, one of {', '.join(READERS)}")
    return found[0]


def _in_folder(path: Path) -> list[str]:
    found = ["yolo"] if yolo.find_config(path) is not None else []
    first = next((file for file in sorted(path.rglob("*.json")) if file.name[0] != "."), None)
    return [*found, "labelme"] if first is not None and labelme.is_labelme(read_json(first)) else found


def _in_json(path: Path) -> list[str]:
    content = read_json(path)
    if isinstance(content, list) and content and isinstance(content[0], dict) and "image_id" in content[0]:
        raise DataError(
            f"{path} is a list of COCO results, which names neither photos nor keypoints; give the data set"
        )
    tests = {
        "coco": isinstance(content, dict) and {"images", "annotations", "categories"} <= set(content),
        "labelme": labelme.is_labelme(content),
        "labelstudio": labelstudio.is_labelstudio(content),
    }
    return [name for name, fits in tests.items() if fits]


def _in_csv(path: Path) -> list[str]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            heading = next(csv.reader(file), [])
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path} is not a CSV file: {error}") from None
    if heading[:1] == ["scorer"]:
        return ["deeplabcut"]
    return ["csv"] if set(tidy.NEEDED) <= set(heading) else []
