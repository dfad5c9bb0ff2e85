from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from edgecape.drawing import (
    best_place,
    draw_graph,
    draw_keypoints,
    draw_poses,
    draw_support,
    graph_edges,
    in_rows,
    palette,
    shared,
    story,
)
from edgecape.examples import lamp
from edgecape.types import Pose, Support

from toy import estimator

GREY = np.full((120, 160, 3), 128, dtype=np.uint8)
POINTS = np.array([(30, 30), (120, 90)], dtype=np.float32)


def change(drawn: np.ndarray, x: int, y: int) -> float:
    return float(np.abs(drawn[y, x].astype(int) - 128).max())


def test_a_keypoint_is_drawn_where_it_is_and_the_picture_is_left_alone():
    drawn = draw_keypoints(GREY, POINTS)
    assert change(drawn, 30, 30) > 60 and change(drawn, 120, 90) > 60 and change(drawn, 80, 20) == 0
    assert (GREY == 128).all()


def test_a_low_score_is_fainter():
    drawn = draw_keypoints(GREY, POINTS, scores=np.array([1.0, 0.0], dtype=np.float32))
    assert change(drawn, 30, 30) > 2 * change(drawn, 120, 90) > 0


def test_edges_follow_their_weight():
    heavy = draw_keypoints(GREY, POINTS, [(0, 1)], edge_weights=[1.0])
    light = draw_keypoints(GREY, POINTS, [(0, 1)], edge_weights=[0.1])
    assert (heavy != GREY).sum() > (light != GREY).sum() > 0


@pytest.mark.parametrize("place", [(-50, 20), (500, 500), (0, 0)])
def test_points_outside_do_no_harm(place):
    draw_keypoints(GREY, np.array([place], dtype=np.float32), names=["outside"])


def test_colours_differ():
    assert len(set(palette(30))) == 30


def test_graph_edges_are_sorted_and_relative():
    weights = np.array([[0, 2.0, 0.5], [2.0, 0, 0], [0.5, 0, 0]], dtype=np.float32)
    edges, strength = graph_edges(weights)
    assert edges == [(0, 2), (0, 1)] and strength == [0.25, 1.0]
    assert graph_edges(np.zeros((3, 3), dtype=np.float32)) == ([], [])


def test_a_story_has_all_its_pictures():
    model, example = estimator(), lamp()
    prompt = model.prompt(example.support)
    poses = model.predict(prompt, list(example.queries))
    picture = story(example.support, prompt, list(zip(example.titles, example.queries, poses, strict=True)))
    assert picture.shape[1] > 4 * 320
    assert draw_support(example.support, names=True).shape == example.support.image.shape
    assert (draw_graph(example.support, prompt) != draw_support(example.support)).any()
    assert draw_poses(example.queries[0], poses[:1]).shape == example.queries[0].shape


def test_pictures_stand_in_rows_of_equal_cells():
    small, large = np.zeros((20, 30, 3), dtype=np.uint8), np.zeros((40, 60, 3), dtype=np.uint8)
    rows = in_rows([("", large), ("", small), ("", large), ("", small), ("", large)], columns=2, gap=10)
    assert rows.shape == (3 * 80, 2 * 70 + 10, 3)
    assert not rows[30:70, 10:70].any() and not rows[40:60, 95:125].any()  # the small one is in the middle of its cell
    assert rows[30:40, 80:140].all() and rows[160 + 30 :, 80:].all()  # and the last cell is empty


def test_a_keypoint_that_is_nowhere_is_left_out_with_its_edges_and_its_name():
    lost = np.array([(30, 30), (np.nan, np.nan), (120, 90)], dtype=np.float32)
    drawn = draw_keypoints(GREY, lost, [(0, 1), (1, 2)], names=["a", "b", "c"])
    np.testing.assert_array_equal(drawn[:20, :20], 128)  # nothing at the origin
    assert change(drawn, 30, 30) > 60 and change(drawn, 120, 90) > 60 and change(drawn, 75, 60) == 0
    assert (draw_keypoints(GREY, np.full((2, 2), np.nan, dtype=np.float32), [(0, 1)]) == GREY).all()
    assert change(draw_keypoints(GREY, lost, [(0, 2)]), 75, 60) > 0


def test_what_the_support_does_not_show_is_left_out():
    support = Support(GREY, [(30, 30), (120, 90), (9, 9)], [(0, 1), (1, 2)], visible=[True, True, False])
    for drawn in (draw_support(support), draw_graph(support, SimpleNamespace(weights=np.ones((3, 3))))):
        assert change(drawn, 30, 30) > 60 and change(drawn, 75, 60) > 0
        np.testing.assert_array_equal(drawn[:15, :15], 128)


def test_a_story_is_told_of_what_was_found():
    model, example = estimator(), lamp()
    prompt = model.prompt(example.support)
    (pose,) = model.predict(prompt, [example.queries[0]])
    pose.keypoints[1], pose.scores[1] = np.nan, 0
    drawn = draw_poses(example.queries[0], [pose], longest=100)
    assert max(drawn.shape) == 100
    assert story(example.support, prompt, [("lamp", example.queries[0], pose)]).shape[1] > 3 * 320


# --- names ---------------------------------------------------------------------------------------------------------


def test_names_keep_off_keypoints_each_other_and_the_border():
    frame, size, radius = (200, 160), (50.0, 12.0), 4
    points = [(190, 80), (60, 80), (75, 80), (100, 3), (100, 157)]
    taken = [(x - 4.0, y - 4.0, x + 4.0, y + 4.0) for x, y in points]
    for point in points:
        place = best_place(point, size, radius, frame, taken)
        assert shared(place, (0, 0, *frame)) == pytest.approx(600)  # all of it is in the picture
        assert not any(shared(place, other) for other in taken)
        taken.append(place)


def test_a_name_stands_to_the_right_where_it_can():
    left, top, right, bottom = best_place((50, 50), (30.0, 10.0), 4, (200, 160), [])
    assert left > 54 and top < 50 < bottom and right == left + 30


@pytest.mark.parametrize("names", [["nose", "tail"], ["näse", "хвост"], ["", "x" * 300], ["鼻", "尾"]])
def test_names_are_written_beside_their_keypoints(names):
    plain, named = draw_keypoints(GREY, POINTS), draw_keypoints(GREY, POINTS, names=names)
    assert named.shape == GREY.shape and (named != plain).any()
    np.testing.assert_array_equal(named[30, 30], plain[30, 30])


def test_poses_are_drawn_with_names_on_demand_and_without_where_they_have_none():
    pose = Pose(POINTS, np.ones(2, np.float32), (0, 0, 160, 120), POINTS, ("nose", "tail"), ((0, 1),))
    nameless = replace(pose, names=None, keypoints=POINTS + 20)
    assert (draw_poses(GREY, [pose, pose], names=True) != draw_poses(GREY, [pose, pose])).any()
    np.testing.assert_array_equal(draw_poses(GREY, [nameless], names=True), draw_poses(GREY, [nameless]))


def test_weak_edges_do_not_darken_the_picture():
    white = np.full((120, 160, 3), 255, dtype=np.uint8)
    weak, strong = (draw_keypoints(white, POINTS, [(0, 1)], edge_weights=[weight]) for weight in (0.1, 1.0))
    between = (slice(50, 70), slice(60, 90))
    assert weak[between].max(axis=2).min() > 240 > 200 > strong[between].max(axis=2).min()  # a colour, not a shade
    assert (weak[between] != 255).any()
