from __future__ import annotations

import math

import pytest
import torch

from edgecape.matching import voting
from edgecape.matching.alignment import is_mirrored, linear_map
from edgecape.matching.settings import VotingSettings
from edgecape.matching.voting import from_neighbours
from edgecape.model import graph
from edgecape.model.proposals import locate

import graphs


def peaks(points: torch.Tensor, grid: int = 16, height: float = 12.0) -> torch.Tensor:
    """Similarity (1, K, grid, grid) with a smooth peak at each of points (K, 2)."""
    centre = (torch.arange(grid) + 0.5) / grid
    x, y = torch.meshgrid(centre, centre, indexing="xy")
    away = (x - points[:, 0, None, None]) ** 2 + (y - points[:, 1, None, None]) ** 2
    return (height * torch.exp(-away / (2 * 0.05**2)))[None]


def turned(points: torch.Tensor, degrees: float, scale: float, shift: tuple[float, float]) -> torch.Tensor:
    angle = math.radians(degrees)
    rotation = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    return scale * (points - 0.5) @ rotation + 0.5 + torch.tensor(shift)


SETTINGS = VotingSettings()


def vote(similarity, places, usable, A_norm):
    return voting.vote(similarity, places, usable, A_norm, SETTINGS)


def mode(heatmap: torch.Tensor) -> torch.Tensor:
    return voting.mean_shift_mode(heatmap, SETTINGS.near)


PLACES = torch.tensor([[0.3, 0.3], [0.7, 0.3], [0.3, 0.7], [0.7, 0.7], [0.5, 0.4]])
RING = graphs.adjacency([(0, 1), (1, 3), (3, 2), (2, 0), (4, 0), (4, 1)], 5)[None]
USABLE = torch.ones(1, 5, dtype=torch.bool)


@pytest.mark.parametrize(
    ("degrees", "scale", "shift"), [(0, 1, (0, 0)), (30, 0.8, (0.05, -0.1)), (-60, 1.1, (0, 0.05))]
)
def test_the_map_of_a_moved_object_is_found(degrees, scale, shift):
    moved = turned(PLACES, degrees, scale, shift)[None]
    linear, from_centre, to_centre = linear_map(PLACES[None], moved, 100 * torch.ones(1, 5))
    torch.testing.assert_close((PLACES[None] - from_centre) @ linear + to_centre, moved, atol=2e-3, rtol=0)


def test_without_evidence_the_map_is_the_identity():
    linear, _, _ = linear_map(PLACES[None], torch.rand(1, 5, 2), 1e-6 * torch.ones(1, 5))
    torch.testing.assert_close(linear, torch.eye(2)[None], atol=1e-3, rtol=0)


def test_neighbours_outvote_a_stronger_peak_in_the_wrong_place():
    """Keypoint 4 looks a little more like another spot; its neighbours know better. Alone it is deceived."""
    truth = turned(PLACES, 20, 0.9, (0.0, 0.05))
    similarity = peaks(truth)
    similarity[0, 4] += 1.1 * peaks(torch.tensor([[0.9, 0.95]]))[0, 0]
    proposals = locate(similarity)
    assert (proposals.peak[0, 4] - truth[4]).norm() > 0.4
    found = vote(similarity, PLACES[None], USABLE, graph.row_normalise(RING))
    assert (mode(found.heatmap)[0] - truth).norm(dim=-1).max() < 0.03
    assert (found.voted[0] - truth).norm(dim=-1).max() < 0.06


def test_two_keypoints_cannot_claim_one_place():
    """Both resemble one spot most, one of them a little less; without any graph it goes where it fits second best."""
    spots = torch.tensor([[0.3, 0.5], [0.7, 0.5]])
    at_spot = [peaks(spot[None])[0, 0] for spot in spots]
    similarity = torch.stack((at_spot[1] + 0.8 * at_spot[0], at_spot[1] * 1.2 + 0.3 * at_spot[0]))[None]
    proposals = locate(similarity)
    assert (proposals.peak[0] - spots[1]).norm(dim=-1).max() < 0.05
    found = vote(similarity, spots[None], USABLE[:, :2], torch.zeros(1, 2, 2))
    assert (mode(found.heatmap)[0] - spots).norm(dim=-1).max() < 0.05


def test_a_stiff_object_pulls_a_keypoint_harder_than_a_loose_one():
    """Keypoint 4 looks best away from its expected place: with the others where they are expected it follows them, with
    the others all over the place it does not."""
    spot = torch.tensor([0.5, 0.62])
    weak = 0.45 * peaks(spot[None])[0, 0] + 0.3 * peaks(PLACES[4:])[0, 0]
    scattered = PLACES + torch.tensor([[-0.2, 0.1], [0.2, 0.2], [0.3, -0.1], [-0.3, -0.2], [0.0, 0.0]])
    found = []
    for others in (PLACES, scattered):
        similarity = peaks(others)
        similarity[0, 4] = weak
        found.append(vote(similarity, PLACES[None], USABLE, graph.row_normalise(RING)))
    stiff, loose = (mode(one.heatmap)[0, 4] for one in found)
    assert (stiff - PLACES[4]).norm() < 0.06 and (loose - spot).norm() < 0.06
    assert found[0].fit[0, 1] < found[1].fit[0, 1]  # and it knows


def test_a_better_fit_is_less_spread_and_less_distorted():
    stretched = PLACES * torch.tensor([0.4, 1.2])
    near, far = (
        vote(peaks(points), PLACES[None], USABLE, graph.row_normalise(RING)).fit[0] for points in (PLACES, stretched)
    )
    assert near[1] <= far[1] and near[2] < far[2]


@pytest.mark.parametrize("degrees", [0, 40, -100])
def test_a_mirror_is_told_from_a_turn(degrees):
    elsewhere = turned(PLACES, degrees, 0.7, (0.1, 0.0))
    both = torch.stack((elsewhere, elsewhere * torch.tensor([-1.0, 1.0]) + torch.tensor([1.0, 0.0])))
    away = is_mirrored(PLACES.expand(2, -1, -1), both, USABLE.expand(2, -1))
    assert away.tolist() == [False, True]


def test_too_little_to_tell_is_no_mirror():
    upside_down = PLACES[None] * torch.tensor([1.0, -1.0])
    assert is_mirrored(PLACES[None], upside_down, USABLE).all()
    assert not is_mirrored(PLACES[None], upside_down, ~USABLE).any()
    line = torch.tensor([[[0.1, 0.5], [0.5, 0.5], [0.9, 0.5]]])
    assert not is_mirrored(line, line + 0.05, USABLE[:, :3]).any()


def test_who_is_not_connected_has_no_vote():
    found = torch.rand(1, 5, 2, generator=torch.Generator().manual_seed(0))
    confidence = torch.ones(1, 5)
    votes = torch.zeros(1, 5, 5)
    votes[0, 4, 0] = 1
    alone = from_neighbours(PLACES[None], found, confidence, votes, SETTINGS.ridge)
    linear, from_centre, to_centre = linear_map(PLACES[None], found, confidence)
    torch.testing.assert_close(alone[0, 4], found[0, 0] + ((PLACES[4] - PLACES[0]) @ linear[0]))
    overall = (PLACES[None] - from_centre) @ linear + to_centre
    torch.testing.assert_close(alone[0, :4], overall[0, :4])  # nobody votes for them


def test_what_cannot_be_used_is_not_listened_to():
    truth = turned(PLACES, 10, 1.0, (0.0, 0.0))
    usable = torch.tensor([[True, True, True, False, True]])
    A = graph.row_normalise(graph.mask_adjacency(RING, usable))
    one, other = truth.clone(), truth.clone()
    other[3] = torch.tensor([0.05, 0.9])
    first, second = (vote(peaks(points), PLACES[None], usable, A) for points in (one, other))
    torch.testing.assert_close(mode(first.heatmap)[usable], mode(second.heatmap)[usable], atol=1e-4, rtol=0)


def test_only_the_graph_learns_from_what_is_expected():
    similarity = peaks(PLACES).requires_grad_()
    A = graph.row_normalise(RING).clone().requires_grad_()
    vote(similarity, PLACES[None], USABLE, A).voted.sum().backward()
    assert similarity.grad is None
    assert A.grad is not None and A.grad.abs().max() > 0


@pytest.mark.parametrize("K", [1, 2])
def test_few_keypoints_are_fine(K):
    places, A = PLACES[None, :K], graph.row_normalise(graphs.fully_connected(K))[None]
    found = vote(peaks(PLACES[:K]), places, USABLE[:, :K], A)
    assert (mode(found.heatmap) - places).norm(dim=-1).max() < 0.05


# --- from a heatmap to a place ---------------------------------------------------------------------------------


def spots(*given: tuple[int, int, float], grid: int = 16) -> torch.Tensor:
    """Mass (1, 1, grid, grid) in cells (x, y), normalised."""
    mass = torch.zeros(1, 1, grid, grid)
    for x, y, weight in given:
        mass[0, 0, y, x] = weight
    return mass / mass.sum()


def test_the_mode_is_not_the_highest_cell() -> None:
    """Three cells side by side against a single one that is more likely than each of them."""
    place = mode(spots((3, 3, 0.25), (4, 3, 0.25), (3, 4, 0.2), (12, 12, 0.3)))[0, 0]
    assert (place - torch.tensor([3.4, 3.4]) / 16).norm() < 0.5 / 16 + 0.02


@pytest.mark.parametrize(("x", "y"), [(0, 0), (15, 7), (8, 15)])
def test_all_mass_in_one_cell_is_found_at_its_centre(x: int, y: int) -> None:
    torch.testing.assert_close(mode(spots((x, y, 1.0)))[0, 0], (torch.tensor([x, y]) + 0.5) / 16)


def test_the_mode_lies_between_two_equal_cells_and_moves_with_the_picture() -> None:
    mass = spots((5, 6, 0.5), (6, 6, 0.5))
    for moved, x, y in ((mass, 6, 6.5), (mass.roll((2, -3), (-1, -2)), 8, 3.5), (mass.flip(-1), 10, 6.5)):
        torch.testing.assert_close(mode(moved)[0, 0], torch.tensor([x, y]) / 16, atol=1e-3, rtol=0)
