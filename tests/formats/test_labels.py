"""The shape all formats share, and its way to supports and from poses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgecape.errors import AnnotationError
from edgecape.formats import LabelledImage, LabelledObject, LabelSet, from_poses, to_supports
from edgecape.formats.labels import cut, unique_names
from edgecape.types import Pose

from labels_for_tests import cow

POINTS = [[1.0, 2.0], [3.0, 4.0]]


def pose(K: int = 2, names: tuple[str, ...] | None = ("a", "b")) -> Pose:
    points = np.arange(2 * K, dtype=np.float32).reshape(K, 2)
    return Pose(points, np.linspace(0.2, 0.4, K, dtype=np.float32), (0.0, 0.0, 9.0, 9.0), points, names, ((0, 1),))


def test_absent_keypoints_are_zero_and_never_occluded() -> None:
    thing = LabelledObject([[1, 2], [np.nan, np.nan]], [True, False], [False, True], [0.5, np.nan])
    assert thing.keypoints.tolist() == [[1, 2], [0, 0]]
    assert thing.occluded.tolist() == [False, False]
    assert thing.scores is not None
    assert thing.scores.tolist() == [0.5, 0]
    assert thing.codes.tolist() == [2, 0]


def test_codes_are_cocos() -> None:
    assert LabelledObject([[1, 1]] * 3, [1, 1, 0], [0, 1, 0]).codes.tolist() == [2, 1, 0]


def test_visible_is_a_mask_that_can_index() -> None:
    thing = cow().images[0].objects[0]
    assert thing.visible.dtype == bool
    assert len(thing.keypoints[thing.visible]) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keypoints": [[1, 2], [np.nan, 3]]}, "keypoint 1 is at .*mark it as not visible"),
        ({"keypoints": [1, 2, 3]}, "list of .x, y. pairs"),
        ({"visible": [True]}, "visible has 1 values for 2 keypoints"),
        ({"occluded": [True] * 3}, "occluded has 3 values for 2 keypoints"),
        ({"scores": [0.5]}, "scores .0.5. are not a number for each of the 2"),
        ({"scores": [0.5, np.nan]}, "scores must be numbers"),
        ({"box": (0, 0, 0, 5)}, "has no area"),
    ],
)
def test_objects_that_do_not_fit_together(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        LabelledObject(**{"keypoints": POINTS, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": ["a", "a"]}, "two keypoints are named 'a'"),
        ({"names": []}, "no keypoint"),
        ({"names": ["a", "two\nlines"]}, "not one line of text"),
        ({"names": ["a", ""]}, "not one line of text"),
        ({"category": ""}, "not one line of text"),
        ({"skeleton": [(0, 2)]}, "does not fit 2 keypoints"),
        ({"names": ["a", "b", "c"]}, "an object of x.png has 2 keypoints, but 3 are named"),
    ],
)
def test_sets_that_do_not_fit_together(changes: dict[str, Any], message: str) -> None:
    images = [LabelledImage("x.png", None, None, (LabelledObject(POINTS),))]
    with pytest.raises(AnnotationError, match=message):
        LabelSet(**{"names": ["a", "b"], "images": images, **changes})


def test_sizes_of_numpy_become_plain_ones() -> None:
    assert type(LabelledImage("x.png", np.int64(5), np.int32(6), ()).width) is int  # JSON knows no other


@pytest.mark.parametrize("size", [(0, 5), (5, -1), (5.5, 5), ("5", 5), (True, 5)])
def test_sizes_are_whole_pixels(size: tuple[Any, Any]) -> None:
    with pytest.raises(AnnotationError, match=r"the size of x\.png"):
        LabelledImage("x.png", *size, ())


def test_no_edges_and_no_skeleton_are_the_same() -> None:
    assert LabelSet(["a"], []).skeleton is None


def test_extent_is_the_box_or_goes_round_the_visible_keypoints() -> None:
    assert LabelledObject([[5, 6], [1, 9], [100, 100]], [1, 1, 0]).extent == (1, 6, 4, 3)
    assert LabelledObject([[5, 6]], box=(1, 2, 3, 4)).extent == (1, 2, 3, 4)
    assert LabelledObject([[5, 6]], [0]).extent is None


def test_inside_drops_what_is_outside() -> None:
    thing = LabelledObject([[0, 0], [10, 8], [10.5, 3], [-1, 3]], box=(-5, 2, 10, 20)).inside(10, 8)
    assert thing.visible.tolist() == [True, True, False, False]
    assert thing.box == (0, 2, 5, 6)
    assert cut((20, 20, 5, 5), 10, 10) is None


def test_second_names_are_numbered() -> None:
    assert unique_names(["eye", "eye", "eye (2)", "eye"]) == ("eye", "eye (2)", "eye (2) (2)", "eye (3)")


def test_supports_are_the_objects_with_a_visible_keypoint() -> None:
    labels = cow()
    nothing = LabelledObject(np.zeros((3, 2)), [0, 0, 0])
    image = LabelledImage("folder/cow 3.png", None, None, (nothing, labels.images[1].objects[0]))
    supports = to_supports(LabelSet(labels.names, labels.skeleton, "cow", [*labels.images, image]), "photos")
    assert [support.image for support in supports] == [
        Path("photos/cow 1.png"),
        Path("photos/cow 1.png"),
        Path("photos/cow2.png"),
        Path("photos/folder/cow 3.png"),
    ]
    assert supports[0].visible.tolist() == [True, True, False]  # a hidden place is a place
    assert supports[0].skeleton == ((0, 1), (1, 2))
    assert supports[0].names == labels.names
    assert supports[0].box == (5, 10, 40, 50)


def test_supports_are_found_where_the_reader_said() -> None:
    labels = LabelSet(["a"], None, "cow", [LabelledImage("x.png", None, None, (LabelledObject([[1, 2]]),))], "there")
    assert to_supports(labels)[0].image == Path("there/x.png")
    assert to_supports(labels, "elsewhere")[0].image == Path("elsewhere/x.png")


def test_poses_become_labels() -> None:
    labels = from_poses([pose(), [pose(), pose()], []], ["a.png", Path("b") / "c.png", "d.png"], [(4, 5)] * 3, "cow")
    assert [image.file for image in labels.images] == ["a.png", "b/c.png", "d.png"]
    assert [len(image.objects) for image in labels.images] == [1, 2, 0]
    assert (labels.images[0].width, labels.images[0].height) == (4, 5)
    assert labels.names == ("a", "b")
    assert labels.skeleton == ((0, 1),)
    thing = labels.images[0].objects[0]
    assert thing.visible.all()
    assert thing.box == (0, 0, 9, 9)
    assert thing.score == pytest.approx(0.3)
    np.testing.assert_allclose(thing.scores, [0.2, 0.4])


def test_poses_without_names_get_some() -> None:
    assert from_poses([pose(names=None)], ["a.png"]).names == ("kp0", "kp1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([pose()], []), "predictions for 1 images, but 0 file names"),
        (([pose()], ["a.png"], []), "1 file names and 0 sizes"),
        (([[]], ["a.png"]), "no pose"),
        (([pose(2), pose(3)], ["a.png", "b.png"]), "an object of b.png has 3 keypoints"),
    ],
)
def test_poses_that_do_not_fit(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        from_poses(*arguments)
