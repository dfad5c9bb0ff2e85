"""Label files of every format: entries, cells and bytes changed; read as labels, as supports and as boxes."""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from edgecape import formats
from edgecape.formats import LabelledImage, LabelledObject, LabelSet
from edgecape.formats.boxes import Boxes, read_boxes
from edgecape.formats.supports import Supports, read_supports

from coco_files import picture
from hostile import VALUES, answered, as_json, changed, damaged, seeds, thorough

JSON = ["coco.json", "labelstudio.json", "labelme.json", "small.json"]
SMALL = {
    "image": "a.png",
    "keypoints": [[10, 20], [30, 40], [5, 6]],
    "skeleton": [[0, 1]],
    "visible": [True, True, False],
    "box": [2, 2, 50, 50],
    "names": ["left eye", "Nüster", "tail"],
    "symmetry": [],
}


def labels() -> LabelSet:
    first = LabelledObject(
        [[10, 20], [30.5, 40.25], [0, 0]], [1, 1, 0], [0, 1, 0], [0.9, 0.8, 0.0], (5, 10, 40, 50), 0.8
    )
    second = LabelledObject([[50, 60], [70, 80], [90, 55]], scores=[0.5, 0.6, 0.7], box=(45, 50, 50, 40), score=0.6)
    images = [LabelledImage("a.png", 100, 120, (first, second)), LabelledImage("b.png", 64, 48, (second,))]
    return LabelSet(["left eye", "Nüster", "tail"], [(0, 1), (1, 2)], "cow", images)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound files of every format, with their photos."""
    folder = tmp_path_factory.mktemp("labels")
    for place in (folder, folder / "yolo" / "images"):
        picture(place / "a.png", 100, 120)
        picture(place / "b.png", 64, 48)
    formats.write(folder / "coco.json", labels(), "coco")
    formats.write(folder / "labelstudio.json", labels(), "labelstudio")
    formats.write(folder / "tidy.csv", labels(), "csv")
    formats.write(folder / "deeplabcut.csv", labels(), "deeplabcut")
    formats.write(folder / "labelme", labels(), "labelme")
    formats.write(folder / "yolo", labels(), "yolo")
    shutil.copy(folder / "labelme" / "a.json", folder / "labelme.json")
    (folder / "small.json").write_bytes(as_json(SMALL))
    formats.write(folder / "sleap.slp", labels(), "sleap")
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(folder / "deeplabcut.csv", header=[0, 1, 2, 3], index_col=0)
    for layout in ("fixed", "table"):
        table.to_hdf(folder / f"{layout}.h5", key="df_with_missing", mode="w", format=layout)
    return folder


def check(path: Path) -> None:
    """All ways to read a file give something sound or an error."""
    for found in (answered(formats.read, path), answered(read_supports, path), answered(read_boxes, path)):
        if isinstance(found, Supports):
            assert found.supports
            assert all(np.isfinite(shot.keypoints).all() and shot.visible.any() for shot in found.supports)
        elif isinstance(found, Boxes):
            boxes = [box for by_file in found.of_name.values() for mine in by_file.values() for box in mine]
            assert all(min(box[2:]) > 0 for box in boxes)
        elif isinstance(found, list):
            assert all(isinstance(one, LabelSet) for one in found)


@pytest.mark.parametrize("name", JSON)
@given(seed=seeds)
@thorough()
def test_json_with_other_entries(seed: int, name: str, folder: Path) -> None:
    content = changed(json.loads((folder / name).read_text()), random.Random(seed))
    path = folder / f"changed-{name}"
    path.write_bytes(as_json(content))
    check(path)


@pytest.mark.parametrize("depth", [100, 900, 5_000, 100_000])
@pytest.mark.parametrize("name", JSON)
def test_json_nested_too_deep(name: str, depth: int, folder: Path) -> None:
    content = json.loads((folder / name).read_text())
    chance = random.Random(depth)
    for number in range(12):
        text = json.dumps(changed(content, chance, ["DEEP"])).replace('"DEEP"', "[" * depth + "]" * depth)
        path = folder / f"deep{number}-{name}"
        path.write_text(text)
        check(path)


@pytest.mark.parametrize("name", ["tidy.csv", "deeplabcut.csv"])
@given(seed=seeds)
@thorough()
def test_tables_with_other_cells(seed: int, name: str, folder: Path) -> None:
    chance = random.Random(seed)
    rows: Any = changed(list(csv.reader(io.StringIO((folder / name).read_text()))), chance, [str(v) for v in VALUES])
    path = folder / f"changed-{name}"
    with open(path, "w", newline="", errors="replace") as file:
        # an escape is asked for by Python 3.10 where a cell holds NUL
        csv.writer(file, escapechar="\\" if sys.version_info < (3, 11) else None).writerows(
            row if isinstance(row, list) else [row] for row in rows
        )
    check(path)


@given(seed=seeds)
@thorough()
def test_yolo(seed: int, folder: Path) -> None:
    yaml = pytest.importorskip("yaml")
    chance = random.Random(seed)
    place = folder / "changed-yolo"
    if not place.exists():
        shutil.copytree(folder / "yolo", place)
    config, label = (folder / "yolo" / "data.yaml").read_text(), (folder / "yolo" / "labels" / "a.txt").read_text()
    part = chance.randrange(3)
    if part == 0:
        config = yaml.safe_dump(changed(yaml.safe_load(config), chance, [v for v in VALUES if v != "\ud800"]))
    elif part == 1:
        lines = changed([line.split() for line in label.splitlines()], chance, [str(v) for v in VALUES])
        label = "\n".join(" ".join(map(str, line)) if isinstance(line, list) else str(line) for line in lines)
    content = config.encode() if part < 2 else damaged(config.encode(), chance)
    (place / "data.yaml").write_bytes(content)
    (place / "labels" / "a.txt").write_text(label, errors="replace")
    check(place)


@pytest.mark.parametrize(
    "name",
    ["coco.json", "labelstudio.json", "labelstudio.xml", "labelme.json", "small.json", "tidy.csv", "deeplabcut.csv"],
)
@given(seed=seeds)
@thorough()
def test_texts_with_other_bytes(seed: int, name: str, folder: Path) -> None:
    path = folder / f"damaged-{name}"
    path.write_bytes(damaged((folder / name).read_bytes(), random.Random(seed)))
    if path.suffix == ".xml":  # is read beside its labels
        path = shutil.copy(folder / "labelstudio.json", path.with_suffix(".json"))
    check(Path(path))


@pytest.mark.parametrize("name", ["fixed.h5", "table.h5", "sleap.slp"])
@given(seed=seeds)
@thorough(0.12)  # each is read by a process of its own
def test_hdf5_with_other_bytes(seed: int, name: str, folder: Path) -> None:
    chance, content = random.Random(seed), (folder / name).read_bytes()
    path = folder / f"damaged-{name}"
    path.write_bytes(damaged(content[:16_000], chance) + content[16_000:])  # where what describes the rest is
    found = answered(formats.read, path)
    assert not isinstance(found, list) or all(isinstance(one, LabelSet) for one in found)
