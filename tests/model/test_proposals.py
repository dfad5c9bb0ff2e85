"""Where a keypoint is, given how likely each cell is."""

from __future__ import annotations

import pytest
import torch

from edgecape.model.proposals import densest


def spots(*given: tuple[int, int, float], grid: int = 16) -> torch.Tensor:
    """Mass (1, 1, grid, grid) in cells (x, y), normalised."""
    mass = torch.zeros(1, 1, grid, grid)
    for x, y, weight in given:
        mass[0, 0, y, x] = weight
    return mass / mass.sum()


def test_the_densest_place_is_not_the_highest_cell() -> None:
    """Three cells side by side against a single one that is more likely than each of them."""
    place = densest(spots((3, 3, 0.25), (4, 3, 0.25), (3, 4, 0.2), (12, 12, 0.3)))[0, 0]
    assert (place - torch.tensor([3.4, 3.4]) / 16).norm() < 0.5 / 16 + 0.02


@pytest.mark.parametrize(("x", "y"), [(0, 0), (15, 7), (8, 15)])
def test_all_mass_in_one_cell_is_found_at_its_centre(x: int, y: int) -> None:
    torch.testing.assert_close(densest(spots((x, y, 1.0)))[0, 0], (torch.tensor([x, y]) + 0.5) / 16)


def test_the_densest_place_lies_between_two_equal_cells_and_moves_with_the_picture() -> None:
    mass = spots((5, 6, 0.5), (6, 6, 0.5))
    for moved, x, y in ((mass, 6, 6.5), (mass.roll((2, -3), (-1, -2)), 8, 3.5), (mass.flip(-1), 10, 6.5)):
        torch.testing.assert_close(densest(moved)[0, 0], torch.tensor([x, y]) / 16, atol=1e-3, rtol=0)
