"""Labels of other tools: one file per format, one shape for all (labels.py), and here the table of formats.

from edgecape import formats

label_sets = formats.read("CollectedData_me.csv")
formats.write("cow.json", label_sets, "coco")
formats.save_poses("cows.json", model.predict(prompt, photos), photos)
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edgecape.errors import DataError
from edgecape.formats import coco, deeplabcut, labelme, labelstudio, shared, sleap, tidy, yolo
from edgecape.formats.labels import LabelledImage, LabelledObject, LabelSet, from_poses, to_supports
from edgecape.io.files import read_json
from edgecape.types import Pose

__all__ = [
    "FORMATS",
    "Format",
    "LabelSet",
    "LabelledImage",
    "LabelledObject",
    "detect",
    "from_poses",
    "known",
    "read",
    "save_poses",
    "to_supports",
    "write",
]


@dataclass(frozen=True)
class Format:
    """All that the package knows of a format besides how to read and write it."""

    title: str
    """As its tool spells it."""
    about: str
    """What is written, in one line."""
    reader: Callable[..., list[LabelSet]] | None
    """None if it is only written."""
    writer: Callable[..., None] | None
    """None if it is only read."""
    suffix: str = ".json"
    """Of what is written; "" is a folder."""
    several: bool = False
    """Whether several files are written."""
    beside: bool = False
    """Whether photos lie beside their labels; elsewhere they lie under images/."""
    frames: bool = False
    """Whether frames of videos can be named; the others lead to photo files."""
    needs: str | None = None
    """A library that may be missing."""


FORMATS: dict[str, Format] = {
    "coco": Format("COCO", "COCO keypoints, one JSON file", coco.read, coco.write, frames=True),
    "coco-results": Format(
        "COCO results", "detections for COCO's own evaluation, one JSON file", None, coco.write_results, frames=True
    ),
    "csv": Format(
        "CSV", "a table with a row per keypoint, for spreadsheets and R", tidy.read, tidy.write, ".csv", frames=True
    ),
    "cvat": Format("CVAT", "for import into CVAT as COCO Keypoints 1.0", None, coco.write),  # takes our COCO as it is
    "deeplabcut": Format("DeepLabCut", "a DeepLabCut table", deeplabcut.read, deeplabcut.write, ".csv", frames=True),
    "labelme": Format(
        "LabelMe", "a LabelMe file for each photo", labelme.read, labelme.write, "", several=True, beside=True
    ),
    "labelstudio": Format(
        "Label Studio", "tasks, and the labelling configuration", labelstudio.read, labelstudio.write, several=True
    ),
    "sleap": Format("SLEAP", "a SLEAP file", sleap.read, sleap.write, ".slp", needs="sleap_io"),
    "yolo": Format(
        "YOLO", "a pose data set: data.yaml and a text file for each photo", yolo.read, yolo.write, "", several=True
    ),
}


def known(name: str, use: Literal["reader", "writer"]) -> Format:
    """A format by its name.

    Args:
        name: A key of `FORMATS`.
        use: What it must have.

    Raises:
        DataError: If there is none; it lists those that there are.
    """
    can = {key: format for key, format in FORMATS.items() if getattr(format, use)}
    if name not in can:
        done = "read" if use == "reader" else "written"
        raise DataError(f"format '{name[:50]}' cannot be {done}; formats that can: {', '.join(can)}")
    return can[name]


def read(path: str | os.PathLike[str], format: str = "auto", **options: Any) -> list[LabelSet]:
    """Read labels.

    Args:
        path: A file or folder.
        format: A key of `FORMATS`; found out from the file if "auto".
        options: The format's own, such as `edge_base` of COCO.

    Returns:
        A label set for each keypoint definition.

    Raises:
        DataError: If it is damaged or of no known format.
    """
    reader = known(detect(path) if format == "auto" else format, "reader").reader
    assert reader is not None
    with shared.reading(path):
        return reader(path, **options)


def write(path: str | os.PathLike[str], labels: LabelSet | Sequence[LabelSet], format: str, **options: Any) -> None:
    """Write labels, whole or not at all.

    Args:
        path: A file; a folder for LabelMe and YOLO.
        labels: One label set, or several where a format holds several.
        format: A key of `FORMATS`.
        options: The format's own.
    """
    writer = known(format, "writer").writer
    assert writer is not None
    writer(path, [labels] if isinstance(labels, LabelSet) else list(labels), **options)


def save_poses(
    path: str | os.PathLike[str],
    poses: Iterable[Pose | Sequence[Pose]],
    photos: Sequence[str | os.PathLike[str]],
    format: str = "coco",
    **options: Any,
) -> None:
    """Write predictions.

    Args:
        path: A file; a folder for LabelMe and YOLO.
        poses: One pose or a list of poses per photo, in order.
        photos: Their files, which tell their size.
        format: A key of `FORMATS`.
        options: The format's own.
    """
    from edgecape.io.images import image_size

    write(path, from_poses(poses, photos, [image_size(photo) for photo in photos]), format, **options)


def detect(path: str | os.PathLike[str]) -> str:
    """The format of a file or folder, a key of `FORMATS`.

    By suffix: .slp is SLEAP, .h5 DeepLabCut. By content: a CSV that begins with "scorer" is DeepLabCut's, one with
    columns image, keypoint, x, y is tidy; JSON with shapes and imagePath is LabelMe's, with images, annotations and
    categories COCO, a list of tasks with data Label Studio's; YAML with kpt_shape is YOLO's. A folder with such YAML is
    YOLO's, one with LabelMe files LabelMe's. Anything else, and a folder that is both, is an error that asks for it.

    Args:
        path: Nothing in it is run.
    """
    path = Path(path)
    with shared.reading(path):
        found = _fitting(path)
    if len(found) != 1:
        readable = ", ".join(name for name, format in FORMATS.items() if format.reader)
        what = f"could be {' or '.join(found)}" if found else "is of no known format"
        raise DataError(f"{path} {what}; say which it is (for a support with --support-format), one of {readable}")
    return found[0]


def _fitting(path: Path) -> list[str]:
    if path.is_dir():
        return _in_folder(path)
    if not path.exists():
        raise DataError(f"{path} does not exist")
    if path.name.lower().endswith((".json", ".json.gz")):
        return _in_json(path)
    if path.suffix.lower() == ".csv":
        return _in_csv(path)
    if path.suffix.lower() in (".yaml", ".yml"):
        return ["yolo"] if yolo.find_config(path) is not None else []
    suffixes = {".slp": "sleap", ".h5": "deeplabcut", ".hdf5": "deeplabcut"}
    return [suffixes[path.suffix.lower()]] if path.suffix.lower() in suffixes else []


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
    with shared.opened_csv(path) as file:
        try:
            heading = next(csv.reader(file), [])
        except csv.Error:  # NUL, for Python 3.10; later ones take it for a cell like any other
            return []
    if heading[:1] == ["scorer"]:
        return ["deeplabcut"]
    return ["csv"] if set(tidy.NEEDED) <= set(heading) else []
