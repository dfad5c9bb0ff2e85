from __future__ import annotations

import numpy as np
import pytest

from edgecape.checks import check_box, check_keypoints
from edgecape.errors import AnnotationError

PHOTO = (640, 480)


def check(*points: tuple[float, float], hidden: int = 0, names: list[str] | None = None) -> None:
    visible = np.arange(len(points)) >= hidden
    check_keypoints(np.array(points, dtype=np.float32), visible, PHOTO, names)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (
            [(600, 10), (10, 500)],
            r"keypoint 1 at \(10, 500\) lies outside the photo of 640 × 480 pixels; correct it",
        ),
        ([(-1, 10), (600, 400)], "keypoint 0 .*correct it, or mark it as not visible"),
        ([(10, 500), (470, 630)], "keypoint 0 .*all would lie inside with x and y exchanged, so give them as .x, y."),
        ([(0.2, 0.4), (0.9, 1.0)], r"all keypoints lie between 0 and 1, the first at \(0.2, 0.4\).*give pixels"),
        ([(0, 0)], "between 0 and 1"),
    ],
)
def test_keypoints_that_cannot_be_meant(points, message):
    with pytest.raises(AnnotationError, match=message):
        check(*points)


def test_keypoints_that_can_be_meant():
    check((0, 0), (640, 480), (-0.5, 3))  # the corners, and the first pixel counted from its centre
    check((9000, -4), (0.5, 0.5), (3, 3), hidden=1)
    check((9000, -4), hidden=1)


def test_a_keypoint_outside_is_called_by_its_name():
    with pytest.raises(AnnotationError, match=r"keypoint 1 \('tail'\)"):
        check((5, 5), (700, 700), names=["head", "tail"])


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ((700, 100, 50, 50), r"box \(700, 100, 50, 50\) lies outside the photo of 640 × 480"),
        ((-60, 100, 50, 50), "lies outside"),
        ((0, 0, 1e6, 1e6), "lies outside"),  # the photo is less than a hundredth of it
        ((0, 0, 1e300, 1e300), "lies outside"),
        ((1e300, 0, 5, 5), "lies outside"),
        ((0.1, 0.1, 0.8, 0.8), "no larger than a pixel"),
        ((400, 100, 600, 300), r"two corners; .*give \(400, 100, 200, 200\)"),
        ((300, 250, 600, 400), "two corners"),
    ],
)
def test_boxes_that_cannot_be_meant(box, message):
    with pytest.raises(AnnotationError, match=message):
        check_box(box, PHOTO)


@pytest.mark.parametrize(
    "box",
    [
        (0, 0, 640, 480),
        (-10, -10, 700, 500),  # detectors overshoot
        (600, 400, 100, 100),  # an object that leaves the photo
        (200, 100, 500, 400),  # a little out, and two corners as well: taken as it stands
        (10, 10, 100, 0.5),
        (-640, -480, 1920, 1440),  # the photo and all round it
    ],
)
def test_boxes_that_can_be_meant(box):
    check_box(box, PHOTO)
