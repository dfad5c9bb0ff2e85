from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from edgecape.drawing import (
    draw_graph,
    draw_keypoints,
    draw_poses,
    draw_support,
    graph_edges,
    palette,
    story,
)
from edgecape.examples import lamp
from edgecape.types import Support

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
    picture = story(example.support, prompt, list(zip(example.queries, poses, strict=True)))
    assert picture.shape[1] > 4 * 320
    assert draw_support(example.support, names=True).shape == example.support.image.shape
    assert (draw_graph(example.support, prompt) != draw_support(example.support)).any()
    assert draw_poses(example.queries[0], poses[:1]).shape == example.queries[0].shape


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
    assert story(example.support, prompt, [(example.queries[0], pose)]).shape[1] > 3 * 320
