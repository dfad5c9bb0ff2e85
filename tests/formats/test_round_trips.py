"""What is written is read again, as far as each format can keep it."""

from __future__ import annotations

import pytest
from hypothesis import given

from edgecape import formats
from edgecape.errors import AnnotationError
from edgecape.formats import LabelSet

from labels_for_tests import (
    assert_same,
    cow,
    few,
    label_sets,
    only_marked,
    ordered_as,
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
