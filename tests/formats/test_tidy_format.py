"""Tidy CSV."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from edgecape import formats
from edgecape.errors import DataError
from edgecape.formats import LabelledImage, LabelSet

from labels_for_tests import cow


def test_a_row_per_keypoint(tmp_path: Path) -> None:
    labels = LabelSet(cow().names, None, "cow", [*cow().images, LabelledImage("empty.png", 5, 6, ())])
    formats.write(tmp_path / "a.csv", labels, "csv")
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 3 + 1
    assert list(rows[1].items()) == [
        *{"image": "cow 1.png", "width": "100", "height": "120", "category": "cow", "object": "0"}.items(),
        *{"keypoint": "Nüster", "x": "30.500", "y": "40.250", "visible": "1", "score": "0.800000"}.items(),
        *{"box_x": "5.000", "box_y": "10.000", "box_w": "40.000", "box_h": "50.000"}.items(),
        ("object_score", "0.850000"),
    ]
    assert (rows[2]["x"], rows[2]["y"], rows[2]["visible"], rows[2]["score"]) == ("", "", "0", "")
    assert (rows[9]["image"], rows[9]["keypoint"], rows[9]["width"]) == ("empty.png", "", "5")


def test_pandas_reads_it(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    formats.write(tmp_path / "a.csv", cow(), "csv")
    table = pandas.read_csv(tmp_path / "a.csv")
    assert table.groupby(["image", "object"])["score"].mean()["cow2.png", 0] == pytest.approx(0.2)
    assert table["x"].isna().sum() == 1


def test_four_columns_are_enough(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y,keypoint,image\n1,2,eye,a.png\n,,tail,a.png\n3,4,tail,b.png\n")
    (labels,) = formats.read(tmp_path / "a.csv")
    assert labels.names == ("eye", "tail")
    assert labels.category == "object"
    assert [image.objects[0].codes.tolist() for image in labels.images] == [[2, 0], [0, 2]]


HEAD = "image,object,keypoint,x,y,visible\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("image,keypoint,x\n", "no column 'y'"),
        (HEAD, "has no rows"),
        (HEAD + "a.png,0,eye,1,2,2\na.png,0,eye,1,2,2\n", "line 3: 'eye' of a.png is there twice"),
        (HEAD + "a.png,0,eye,one,2,2\n", "line 2 is damaged: .*'one'"),
        (HEAD + "a.png,0,eye,1,2,3\n", "line 2 is damaged: visible is '3'"),
        (HEAD + "a.png,0,eye,1,2\n", "line 2: the number of cells"),
        (HEAD + "a.png,0,eye,1,2,2,9\n", "line 2: the number of cells"),
        (HEAD + "a.png,0,eye,nan,2,2\n", "keypoint 0 is at"),
        (HEAD + "a.png,,,,,\n", "no keypoint"),
        (HEAD + '"a.png,0,eye', "not a CSV file"),
        (b"\xff\xfe\x00image", "not a CSV file"),
    ],
)
def test_damaged_files(tmp_path: Path, content: str | bytes, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=message) as caught:
        formats.read(tmp_path / "a.csv", "csv")
    assert "a.csv" in str(caught.value)
