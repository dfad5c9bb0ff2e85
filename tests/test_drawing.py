from __future__ import annotations

import numpy as np
import pytest

from edgecape.drawing import draw_graph, draw_keypoints, draw_pose, draw_support, graph_edges, palette, story
from edgecape.examples import lamp

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
    assert draw_pose(example.queries[0], poses[0], names=True).shape == example.queries[0].shape
