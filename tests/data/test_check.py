"""Looking over a data set with planted problems."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from edgecape.cli import data as cli
from edgecape.cli.printing import OutputOptions
from edgecape.data.check import check_file
from edgecape.errors import DataError

from coco_files import annotation, picture, pictures, sample, write


def kinds(tmp_path: Path, content: dict[str, Any]) -> dict[str, int]:
    path = write(tmp_path / "a.json", content)
    return dict(check_file(path, pictures(tmp_path / "images", content)).kinds())


def test_a_sound_data_set(tmp_path: Path) -> None:
    content = sample()
    report = check_file(write(tmp_path / "a.json", content), pictures(tmp_path / "images", content))
    assert report.clean
    assert report.images_total == 2  # the third has no objects
    dog, chair = report.categories
    assert (dog.objects, dog.images, dog.missing, dog.keypoints, dog.edges, dog.edge_base) == (2, 2, 0, 3, 2, 0)
    assert (chair.edges, chair.edge_base, chair.odd) == (0, None, 0)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"keypoints": [20, 21, 2, 99, 23, 2, 24, 25, 2]}, "keypoint outside the image"),
        ({"keypoints": [20, 21, 2, 22, -9, 1, 24, 25, 2]}, "keypoint outside the image"),
        ({"bbox": [2, 3, 300, 20]}, "box outside the image"),
        ({"bbox": [-9, 3, 30, 20]}, "box outside the image"),
        ({"bbox": [2, 3, 0, 20]}, "box without area"),
        ({"keypoints": [20, 21, 2, 0, 0, 2, 24, 25, 2]}, "visible keypoint at (0, 0)"),
        ({"keypoints": [20, 21, 2, 22, 23, 3, 24, 25, 2]}, "visibility not 0, 1 or 2"),
        ({"num_keypoints": 2}, "num_keypoints differs"),
    ],
)
def test_an_odd_annotation(tmp_path: Path, change: dict[str, Any], expected: str) -> None:
    content = sample()
    content["annotations"][3].update(change)
    path = write(tmp_path / "a.json", content)
    report = check_file(path, pictures(tmp_path / "images", content))
    (finding,) = report.findings
    assert (finding.kind, finding.annotation, finding.category, finding.image) == (expected, 4, 5, "b/30.png")
    assert not report.clean
    assert [category.odd for category in report.categories] == [1, 0]


@pytest.mark.parametrize(
    "change",
    [
        {"keypoints": [20, 21, 2, 40, 30, 2, 24, 25, 2]},  # at the far corner
        {"keypoints": [20, 21, 2, 99, 99, 0, 24, 25, 2], "num_keypoints": 2},  # outside, but not visible
        {"bbox": [0, 0, 40, 30]},
        {"bbox": [-0.4, 0, 40.8, 30]},
    ],
)
def test_what_is_not_odd(tmp_path: Path, change: dict[str, Any]) -> None:
    content = sample()
    content["annotations"][3].update(change)
    assert kinds(tmp_path, content) == {}


def test_the_same_object_twice(tmp_path: Path) -> None:
    content = sample()
    content["annotations"].append({**content["annotations"][0], "id": 9})
    content["annotations"].append(annotation(10, 30, 5, content["annotations"][0]["keypoints"]))  # in another image
    assert kinds(tmp_path, content) == {"object twice": 1}


def test_the_same_image_twice(tmp_path: Path) -> None:
    content = sample()
    content["images"].append({**content["images"][0], "id": 99})
    assert kinds(tmp_path, content) == {"image listed twice": 1}


def test_a_category_without_objects(tmp_path: Path) -> None:
    content = sample()
    content["categories"].append({"id": 9, "name": "hand"})
    assert kinds(tmp_path, content) == {"category without objects": 1}


def test_missing_images(tmp_path: Path) -> None:
    content = sample()
    path = write(tmp_path / "a.json", content)
    picture(tmp_path / "b/30.png")
    report = check_file(path, tmp_path)
    assert report.missing == ("a/10.png",)
    assert [(c.images, c.missing) for c in report.categories] == [(2, 1), (2, 1)]
    assert report.findings == ()
    assert not report.clean


def test_pictures_that_are_not_what_the_file_says(tmp_path: Path) -> None:
    content = sample()
    root = pictures(tmp_path / "images", content)
    picture(root / "b/30.png", 41, 30)
    turned = Image.new("RGB", (40, 30))
    exif = turned.getexif()
    exif[0x0112] = 6  # turned by 90 degrees
    turned.save(root / "a/10.png", exif=exif)
    path = write(tmp_path / "a.json", content)
    found = {(finding.kind, finding.image) for finding in check_file(path, root).findings}
    assert found == {("image has another size", "b/30.png"), ("image lies on its side", "a/10.png")}
    (root / "b/30.png").write_text("no picture")
    assert check_file(path, root).kinds()["image cannot be read"] == 2  # once for each category
    assert check_file(path, root, sample=0).clean


def test_an_unproven_base_is_worth_attention(tmp_path: Path) -> None:
    content = sample()
    content["categories"][0]["skeleton"] = [[1, 2]]
    path = write(tmp_path / "a.json", content)
    root = pictures(tmp_path / "images", content)
    assert not check_file(path, root).clean
    assert check_file(path, root, edge_base=0).clean


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = sample()
    write(tmp_path / "annotations/a.json", content)
    assert cli.check(tmp_path) == 1
    assert "0 of 2 images found" in capsys.readouterr().out
    pictures(tmp_path / "images", content)
    assert cli.check(tmp_path) == 0
    text = capsys.readouterr().out
    assert "all in order" in text
    assert "dog" in text
    assert cli.check(tmp_path, output=OutputOptions(json=True)) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["clean"]
    assert report["categories"][0]["edge_base"] == 0
    with pytest.raises(DataError, match="does not exist"):
        cli.check(tmp_path / "none")


def test_the_command_line_starts_without_heavy_imports() -> None:
    heavy = "cv2", "matplotlib", "numpy", "PIL", "rich.table", "torch", "transformers"
    script = f"import sys, edgecape.cli.data; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.shared
@pytest.mark.parametrize(
    ("annotations", "images"),
    [
        ("data/mpmini/annotations/test.json", "data/mpmini/images"),
        ("data/mmpose_samples/annotations.json", "data/mmpose_samples/images"),
        ("golden/dataset/ann.json", "golden/dataset/images"),
    ],
)
def test_real_data_is_in_order(shared: Path, annotations: str, images: str) -> None:
    assert check_file(shared / annotations, shared / images, sample=3).clean


@pytest.mark.shared
def test_what_is_odd_in_mp100(shared: Path, tmp_path: Path) -> None:
    report = check_file(shared / "data/mp100_annotations/mp100_split5_test.json.gz", tmp_path)
    assert len(report.missing) == report.images_total == 1960
    assert report.kinds() == {
        "keypoint outside the image": 13,
        "box outside the image": 4,
        "box without area": 2,
    }
