"""Pose-graphs against definitions written down the slow way."""

from __future__ import annotations

from collections import deque

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecape.model import graph

import graphs

many = settings(deadline=None, derandomize=True, max_examples=40)


@st.composite
def skeletons(draw, smallest: int = 1, largest: int = 12):
    """K and a list of edges i < j."""
    K = draw(st.integers(smallest, largest))
    pairs = [(i, j) for i in range(K) for j in range(i + 1, K)]
    return K, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []


@many
@given(skeletons())
def test_edges_survive_the_matrix(skeleton):
    K, edges = skeleton
    A = graphs.adjacency(edges, K)
    assert A.shape == (K, K)
    assert torch.equal(A, A.T)
    assert not A.diagonal().any()
    assert graphs.edges_of(A) == sorted(edges)


def test_direction_and_repetition_of_edges_do_not_matter():
    assert torch.equal(graphs.adjacency([(2, 0), (0, 2), (1, 2)], 3), graphs.adjacency([(0, 2), (2, 1)], 3))


@pytest.mark.parametrize("edge", [(0, 3), (3, 0), (-1, 2)])
def test_edges_outside_the_keypoints_are_refused(edge):
    with pytest.raises(IndexError, match=r"numbered from 0"):
        graphs.adjacency([edge], 3)


def test_edges_above_a_threshold():
    A = torch.tensor([[0.0, 0.2, 0.6], [0.2, 0.0, 0.4], [0.6, 0.4, 0.0]])
    assert graphs.edges_of(A, threshold=0.3) == [(0, 2), (1, 2)]


@many
@given(skeletons(), st.randoms(use_true_random=False))
def test_masking_leaves_edges_between_usable_keypoints(skeleton, random):
    K, edges = skeleton
    usable = [random.random() < 0.6 for _ in range(K)]
    masked = graph.mask_adjacency(graphs.adjacency(edges, K), torch.tensor(usable))
    assert graphs.edges_of(masked) == sorted((i, j) for i, j in edges if usable[i] and usable[j])


@many
@given(skeletons())
def test_normalised_rows_sum_to_one_or_zero(skeleton):
    K, edges = skeleton
    A = graphs.adjacency(edges, K)
    sums = graph.row_normalise(A).sum(-1)
    torch.testing.assert_close(sums, (A.sum(-1) > 0).float())


@many
@given(skeletons(), st.integers(0, 6))
def test_hop_powers_are_matrix_powers(skeleton, hops):
    K, edges = skeleton
    A_norm = graph.row_normalise(graphs.adjacency(edges, K)).double()
    powers = graph.hop_powers(A_norm, hops)
    assert powers.shape == (hops + 1, K, K)
    for hop, power in enumerate(powers):
        torch.testing.assert_close(power, torch.linalg.matrix_power(A_norm, hop))


def breadth_first(K: int, edges: list[tuple[int, int]], start: int) -> list[int | None]:
    """Path lengths from one keypoint, None where there is no path."""
    distance: list[int | None] = [None] * K
    distance[start] = 0
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for i, j in [*edges, *((j, i) for i, j in edges)]:
            if i == here and distance[j] is None:
                distance[j] = distance[here] + 1
                queue.append(j)
    return distance


@many
@given(skeletons(), st.integers(1, 8))
def test_hop_distances_are_shortest_paths(skeleton, limit):
    K, edges = skeleton
    found = graph.hop_distances(graphs.adjacency(edges, K), limit)
    for start in range(K):
        paths = [limit + 1 if path is None else min(path, limit + 1) for path in breadth_first(K, edges, start)]
        assert found[start].tolist() == paths


def test_functions_work_on_batches():
    A = torch.stack([graphs.adjacency([(0, 1)], 3), graphs.adjacency([(0, 1), (1, 2)], 3)])
    mask = torch.tensor([[True, True, True], [True, False, True]])
    masked = graph.mask_adjacency(A, mask)
    assert [graphs.edges_of(matrix) for matrix in masked] == [[(0, 1)], []]
    assert graph.hop_powers(graph.row_normalise(masked), 4).shape == (5, 2, 3, 3)
    assert torch.equal(graph.hop_distances(A, 4)[1], graph.hop_distances(A[1], 4))


# --- priors ----------------------------------------------------------------------------------------------------------


def test_priors_without_knowledge():
    assert graphs.edges_of(graphs.fully_connected(3)) == [(0, 1), (0, 2), (1, 2)]
    assert not graphs.fully_connected(3).diagonal().any()
    assert graphs.fully_connected(1).tolist() == [[0.0]]


@many
@given(skeletons(), st.integers(0, 80), st.integers(0, 1000))
def test_wrong_edges_are_added(skeleton, n, seed):
    K, edges = skeleton
    A = graphs.adjacency(edges, K)
    noisy = graph.add_random_edges(A, torch.Generator().manual_seed(seed), n)
    found = graphs.edges_of(noisy)
    assert set(edges) <= set(found)
    assert len(found) == min(len(edges) + n, K * (K - 1) // 2)
    assert torch.equal(noisy, noisy.T)
    assert not noisy.diagonal().any()
    assert torch.equal(noisy, graph.add_random_edges(A, torch.Generator().manual_seed(seed), n))
    assert graphs.edges_of(A) == sorted(edges)  # the input is left as it was


@many
@given(skeletons(), st.floats(0, 1), st.integers(0, 1000))
def test_edges_are_dropped(skeleton, share, seed):
    K, edges = skeleton
    A = graphs.adjacency(edges, K)
    thinned = graph.drop_random_edges(A, torch.Generator().manual_seed(seed), share)
    assert set(graphs.edges_of(thinned)) <= set(edges)
    assert torch.equal(thinned, thinned.T)
    if share in (0, 1):
        assert len(graphs.edges_of(thinned)) == (len(edges) if share == 0 else 0)
    assert graphs.edges_of(A) == sorted(edges)


def test_about_the_given_share_of_edges_is_dropped():
    thinned = graph.drop_random_edges(graphs.fully_connected(60), torch.Generator().manual_seed(0), 0.3)
    assert len(graphs.edges_of(thinned)) == pytest.approx(0.7 * 60 * 59 / 2, rel=0.05)
