from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from edgecape import formats
from edgecape.errors import AnnotationError, DataError
from edgecape.formats.boxes import read_boxes

from coco_files import picture


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    """Boxes without keypoints, as detectors write them."""
    boxes = {1: [[1, 2, 30, 40], [5, 6, 0, 8]], 2: [[9, 9, 9, 9]], 3: [[7, 7, 7, 7], [8, 8, 8, 8]]}
    names = {1: "a/one.jpg", 2: "b\\one.jpg", 3: "two.jpg", 4: "none.jpg"}
    content = {
        "images": [{"id": id_, "file_name": name} for id_, name in names.items()],
        "annotations": [
            {"id": 10 * id_ + n, "image_id": id_, "category_id": 1, "bbox": box, "iscrowd": int(box[0] == 8)}
            for id_, members in boxes.items()
            for n, box in enumerate(members)
        ],
        "categories": [{"id": 1, "name": "cow"}],
    }
    path = tmp_path / "boxes.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("photo", "boxes"),
    [
        ("a/one.jpg", [(1, 2, 30, 40)]),
        ("/photos/b/one.jpg", [(9, 9, 9, 9)]),
        ("/any/where/two.jpg", [(7, 7, 7, 7)]),
        ("none.jpg", []),
    ],
)
def test_boxes_of_a_photo(coco, photo, boxes):
    assert read_boxes(coco).find(photo) == boxes


@pytest.mark.parametrize(("photo", "message"), [("three.jpg", "no such photo"), ("one.jpg", "several photos")])
def test_photos_that_cannot_be_told(coco, photo, message):
    with pytest.raises(AnnotationError, match=f"{photo}.*{message}"):
        read_boxes(coco).find(photo)


def test_any_format_and_keypoints_without_box(tmp_path):
    thing = formats.LabelledObject(np.array([(10, 20), (30, 50), (0, 0)]), visible=[True, True, False])
    image = formats.LabelledImage("clip.mp4#3", 100, 100, (thing,))
    formats.write(tmp_path / "labels.csv", formats.LabelSet(("a", "b", "c"), images=[image]), "csv")
    assert read_boxes(tmp_path / "labels.csv").find("videos/clip.mp4#3") == [(10, 20, 20, 30)]


def test_the_digest_tells_boxes_apart(coco):
    first = read_boxes(coco).digest
    assert read_boxes(coco).digest == first
    coco.write_text(coco.read_text().replace("[9, 9, 9, 9]", "[9, 9, 9, 8]"))
    assert read_boxes(coco).digest != first


def test_no_label_file(tmp_path):
    with pytest.raises(DataError, match="gone.json"):
        read_boxes(tmp_path / "gone.json")


def test_boxes_without_area_are_told(coco):
    assert read_boxes(coco).notes == (f"warning: 1 boxes of {coco} have no area and are left out",)


def on_photo(folder: Path, *boxes: list[float]) -> Path:
    content = {
        "images": [{"id": 1, "file_name": "one.png", "width": 640, "height": 480}],
        "annotations": [{"id": n, "image_id": 1, "category_id": 1, "bbox": box} for n, box in enumerate(boxes)],
        "categories": [{"id": 1, "name": "cow"}],
    }
    path = folder / "boxes.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ([400, 100, 600, 300], r"two corners; a box is .*give \(400, 100, 200, 200\)"),
        ([0.2, 0.2, 0.5, 0.5], "no larger than a pixel"),
        ([700, 100, 50, 50], "lies outside the photo of 640 × 480"),
        ([300, 300, -100, -50], "has no area"),
    ],
)
def test_boxes_that_cannot_be_meant(tmp_path, box, message):
    with pytest.raises(DataError, match=f"boxes.json.*{message}"):
        read_boxes(on_photo(tmp_path, [10, 10, 100, 100], box))


def test_boxes_of_a_photo_that_was_changed_since(tmp_path):
    boxes = read_boxes(on_photo(tmp_path, [10, 10, 100, 100]))
    picture(tmp_path / "one.png", 320, 240)
    with pytest.raises(AnnotationError, match="one.png has 320 × 240 pixels, but .* has boxes for 640 × 480"):
        boxes.find(tmp_path / "one.png")
    picture(tmp_path / "one.png", 640, 480)
    assert boxes.find(tmp_path / "one.png") == [(10, 10, 100, 100)]
