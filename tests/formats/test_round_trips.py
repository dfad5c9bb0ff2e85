"""What is written is read again, as far as each format can keep it."""

from __future__ import annotations

import importlib.util
import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecape import formats
from edgecape.errors import AnnotationError
from edgecape.formats import LabelSet
from edgecape.io.files import read_json
from edgecape.types import Pose

from labels_for_tests import (
    TOLERANCE,
    assert_same,
    cow,
    few,
    label_sets,
    only_marked,
    ordered_as,
    poses,
    round_trip,
    scored_alike,
    with_boxes,
)


@given(label_sets())
@few
def test_coco(labels: LabelSet) -> None:
    (got,) = round_trip(labels, "coco", "labels.json")
    assert_same(got, with_boxes(labels))


@given(label_sets())
@few
def test_tidy_csv(labels: LabelSet) -> None:
    (got,) = round_trip(labels, "csv", "labels.csv")
    assert_same(got, labels, without="skeleton")


@given(label_sets())
@few
def test_labelme(labels: LabelSet) -> None:
    (got,) = round_trip(labels, "labelme", "labels")
    assert_same(got, only_marked(ordered_as(got, labels)), without="score")


@given(label_sets())
@few
def test_deeplabcut(labels: LabelSet) -> None:
    (got,) = round_trip(labels, "deeplabcut", "labels.csv")
    assert_same(got, only_marked(labels), without="sizes skeleton category occluded score box")


@given(label_sets(sized=True, inside=True, boxed=True))
@few
def test_labelstudio(labels: LabelSet) -> None:
    (got,) = round_trip(labels, "labelstudio", "labels.json")
    assert_same(got, only_marked(labels), without="sizes skeleton occluded")  # a task without regions has no size


@given(label_sets(sized=True, inside=True))
@few
def test_yolo(labels: LabelSet) -> None:
    (got,) = round_trip(labels, "yolo", "dataset", photos="images")
    assert_same(got, with_boxes(ordered_as(got, labels)), without="scores score")


@given(label_sets().map(scored_alike))
@few
def test_sleap(labels: LabelSet) -> None:
    pytest.importorskip("sleap_io")
    (got,) = round_trip(labels, "sleap", "labels.slp")
    assert_same(got, only_marked(labels), without="occluded score box")


@pytest.mark.parametrize("format", ["coco", "csv"])
def test_several_kinds_of_object_in_one_file(format: str, tmp_path) -> None:
    cows = cow()
    cars = LabelSet(
        ["wheel"], None, "car", [formats.LabelledImage("car.png", 9, 9, (formats.LabelledObject([[1, 2]]),))]
    )
    formats.write(tmp_path / "both.x", [cows, cars], format)
    got = formats.read(tmp_path / "both.x", format)
    assert_same(got[0], with_boxes(cows) if format == "coco" else cows, without="skeleton")
    assert_same(got[1], cars, without="skeleton")


@pytest.mark.parametrize("format", ["labelme", "labelstudio", "deeplabcut"])
def test_formats_for_one_kind_of_object_say_so(format: str, tmp_path) -> None:
    with pytest.raises(AnnotationError, match="hold one kind of object, got 2"):
        formats.write(tmp_path / "out", [cow(), cow()], format)
    assert not list(tmp_path.iterdir())


SIZE = (640, 480)
THERE = [
    name
    for name, format in formats.FORMATS.items()
    if format.reader and (format.needs is None or importlib.util.find_spec(format.needs))
]


@given(poses(SIZE), st.lists(st.sampled_from(THERE), min_size=1, max_size=4))
@few
def test_what_was_not_found_is_not_visible_whatever_formats_it_goes_through(
    found: list[Pose], chain: list[str]
) -> None:
    files = [f"{number}.png" for number in range(len(found))]
    labels = formats.from_poses(found, files, [SIZE] * len(files))
    for name in chain:
        (labels,) = round_trip(
            labels, name, f"labels{formats.FORMATS[name].suffix}", "images" if name == "yolo" else None
        )
        images = [formats.LabelledImage(image.file, *SIZE, image.objects) for image in labels.images]
        labels = LabelSet(labels.names, labels.skeleton, labels.category, images)  # some formats lose the size
    assert labels.names == found[0].names
    things = {image.file: image.objects for image in labels.images}
    for file, pose in zip(files, found, strict=True):
        (thing,) = things[file]
        np.testing.assert_array_equal(thing.visible, pose.found)
        np.testing.assert_allclose(thing.keypoints[pose.found], pose.keypoints[pose.found], atol=len(chain) * TOLERANCE)


@given(poses(SIZE))
@few
def test_what_was_not_found_has_no_score_and_no_place_in_results(found: list[Pose]) -> None:
    labels = formats.from_poses(found, [f"{number}.png" for number in range(len(found))])
    with tempfile.TemporaryDirectory() as folder:
        formats.write(f"{folder}/results.json", labels, "coco-results")
        results = read_json(f"{folder}/results.json")
    for result, pose in zip(results, found, strict=True):
        assert all(triple == [0, 0, 0] for triple in np.reshape(result["keypoints"], (-1, 3))[~pose.found].tolist())
        assert result["score"] == pytest.approx(float(pose.scores[pose.found].mean()), abs=1e-5)
