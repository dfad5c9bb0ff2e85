"""COCO keypoints, and what CVAT, pycocotools, supervision and sleap-io make of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from edgecape import formats
from edgecape.errors import AnnotationError, DataError, ImageError
from edgecape.formats import LabelledImage, LabelledObject, LabelSet, to_supports
from edgecape.types import Pose

from labels_for_tests import assert_same, cow, cow_with_photos, make_photo


def written(tmp_path: Path, labels: LabelSet, format: str = "coco", **options: Any) -> Any:
    formats.write(tmp_path / "labels.json", labels, format, **options)
    return json.loads((tmp_path / "labels.json").read_text(encoding="utf-8"))


def small() -> dict[str, Any]:
    """A file as others write it."""
    return {
        "images": [{"id": 7, "file_name": "a\\b.jpg", "width": 64, "height": 48}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 3, "keypoints": [1, 2, 2, 3, 4, 1, 0, 0, 0], "bbox": [0, 0, 9, 9]},
            {"id": 2, "image_id": 7, "category_id": 3, "keypoints": [5, 6, 2, 7, 8, 2, 9, 9, 2], "iscrowd": 1},
            {"id": 3, "image_id": 7, "category_id": 3, "bbox": [1, 1, 2, 2]},
        ],
        "categories": [
            {"id": 3, "name": "cow", "keypoints": ["eye", "eye", "tail"], "skeleton": [[1, 2], [2, 3]]},
            {"id": 4, "name": "boxes only"},
        ],
    }


def test_a_file_by_others(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(small()))
    (labels,) = formats.read(tmp_path / "a.json")
    assert labels.names == ("eye", "eye (2)", "tail")
    assert labels.skeleton == ((0, 1), (1, 2))  # counted from 1: there is a 3 among three keypoints
    assert labels.root == tmp_path
    (image,) = labels.images
    assert (image.file, image.width, image.height) == ("a/b.jpg", 64, 48)
    (thing,) = image.objects  # the crowd and the box without keypoints are left out
    assert thing.codes.tolist() == [2, 1, 0]
    assert thing.box == (0, 0, 9, 9)
    assert thing.scores is None


@pytest.mark.parametrize(
    ("declared", "pairs"), [({}, None), ({"symmetry": []}, ()), ({"symmetry": [[1, 2]]}, ((0, 1),))]
)
def test_a_declared_symmetry_is_handed_on_and_written_back(tmp_path: Path, declared, pairs) -> None:
    content = small()
    content["categories"][0] |= declared
    (tmp_path / "a.json").write_text(json.dumps(content))
    (labels,) = formats.read(tmp_path / "a.json")
    assert labels.symmetry == pairs and to_supports(labels)[0].symmetry == pairs
    assert written(tmp_path, labels)["categories"][0].get("symmetry") == declared.get("symmetry")
    assert formats.read(tmp_path / "labels.json")[0].symmetry == pairs


def test_photos_are_looked_for_where_coco_keeps_them(tmp_path: Path) -> None:
    formats.write(tmp_path / "annotations" / "a.json", cow(), "coco")
    make_photo(tmp_path / "images" / "cow 1.png", (100, 120))
    assert (
        to_supports(formats.read(tmp_path / "annotations" / "a.json")[0])[0].image == tmp_path / "images" / "cow 1.png"
    )


@pytest.mark.parametrize(("edges", "want"), [([[0, 1]], ((0, 1),)), ([[2, 3]], ((1, 2),))])
def test_the_edges_prove_their_base(tmp_path: Path, edges: list[list[int]], want: Any) -> None:
    content = small()
    content["categories"][0]["skeleton"] = edges
    (tmp_path / "a.json").write_text(json.dumps(content))
    assert formats.read(tmp_path / "a.json")[0].skeleton == want


def test_the_base_can_be_given_and_a_guess_is_noted(tmp_path: Path) -> None:
    content = small()
    content["categories"][0]["skeleton"] = [[1, 2]]
    (tmp_path / "a.json").write_text(json.dumps(content))
    assert formats.read(tmp_path / "a.json", "coco", edge_base=1)[0].skeleton == ((0, 1),)
    assert formats.read(tmp_path / "a.json", "coco", edge_base=0)[0].skeleton == ((1, 2),)
    assert any("warning" in note for note in formats.read(tmp_path / "a.json")[0].notes)


def test_ours_states_its_base(tmp_path: Path) -> None:
    labels = LabelSet(["a", "b", "c"], [(0, 1)], "cow", cow().images)
    assert written(tmp_path, labels)["categories"][0]["skeleton"] == [[1, 2]]  # which proves nothing
    assert formats.read(tmp_path / "labels.json")[0].skeleton == ((0, 1),)


def test_what_cvat_asks_for(tmp_path: Path) -> None:
    content = written(tmp_path, cow(), "cvat")
    (category,) = content["categories"]
    assert category["id"] >= 1  # CVAT takes 0 for no label
    assert category["keypoints"] == ["left eye", "Nüster", "tail"]
    assert category["skeleton"] == [[1, 2], [2, 3]]
    for annotation in content["annotations"]:
        assert annotation["category_id"] == category["id"]
        assert annotation["iscrowd"] == 0
        assert annotation["segmentation"] == []
        assert len(annotation["keypoints"]) == 9
    assert [annotation["num_keypoints"] for annotation in content["annotations"]] == [2, 3, 3]
    assert content["annotations"][0]["keypoints"] == [10, 20, 2, 30.5, 40.25, 1, 0, 0, 0]
    assert [type(image["id"]) for image in content["images"]] == [int, int]


def test_no_skeleton_is_an_empty_one(tmp_path: Path) -> None:
    assert written(tmp_path, LabelSet(["a", "b", "c"], None, "cow", cow().images))["categories"][0]["skeleton"] == []


def test_datumaro_which_cvat_imports_with_reads_ours(tmp_path: Path) -> None:
    datumaro = pytest.importorskip("datumaro")
    path = tmp_path / "annotations" / "person_keypoints_all.json"
    formats.write(path, cow(), "cvat")
    for image in cow().images:
        make_photo(tmp_path / "images" / image.file, image.size("test"))
    dataset = datumaro.Dataset.import_from(str(path), "coco_person_keypoints")
    items = {item.id: item for item in dataset}
    points = {note.id: note for note in items["cow 1"].annotations if note.type == datumaro.AnnotationType.points}
    assert set(points) == {1, 2}
    np.testing.assert_allclose(points[1].points, [10, 20, 30.5, 40.25, 0, 0])
    assert [code.value for code in points[1].visibility] == [2, 1, 0]
    (definition,) = dataset.categories()[datumaro.AnnotationType.points].items.values()
    assert definition.labels == ["left eye", "Nüster", "tail"]


def test_pycocotools_finds_perfect_results_perfect(tmp_path: Path) -> None:
    coco = pytest.importorskip("pycocotools.coco")
    evaluation = pytest.importorskip("pycocotools.cocoeval")
    labels = cow()
    formats.write(tmp_path / "truth.json", labels, "coco")
    formats.write(tmp_path / "results.json", labels, "coco-results", dataset=tmp_path / "truth.json")
    truth = coco.COCO(str(tmp_path / "truth.json"))
    judge = evaluation.COCOeval(truth, truth.loadRes(str(tmp_path / "results.json")), "keypoints")
    judge.params.kpt_oks_sigmas = np.full(3, 0.05)
    judge.params.useSegm = None
    judge.evaluate()
    judge.accumulate()
    judge.summarize()
    assert judge.stats[0] == pytest.approx(1.0)


def test_results_hold_scores_and_the_ids_of_the_data_set(tmp_path: Path) -> None:
    content = small()
    content["categories"][0]["keypoints"] = ["left eye", "Nüster", "tail"]
    content["images"] = [{"id": 50, "file_name": "cow2.png"}, {"id": 40, "file_name": "cow 1.png"}]
    content["annotations"] = []
    (tmp_path / "truth.json").write_text(json.dumps(content))
    results = written(tmp_path, cow(), "coco-results", dataset=tmp_path / "truth.json")
    assert [result["image_id"] for result in results] == [40, 40, 50]
    assert {result["category_id"] for result in results} == {3}
    assert results[0]["keypoints"] == pytest.approx([10, 20, 0.9, 30.5, 40.25, 0.8, 0, 0, 0])
    assert [result["score"] for result in results] == pytest.approx([0.85, 0.6, 0.2])


@pytest.mark.parametrize(("part", "message"), [("images", "image 'cow 1.png'"), ("categories", "category 'cow'")])
def test_results_for_what_the_data_set_does_not_have(tmp_path: Path, part: str, message: str) -> None:
    formats.write(tmp_path / "truth.json", cow(), "coco")
    content = json.loads((tmp_path / "truth.json").read_text()) | {"annotations": [], part: []}
    (tmp_path / "truth.json").write_text(json.dumps(content))
    with pytest.raises(AnnotationError, match=f"{message} is not in .*truth.json"):
        formats.write(tmp_path / "out.json", cow(), "coco-results", dataset=tmp_path / "truth.json")
    assert not (tmp_path / "out.json").exists()


def test_results_of_labels_without_scores(tmp_path: Path) -> None:
    nothing, thing = LabelledObject([[1, 2]], [0]), LabelledObject([[1, 2]])
    labels = LabelSet(["a"], None, "cow", [LabelledImage("x.png", None, None, (nothing, thing))])
    (result,) = written(tmp_path, labels, "coco-results")
    assert result == {"image_id": 1, "category_id": 1, "keypoints": [1, 2, 1], "score": 1}


def test_supervision_takes_our_arrays(tmp_path: Path) -> None:
    supervision = pytest.importorskip("supervision")
    formats.write(tmp_path / "labels.json", cow(), "coco")
    things = formats.read(tmp_path / "labels.json")[0].images[0].objects
    keypoints = supervision.KeyPoints(
        xy=np.stack([thing.keypoints for thing in things]),
        keypoint_confidence=np.stack([thing.scores for thing in things]),
        visible=np.stack([thing.visible for thing in things]),
    )
    boxes = keypoints.as_detections().xyxy
    for thing, (left, top, right, bottom) in zip(things, boxes, strict=True):
        around = LabelledObject(thing.keypoints, thing.visible).extent
        assert around == pytest.approx((left, top, right - left, bottom - top))


def test_sleap_io_and_we_read_each_other(tmp_path: Path) -> None:
    sleap_io = pytest.importorskip("sleap_io")
    labels = cow_with_photos(tmp_path)
    formats.write(tmp_path / "ours.json", labels, "coco")
    theirs = sleap_io.load_coco(str(tmp_path / "ours.json"))
    assert theirs.skeletons[0].edge_inds == [(0, 1), (1, 2)]
    np.testing.assert_allclose(theirs.labeled_frames[0].instances[1].numpy(), labels.images[0].objects[1].keypoints)
    sleap_io.save_coco(theirs, str(tmp_path / "theirs.json"))
    (again,) = formats.read(tmp_path / "theirs.json")
    assert_same(again, labels, without="occluded scores score box")


def test_pycocotools_takes_poses_that_python_saved(tmp_path: Path) -> None:
    """Two lines for the user: the photos tell their size, also one that lies on its side."""
    coco = pytest.importorskip("pycocotools.coco")
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90°
    Image.new("L", (60, 40)).save(tmp_path / "a.jpg", exif=exif)
    Image.new("L", (80, 50)).save(tmp_path / "b.png")
    points = np.array([(1.5, 2.5), (np.nan, np.nan), (30, 20)], dtype=np.float32)
    pose = Pose(points, np.array([0.5, 0, 1], np.float32), (0.0, 0.0, 40.0, 60.0), points, ("a", "b", "c"), ((0, 2),))
    photos = [tmp_path / "a.jpg", tmp_path / "b.png"]
    formats.save_poses(tmp_path / "out.json", (each for each in [pose, [pose, pose]]), photos)
    formats.save_poses(tmp_path / "results.json", [pose, [pose, pose]], photos, format="coco-results")
    truth = coco.COCO(str(tmp_path / "out.json"))
    assert [(image["width"], image["height"]) for image in truth.loadImgs([1, 2])] == [(40, 60), (80, 50)]
    (category,) = truth.loadCats(truth.getCatIds())
    assert (category["keypoints"], category["skeleton"]) == (["a", "b", "c"], [[1, 3]])
    annotations = truth.loadAnns(truth.getAnnIds())
    assert [one["image_id"] for one in annotations] == [1, 2, 2]
    assert all(one["keypoints"] == [1.5, 2.5, 2, 0, 0, 0, 30, 20, 2] for one in annotations)
    assert all(one["num_keypoints"] == 2 and one["score"] == 0.75 for one in annotations)
    assert len(truth.loadRes(str(tmp_path / "results.json")).anns) == 3
    with pytest.raises(AnnotationError, match="predictions for 1 images, but 2 file names"):
        formats.save_poses(tmp_path / "out.json", [pose], photos)
    with pytest.raises(ImageError, match=r"gone\.jpg"):
        formats.save_poses(tmp_path / "out.json", [pose], [tmp_path / "gone.jpg"])


def damaged(**changes: Any) -> dict[str, Any]:
    """The small file with a value replaced: "annotations.0.keypoints" is a place."""
    content = small()
    for place, value in changes.items():
        *way, last = place.split("__")
        target: Any = content
        for step in way:
            target = target[int(step) if step.isdigit() else step]
        target[int(last) if last.isdigit() else last] = value
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (damaged(categories=[]), "annotation 1 has the category_id 3"),
        (damaged(categories=[{"id": 3, "name": "cow"}], annotations=[]), "no category has keypoints"),
        (damaged(annotations__0__keypoints=[1, 2]), "annotation 1 has 2 numbers"),
        (damaged(annotations__0__keypoints=[1, 2, 2]), "annotation 1 .*1 keypoints, but"),
        (damaged(annotations__0__keypoints="x"), "annotation 1 has keypoints x"),
        (damaged(annotations__0__bbox=[1, 2, 3]), "annotation 1 has bbox"),
        (damaged(annotations__0__keypoint_scores=[1]), "annotation 1: scores .* are not a number for each of the 3"),
        (damaged(annotations__0__score="good"), "annotation 1 is damaged"),
        (damaged(images__0__width="wide"), "image 7: the size of a/b.jpg is wide × 48"),
        (damaged(images__0__file_name=None), "image 7 has the file_name None"),
        (damaged(categories__0__skeleton=[[0, 1], [1, 3]]), "counted from 0, and edge"),
        (damaged(categories__0__skeleton=[[1, 9]]), r"edge \(1, 9\)"),
        ([], "holds a list"),
    ],
)
def test_damaged_files(tmp_path: Path, content: Any, message: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=message) as caught:
        formats.read(tmp_path / "a.json", "coco")
    assert "a.json" in str(caught.value)
