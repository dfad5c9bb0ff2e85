"""What users hold is checked when it is made."""

from __future__ import annotations

import dataclasses
import json
import sys

import numpy as np
import pytest

from edgecape.errors import AnnotationError, EdgeCapeError
from edgecape.types import Pose, Prompt, Support, as_box

THREE = [(1, 2), (3, 4), (5, 6)]


def test_a_support_holds_validated_values():
    support = Support(
        "cow.jpg",
        keypoints=THREE,
        skeleton=[(1, 0), (0, 1), (2, 1)],
        visible=[1, 0, 2],
        box=[1, 2, 30, 40],
        names=["nose", "tail", 3],
    )
    assert support.image == "cow.jpg"
    assert support.keypoints.dtype == np.float32
    assert support.keypoints.tolist() == [[1, 2], [0, 0], [5, 6]]  # what is not visible is nowhere
    assert support.skeleton == ((0, 1), (1, 2))
    assert support.visible.tolist() == [True, False, True]
    assert support.box == (1.0, 2.0, 30.0, 40.0)
    assert support.names == ("nose", "tail", "3")
    with pytest.raises(dataclasses.FrozenInstanceError):
        support.box = None


def test_only_image_and_keypoints_are_needed():
    support = Support("cow.jpg", np.array(THREE, dtype=np.int64))
    assert support.skeleton is None
    assert support.box is None
    assert support.names is None
    assert support.visible.all()


def test_no_skeleton_and_an_empty_skeleton_are_different():
    assert Support("cow.jpg", THREE, skeleton=None).skeleton is None
    assert Support("cow.jpg", THREE, skeleton=[]).skeleton == ()


def test_edges_may_be_an_array():
    assert Support("cow.jpg", THREE, skeleton=np.array([[2, 0], [0, 1]])).skeleton == ((0, 2), (0, 1))


def test_an_invisible_keypoint_may_be_nowhere():
    support = Support("cow.jpg", [(1, 2), (float("nan"), float("inf"))], visible=[True, False])
    assert support.keypoints.tolist() == [[1, 2], [0, 0]]


def test_the_keypoints_given_are_not_changed():
    given = np.array(THREE, dtype=np.float32)
    Support("cow.jpg", given, visible=[True, False, True])
    assert given.tolist() == [list(map(float, point)) for point in THREE]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keypoints": []}, r"list of \(x, y\) pairs, got an array of shape \(0,\)"),
        ({"keypoints": (1, 2)}, r"shape \(2,\)"),
        ({"keypoints": [(1, 2, 3)]}, r"shape \(1, 3\)"),
        ({"keypoints": [(1, 2), (3,)]}, r"list of \(x, y\) pairs"),
        ({"keypoints": "nose"}, "got 'nose'"),
        ({"keypoints": [("a", "b")]}, r"list of \(x, y\) pairs"),
        ({"keypoints": None}, r"list of \(x, y\) pairs|shape"),
        ({"keypoints": [(1, 2), (3, float("nan")), (4, 5)]}, "keypoint 1 is at .*mark it as not visible"),
        ({"keypoints": [(1, 2), (3, 4), (float("-inf"), 5)]}, "keypoint 2 is at"),
        ({"visible": [True]}, "visible has 1 values for 3 keypoints"),
        ({"visible": [[True, True, True]]}, "one bool per keypoint"),
        ({"visible": True}, "visible is True; give True or False for each keypoint"),
        ({"visible": ["false", "true", "true"]}, "visible is .*'false'.*; give True or False"),
        ({"visible": [1, 0, 7]}, "visible is"),
        ({"visible": [1, 0, float("nan")]}, "visible is"),
        ({"names": "abc"}, "names is 'abc'; give a list with one name per keypoint"),
        ({"names": 5}, "names is 5"),
        ({"names": ["a", "b", None]}, "a keypoint is named None; a name is a text"),
        ({"keypoints": [["1", "2"], ["3", "4"], ["5", "6"]]}, "list of .x, y. pairs"),
        ({"keypoints": [(10**400, 1)] * 3}, "list of .x, y. pairs"),
        ({"keypoints": [(1e300, 1)] * 3}, "keypoint 0 is at .inf"),
        ({"keypoints": [[1j, 2]] * 3}, "list of .x, y. pairs"),
        ({"box": [10**400] * 4}, "finite"),
        ({"skeleton": [(0, 10**5000)]}, "does not fit 3 keypoints"),
        ({"names": ["nose"]}, "1 names for 3 keypoints"),
        ({"names": []}, "0 names for 3 keypoints"),
        ({"skeleton": [(0, 3)]}, r"edge \(0, 3\) does not fit 3 keypoints.*counted from 0"),
        ({"skeleton": [(-1, 2)]}, r"edge \(-1, 2\) does not fit"),
        ({"skeleton": [(1, 1)]}, "connects a keypoint to itself"),
        ({"skeleton": [(0, 1, 2)]}, r"\(0, 1, 2\) is not a pair"),
        ({"skeleton": [0, 1]}, "edge 0 is not a pair"),
        ({"skeleton": [(0.5, 1)]}, r"\(0\.5, 1\) is not a pair of whole"),
        ({"skeleton": ["01"]}, "'01' is not a pair"),
        ({"skeleton": [None]}, "None is not a pair"),
        ({"skeleton": 7}, "skeleton is a list of pairs .* got 7"),
        ({"box": (1, 2, 3)}, r"a box is \(x, y, w, h\)"),
        ({"box": (1, 2, 0, 4)}, "has no area"),
        ({"box": (1, 2, 3, -4)}, "has no area"),
        ({"box": (1, 2, float("nan"), 4)}, "finite"),
        ({"box": "big"}, r"a box is \(x, y, w, h\) with finite numbers, got 'big'"),
        ({"box": [[1, 2, 3, 4]]}, r"a box is"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(AnnotationError, match=message) as caught:
        Support(**{"image": "cow.jpg", "keypoints": THREE, **changes})
    assert isinstance(caught.value, EdgeCapeError)
    assert "\n" not in str(caught.value)


def test_a_box_is_four_floats():
    assert as_box(np.array([1, 2, 3, 4])) == (1.0, 2.0, 3.0, 4.0)
    assert all(type(value) is float for value in as_box((1, 2, 3, 4)))


# --- poses -----------------------------------------------------------------------------------------------------------

NAN = float("nan")


def pose(**changes) -> Pose:
    """The second keypoint was not found."""
    values = {
        "keypoints": np.array([(1.23456, -0.0), (NAN, NAN), (5, 6)], dtype=np.float32),
        "scores": np.array([0.5, 0, 0.75], dtype=np.float32),
        "box": (0.0, 1.0, 30.0, 40.0),
        "proposals": np.array([(1, 2), (NAN, 4), (5, 7)], dtype=np.float32),
        "names": ("nose", "œil", "tail"),
        "skeleton": ((0, 1), (1, 2)),
    }
    return Pose(**{**values, **changes})


def test_what_was_found_and_how_sure_it_is():
    assert pose().found.tolist() == [True, False, True] and pose().score == 0.625
    nowhere = pose(keypoints=np.full((3, 2), np.nan, dtype=np.float32))
    assert not nowhere.found.any() and nowhere.score == 0


def test_a_pose_as_json():
    text = json.dumps(pose().to_dict(), allow_nan=False)
    assert json.loads(text) == {
        "keypoints": [[1.235, 0.0], None, [5.0, 6.0]],
        "scores": [0.5, 0.0, 0.75],
        "box": [0.0, 1.0, 30.0, 40.0],
        "proposals": [[1.0, 2.0], None, [5.0, 7.0]],
        "names": ["nose", "œil", "tail"],
        "skeleton": [[0, 1], [1, 2]],
        "effort": "best",
    }
    back = Pose.from_dict(json.loads(text))
    assert back.to_dict() == pose().to_dict()
    assert back.keypoints.dtype == back.scores.dtype == back.proposals.dtype == np.float32
    assert np.isnan(back.keypoints[1]).all() and (back.names, back.skeleton) == (pose().names, pose().skeleton)
    bare = Pose.from_dict(pose(names=None, skeleton=None).to_dict())
    assert bare.names is None and bare.skeleton is None


def test_a_score_that_is_no_number_does_no_harm():
    odd = pose(scores=np.array([0.5, np.nan, 0.75], dtype=np.float32))
    assert odd.to_dict()["scores"] == [0.5, 0.0, 0.75] and odd.score == 0.625


@pytest.mark.parametrize("change", [{"scores": [1]}, {"keypoints": [[1, 2]]}, {"box": [1]}, {"proposals": "x"}])
def test_values_that_are_no_pose(change):
    with pytest.raises(AnnotationError):
        Pose.from_dict(pose().to_dict() | change)


def test_supervision_takes_a_pose():
    supervision = pytest.importorskip("supervision")
    points = pose().to_supervision()
    assert points.xy.shape == (1, 3, 2) and points.xy[0, 1].tolist() == [0, 0]
    np.testing.assert_allclose(points.keypoint_confidence, [[0.5, 0, 0.75]])
    np.testing.assert_allclose(points.detection_confidence, [0.625])
    drawn = supervision.VertexAnnotator(radius=2).annotate(np.zeros((40, 40, 3), dtype=np.uint8), points)
    assert drawn[6, 5].any() and not drawn[20:, 20:].any()
    both = supervision.KeyPoints.merge([points, pose().to_supervision()])
    np.testing.assert_allclose(both.as_detections().xyxy[0], [1.23456, 0, 5, 6], atol=1e-4)


def test_without_supervision_it_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "supervision", None)
    with pytest.raises(EdgeCapeError, match="pip install supervision"):
        pose().to_supervision()


# --- prompts ---------------------------------------------------------------------------------------------------------


def prompt(**changes) -> Prompt:
    matrix = np.arange(9, dtype=np.float32).reshape(3, 3)
    values = {
        "tokens": np.random.default_rng(0).normal(size=(2, 2, 3, 8)).astype(np.float32),
        "places": np.random.default_rng(1).random((2, 2, 3, 2), dtype=np.float32),
        "usable": np.array([True, True, False]),
        "prior": matrix,
        "weights": matrix + 1,
        "graph": matrix + 2,
        "flip_index": np.array([1, 0, 2]),
        "skeleton": ((0, 1), (1, 2)),
        "names": ("nose", "œil", "tail"),
        "frames": np.random.default_rng(2).integers(0, 256, (1, 2, 4, 4, 3), dtype=np.uint8),
        "coordinates": np.random.default_rng(3).random((1, 2, 3, 2), dtype=np.float32),
        "visible": np.array([[True, True, False], [True, False, False]]),
        "model": "abc123",
    }
    return Prompt(**{**values, **changes})


@pytest.mark.parametrize("changes", [{}, {"skeleton": None, "names": None}, {"skeleton": ()}, {"flip_index": None}])
def test_a_prompt_survives_its_file(changes, tmp_path):
    before = prompt(**changes)
    before.save(tmp_path / "cow.prompt")
    after = Prompt.load(tmp_path / "cow.prompt")
    assert len(after) == 3 and after.shots == 2
    for field in dataclasses.fields(Prompt):
        np.testing.assert_array_equal(getattr(after, field.name), getattr(before, field.name), err_msg=field.name)
    assert after.skeleton == before.skeleton
    assert after.names == before.names


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"places": np.zeros((2, 2, 2, 2), dtype=np.float32)}, "array 'places' is float32 of shape"),
        ({"places": np.full((2, 2, 3, 2), np.nan, dtype=np.float32)}, "not numbers"),
        ({"tokens": np.zeros((2, 2, 3, 8))}, "array 'tokens' is float64"),
        ({"tokens": np.zeros((3, 8), dtype=np.float32)}, "is not a prompt"),
        ({"tokens": np.zeros((0, 2, 3, 8), dtype=np.float32)}, "array 'tokens'"),
        ({"tokens": np.zeros((2, 3, 8), dtype=np.float32)}, "made by an earlier version"),
        ({name: np.zeros((3, 2, 3, n), dtype=np.float32) for name, n in (("tokens", 8), ("places", 2))}, "3 supports"),
        ({"usable": None}, "its arrays are"),
        ({"frames": np.zeros((1, 2, 4, 4, 4), dtype=np.uint8)}, "array 'frames' is uint8 of shape"),
        ({"frames": None}, "made by an earlier version"),
        ({"visible": np.ones((3, 3), dtype=bool)}, "array 'visible'"),
        ({"flip_index": np.array([1, 1, 2])}, "no exchange"),
        ({"flip_index": np.array([1, 0, 3])}, "no exchange"),
        ({"names": ("nose",)}, "1 names for 3"),
    ],
)
def test_a_prompt_whose_parts_do_not_fit(changes, message, tmp_path):
    prompt(**changes).save(tmp_path / "odd")
    with pytest.raises(AnnotationError, match=message):
        Prompt.load(tmp_path / "odd")


@pytest.mark.parametrize(
    ("symmetry", "message"), [([(0, 1), (1, 2)], "keypoint 1 in two pairs"), ([(0, 9)], "does not fit"), (5, "got 5")]
)
def test_a_symmetry_that_is_none(symmetry, message):
    with pytest.raises(AnnotationError, match=message):
        Support("a.jpg", [(1, 2)] * 3, symmetry=symmetry)
    assert Support("a.jpg", [(1, 2)] * 3, symmetry=[(1, 0)]).symmetry == ((0, 1),)


def test_what_is_no_prompt_is_refused(tmp_path):
    from safetensors.numpy import save_file

    (tmp_path / "text").write_text("no prompt")
    save_file({"tokens": np.zeros(3)}, tmp_path / "other")
    for name in ("text", "other"):
        with pytest.raises(AnnotationError, match=f"{name} is not a prompt"):
            Prompt.load(tmp_path / name)
    with pytest.raises(AnnotationError, match="missing does not exist"):
        Prompt.load(tmp_path / "missing")
