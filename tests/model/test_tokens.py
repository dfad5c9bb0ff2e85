"""Keypoint maps, pooling, positions and proposals: where things are on the grid."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecape.model.decoder import inverse_sigmoid
from edgecape.model.positions import sine_of_coordinates, sine_of_grid
from edgecape.model.proposals import cell_centres, locate
from edgecape.model.tokens import (
    mean_over_shots,
    pool,
    pooling_from_coordinates,
    pooling_from_maps,
)

import golden

many = settings(deadline=None, derandomize=True, max_examples=50)
coordinates = st.tuples(st.floats(-0.5, 1.5), st.floats(-0.5, 1.5))

# --- maps ------------------------------------------------------------------------------------------------------------


def slow_map(x: float, y: float, height: int, width: int, stride: float) -> torch.Tensor:
    """As the reference draws it, cell by cell; x, y in pixels."""
    centre = (int(x / stride + 0.5), int(y / stride + 0.5))  # int() cuts towards 0
    drawn = torch.zeros(height, width)
    for row in range(height):
        for column in range(width):
            dx, dy = column - centre[0], row - centre[1]
            if max(abs(dx), abs(dy)) <= 3:
                drawn[row, column] = math.exp(-(dx**2 + dy**2) / 2)
    return drawn


@many
@given(point=coordinates, size=st.sampled_from([(224, 224), (112, 168)]), stride=st.sampled_from([3.5, 14.0]))
def test_maps_are_drawn_as_the_reference_does(point, size, stride):
    height, width = (round(side / stride) for side in size)
    point = torch.tensor(point)  # float32 from here on, or the two round differently
    expected = slow_map(*(point * torch.tensor([size[1], size[0]])).tolist(), height, width, stride)
    torch.testing.assert_close(golden.gaussian_maps(point, size, stride), expected, rtol=0, atol=1e-6)


@many
@given(points=st.lists(coordinates, min_size=1, max_size=4), grid=st.sampled_from([(16, 16), (5, 9), (1, 1)]))
def test_pooling_from_coordinates_is_pooling_from_maps(points, grid):
    points = torch.tensor(points)
    from_maps = pooling_from_maps(golden.gaussian_maps(points, (112, 168), 3.5), grid)
    found = pooling_from_coordinates(points, grid, (112, 168), 3.5)
    torch.testing.assert_close(found, from_maps, rtol=0, atol=1e-6)
    inside = ((points > 0.05) & (points < 0.95)).all(-1)
    torch.testing.assert_close(found[inside].sum((-2, -1)), torch.ones(int(inside.sum())))  # an average


@pytest.mark.parametrize(("row", "column"), [(0, 0), (1, 4), (3, 5)])
def test_pooling_looks_where_the_keypoint_is(row, column):
    """On a grid of 4 × 6 cells of a 56 × 84 frame: x goes with columns, y with rows."""
    features = torch.eye(24).reshape(1, 1, 24, 4, 6)  # a channel per cell
    keypoint = torch.tensor([(column + 0.5) / 6, (row + 0.5) / 4]).reshape(1, 1, 1, 2)
    tokens = pool(features, pooling_from_coordinates(keypoint, (4, 6), (56, 84), 3.5))
    assert tokens.shape == (1, 1, 1, 24)
    assert int(tokens.argmax()) == row * 6 + column


def test_a_keypoint_far_outside_pools_nothing():
    weights = pooling_from_coordinates(torch.tensor([[3.0, 0.5], [0.5, -2.0]]), (4, 4), (56, 56), 3.5)
    assert not weights.any()


def test_mean_over_the_shots_that_show_a_keypoint():
    tokens = torch.tensor([[[[1.0], [1.0], [1.0]], [[3.0], [9.0], [9.0]]]])  # (1, 2 shots, 3 keypoints, 1)
    visible = torch.tensor([[[True, True, False], [True, False, False]]])
    assert mean_over_shots(tokens, visible).flatten().tolist() == [2.0, 1.0, 0.0]


# --- positions -------------------------------------------------------------------------------------------------------


def test_sine_of_coordinates():
    """Half of the channels for y, then half for x; sine and cosine take turns; frequencies fall by 10000^(2/half)."""
    x, y = 0.3, 0.8
    expected = []
    for value in (y, x):
        for frequency in (1.0, 10000**0.5):
            angle = value * 2 * math.pi / frequency
            expected += [math.sin(angle), math.cos(angle)]
    assert sine_of_coordinates(torch.tensor([x, y]), 8).tolist() == pytest.approx(expected, abs=1e-6)


def test_cells_are_counted_from_one_row_by_row():
    grid = sine_of_grid(2, 3, 8)
    assert grid.shape == (6, 8)
    last_of_first_row = torch.tensor([3 / 3, 1 / 2])
    torch.testing.assert_close(grid[2], sine_of_coordinates(last_of_first_row, 8), rtol=0, atol=1e-4)


# --- proposals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("row", "column"), [(0, 0), (2, 6), (1, 3)])
def test_a_sharp_peak_is_found_at_its_cell(row, column):
    similarity = torch.zeros(1, 1, 3, 7)
    similarity[0, 0, row, column] = 50.0
    found = locate(similarity)
    expected = torch.tensor([[[(column + 0.5) / 7, (row + 0.5) / 3]]])
    torch.testing.assert_close(found.peak, expected)
    torch.testing.assert_close(found.expected, expected)


@many
@given(seed=st.integers(0, 1000), h=st.integers(1, 6), w=st.integers(1, 6))
def test_proposals_are_expectations(seed, h, w):
    """All cells for the loss; the 3 × 3 window round the best cell for the decoder."""
    similarity = 3 * torch.randn(1, 1, h, w, generator=torch.Generator().manual_seed(seed))
    found = locate(similarity)
    mass = similarity.flatten().softmax(0)
    centres = cell_centres(h, w)
    torch.testing.assert_close(found.expected[0, 0], mass @ centres)
    best = int(mass.argmax())
    near = torch.tensor(
        [max(abs(cell // w - best // w), abs(cell % w - best % w)) <= 1 for cell in range(h * w)], dtype=torch.float32
    )
    local = mass * near
    torch.testing.assert_close(found.peak[0, 0], local @ centres / local.sum())


@many
@given(st.floats(0, 1))
def test_inverse_sigmoid_is_clamped_at_a_thousandth(value):
    found = torch.sigmoid(inverse_sigmoid(torch.tensor(value))).item()
    assert found == pytest.approx(min(max(value, 1e-3), 1 - 1e-3), abs=2e-6)
