"""Label Studio: exports as it makes them, predictions as it takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgecape import formats
from edgecape.errors import AnnotationError, DataError
from edgecape.formats import LabelledImage, LabelledObject, LabelSet
from edgecape.formats.labelstudio import labelling_configuration

from labels_for_tests import assert_same, cow, make_photo

SIZE = {"original_width": 200, "original_height": 100, "image_rotation": 0, "to_name": "img"}


def keypoint(label: str, x: float, y: float, **more: Any) -> dict[str, Any]:
    value = {"x": x, "y": y, "width": 0.4, "keypointlabels": [label]}
    return {"id": f"{label}{x}", "type": "keypointlabels", "from_name": "kp", "value": value, **SIZE, **more}


def rectangle(id_: str, x: float, y: float, w: float, h: float, rotation: float = 0) -> dict[str, Any]:
    value = {"x": x, "y": y, "width": w, "height": h, "rotation": rotation, "rectanglelabels": ["cow"]}
    return {"id": id_, "type": "rectanglelabels", "from_name": "box", "value": value, **SIZE}


def task(*result: dict[str, Any], image: Any = "/data/upload/3/1a2b3c4d-cow.jpg", **more: Any) -> dict[str, Any]:
    annotation = {"id": 9, "result": list(result), "was_cancelled": False, "created_at": "2024-05-01T10:00:00Z"}
    return {"id": 17, "data": {"image": image}, "annotations": [annotation], "predictions": [], **more}


def read(tmp_path: Path, *tasks: Any) -> LabelSet:
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    (labels,) = formats.read(tmp_path / "export.json", "labelstudio")
    return labels


def test_an_export(tmp_path: Path) -> None:
    labels = read(tmp_path, task(keypoint("tail", 50, 10), rectangle("r", 10, 20, 30, 40), keypoint("eye", 1, 2)))
    assert labels.names == ("tail", "eye")
    assert labels.category == "cow"
    (image,) = labels.images
    assert (image.file, image.width, image.height) == ("1a2b3c4d-cow.jpg", 200, 100)
    (thing,) = image.objects
    assert thing.keypoints.tolist() == [[100, 10], [2, 2]]
    assert thing.box == (20, 20, 60, 40)
    assert thing.scores is None


def test_children_and_relations_make_objects(tmp_path: Path) -> None:
    first, second = rectangle("r1", 0, 0, 10, 10), rectangle("r2", 50, 50, 10, 10, rotation=30)
    related = keypoint("eye", 60, 60)
    relation = {"type": "relation", "from_id": related["id"], "to_id": "r2", "direction": "right"}
    edge = {"type": "relation", "from_id": related["id"], "to_id": "eye9", "direction": "right"}  # between keypoints
    labels = read(
        tmp_path,
        task(keypoint("eye", 5, 5, parentID="r1"), related, first, second, relation, edge, keypoint("eye", 9, 9)),
    )
    assert [(thing.keypoints.tolist(), thing.box) for thing in labels.images[0].objects] == [
        ([[10, 5]], (0, 0, 20, 10)),
        ([[120, 60]], None),  # a turned rectangle holds its keypoints together but is no box
        ([[18, 9]], None),
    ]


def test_the_newest_annotation_counts_and_cancelled_ones_do_not(tmp_path: Path) -> None:
    both = task(keypoint("eye", 1, 1))
    both["annotations"] += [
        {"result": [keypoint("eye", 2, 2)], "created_at": "2024-06-01T10:00:00Z"},
        {"result": [keypoint("eye", 3, 3)], "created_at": "2024-07-01T10:00:00Z", "was_cancelled": True},
    ]
    prediction = {"result": [keypoint("eye", 4, 4, score=0.5)]}
    labels = read(tmp_path, both, task(annotations=[], predictions=[prediction]), task(annotations=[], predictions=[]))
    assert [[thing.keypoints[0, 1] for thing in image.objects] for image in labels.images] == [[2], [4], []]
    scores = labels.images[1].objects[0].scores
    assert scores is not None
    assert scores.tolist() == [0.5]


@pytest.mark.parametrize(
    ("data", "file"),
    [
        ({"image": "/data/local-files/?d=farm/my%20cow.jpg"}, "farm/my cow.jpg"),
        ({"image": "/data/upload/12/ab-my%20cow.jpg"}, "ab-my cow.jpg"),
        ({"image": "s3://bucket/cow.jpg"}, "s3://bucket/cow.jpg"),
        ({"photo": "https://example.org/cow.jpg", "note": "nice"}, "https://example.org/cow.jpg"),
        ({"photo": "https://example.org/12345"}, "https://example.org/12345"),
    ],
)
def test_what_the_photo_is_called(tmp_path: Path, data: dict[str, str], file: str) -> None:
    assert read(tmp_path, task(keypoint("eye", 1, 1), data=data)).images[0].file == file


def test_predictions(tmp_path: Path) -> None:
    formats.write(
        tmp_path / "a.json", cow(), "labelstudio", model_version="cape 7", image_prefix="/data/local-files/?d="
    )
    first, second = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert second["data"] == {"image": "/data/local-files/?d=cow2.png"}
    (prediction,) = first["predictions"]
    assert prediction["model_version"] == "cape 7"
    assert prediction["score"] == pytest.approx((0.85 + 0.6) / 2)
    box, eye, *_ = prediction["result"]
    assert (box["type"], box["value"]["rectanglelabels"]) == ("rectanglelabels", ["cow"])
    assert [box["value"][side] for side in ("x", "y", "width", "height")] == pytest.approx([5, 100 / 12, 40, 500 / 12])
    assert (eye["original_width"], eye["original_height"]) == (100, 120)
    assert (eye["value"]["x"], eye["value"]["y"]) == pytest.approx((10, 2000 / 120))
    assert eye["value"]["keypointlabels"] == ["left eye"]
    assert eye["score"] == pytest.approx(0.9)
    assert eye["parentID"] == box["id"]
    ids = [region["id"] for region in prediction["result"]]
    assert len(set(ids)) == len(ids) == 2 + 5


def test_what_is_outside_the_photo_is_left_out(tmp_path: Path) -> None:
    things = (LabelledObject([[-1, 5], [5, 5]], box=(-5, -5, 10, 10)), LabelledObject([[1, 1], [2, 3]]))
    formats.write(
        tmp_path / "a.json", LabelSet(["a", "b"], images=[LabelledImage("x.png", 10, 10, things)]), "labelstudio"
    )
    first, second = formats.read(tmp_path / "a.json")[0].images[0].objects
    assert first.visible.tolist() == [False, True]
    assert first.box == (0, 0, 5, 5)
    assert second.box == pytest.approx((1, 1, 1, 2))  # made to hold the keypoints together


def test_the_configuration_lies_beside_and_keeps_the_order(tmp_path: Path) -> None:
    names = ['<b> & "c"', "a"]
    image = LabelledImage("x.png", 10, 10, (LabelledObject([[0, 0], [1, 1]], [False, True]),))
    formats.write(tmp_path / "a.json", LabelSet(names, None, "cow", [image]), "labelstudio")
    assert (tmp_path / "a.xml").read_text(encoding="utf-8") == labelling_configuration(LabelSet(names, None, "cow"))
    assert formats.read(tmp_path / "a.json")[0].names == tuple(names)
    (tmp_path / "a.xml").unlink()
    assert formats.read(tmp_path / "a.json")[0].names == ("a",)


def test_sizes_are_needed(tmp_path: Path) -> None:
    labels = LabelSet(["a"], images=[LabelledImage("x.png", None, None, (LabelledObject([[1, 1]]),))])
    with pytest.raises(AnnotationError, match=r"the size of x\.png is not known, which Label Studio files need"):
        formats.write(tmp_path / "a.json", labels, "labelstudio")
    assert not list(tmp_path.iterdir())


def test_label_studio_takes_our_predictions(tmp_path: Path) -> None:
    interface = pytest.importorskip("label_studio_sdk.label_interface")
    formats.write(tmp_path / "a.json", cow(), "labelstudio")
    project = interface.LabelInterface((tmp_path / "a.xml").read_text(encoding="utf-8"))
    for one in json.loads((tmp_path / "a.json").read_text(encoding="utf-8")):
        assert project.validate_prediction(one["predictions"][0], return_errors=True) == []


def test_label_studios_converter_and_we_agree(tmp_path: Path) -> None:
    """Its YOLO export of our predictions, taken as annotations, is our data again."""
    converter = pytest.importorskip("label_studio_sdk.converter")
    formats.write(tmp_path / "a.json", cow(), "labelstudio")
    tasks = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    for number, one in enumerate(tasks, start=1):
        prediction = one.pop("predictions")[0]
        one |= {"id": number, "annotations": [{"id": number, "result": prediction["result"], "completed_by": 1}]}
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    made = converter.Converter(
        (tmp_path / "a.xml").read_text(encoding="utf-8"), str(tmp_path), download_resources=False
    )
    made.convert_to_yolo(str(tmp_path / "export.json"), str(tmp_path / "yolo"), is_dir=False)
    for image in cow().images:
        (file,) = (tmp_path / "yolo" / "labels").glob(f"*{Path(image.file).stem}.txt")
        rows = np.loadtxt(file, ndmin=2)
        for row, thing in zip(rows, image.objects, strict=True):
            points = row[5:].reshape(-1, 3)
            np.testing.assert_array_equal(points[:, 2] > 0, thing.visible)
            np.testing.assert_allclose(points[:, :2] * image.size("test"), thing.keypoints, atol=1e-3)


def test_we_read_what_sleap_io_writes(tmp_path: Path) -> None:
    sleap_io = pytest.importorskip("sleap_io")
    for image in cow().images:
        make_photo(tmp_path / image.file, image.size("test"))
    formats.write(tmp_path / "ours.json", cow(), "coco")
    sleap_io.save_labelstudio(sleap_io.load_coco(str(tmp_path / "ours.json")), str(tmp_path / "theirs.json"))
    tasks = json.loads((tmp_path / "theirs.json").read_text())
    for one, image in zip(tasks, cow().images, strict=True):
        one["data"] = {"image": image.file}  # which it leaves to the user
    labels = read(tmp_path, *tasks)
    assert_same(labels, cow(), without="skeleton category occluded scores score box")


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "not a Label Studio export"),
        ([5], "not a Label Studio export"),
        ([task()], "no region of type 'keypointlabels'"),
        ([task(keypoint("a", 1, 1), keypoint("a", 2, 2))], "task 17 .*'a' is there twice"),
        ([task(keypoint("a", 1, 1), image=None)], "task 17 .*does not tell which"),
        ([task({**keypoint("a", 1, 1), "original_width": "wide"})], "task 17"),
        (
            [task({key: v for key, v in keypoint("a", 1, 1).items() if key != "original_height"})],
            "'original_height' is missing",
        ),
        ([task({**keypoint("a", 1, 1), "value": {"keypointlabels": ["a"], "y": 1}})], "task 17: 'x' is missing"),
        ([task(keypoint("a", 1, 1), annotations=[{"id": 1}])], "task 17: 'result' is missing"),
        ([task(keypoint("a", 1, 1), annotations=5)], "task 17 is damaged"),
    ],
)
def test_damaged_exports(tmp_path: Path, tasks: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, *tasks)
    assert "export.json" in str(caught.value)


def test_a_damaged_configuration(tmp_path: Path) -> None:
    (tmp_path / "export.xml").write_text("<View>")
    with pytest.raises(DataError, match=r"export\.xml is not a labelling configuration"):
        read(tmp_path, task(keypoint("a", 1, 1)))


def test_a_configuration_that_declares_what_it_likes(tmp_path: Path) -> None:
    formats.write(tmp_path / "a.json", cow(), "labelstudio")
    (tmp_path / "a.xml").write_text('<!DOCTYPE View [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><View>&b;</View>')
    with pytest.raises(DataError, match=r"a\.xml is not a labelling configuration: .*document type"):
        formats.read(tmp_path / "a.json")
