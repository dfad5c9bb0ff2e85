"""Changed skeletons: what is changed, and what is not."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecape.experiments.priors import (
    AS_GIVEN,
    DROPPED,
    FULL,
    SELF_LOOPS,
    WRONG,
    changed,
    changes,
    dropped_name,
    wrong_name,
)

import graphs
import tiny


def edges(A: torch.Tensor) -> set[tuple[int, int]]:
    assert torch.equal(A, A.T) and not A.diagonal().any()
    return set(graphs.edges_of(A))


def test_by_name() -> None:
    names = [*(wrong_name(n) for n in (0, *WRONG)), *(dropped_name(share) for share in DROPPED), SELF_LOOPS, FULL]
    assert list(changes()) == names
    assert (wrong_name(0), wrong_name(1), dropped_name(0.3)) == (AS_GIVEN, "1 wrong edge", "30 % dropped")


@settings(deadline=None, max_examples=40)
@given(K=st.integers(2, 9), seed=st.integers(0, 1000))
def test_a_skeleton_is_changed_among_visible_keypoints_only(K: int, seed: int) -> None:
    one = tiny.episode(K, shots=2, seed=seed)
    prior, places, visible = one.prior[0], one.coordinates[0], one.visible[0].all(0)
    before = prior.clone()
    told = {name: changed(prior, change, places, visible) for name, change in changes().items()}
    assert torch.equal(prior, before)
    shown = set(visible.nonzero()[:, 0].tolist())
    skeleton = edges(prior)
    outside = {edge for edge in skeleton if not set(edge) <= shown}
    assert set(told[SELF_LOOPS].diagonal().nonzero()[:, 0].tolist()) == shown
    variants = {name: edges(A) for name, A in told.items() if name != SELF_LOOPS}
    assert variants[AS_GIVEN] == skeleton
    assert variants[FULL] == outside | {(i, j) for i in shown for j in shown if i < j}
    possible = len(shown) * (len(shown) - 1) // 2
    for fewer, more in zip((0, *WRONG), WRONG, strict=False):
        found = variants[wrong_name(more)]
        assert len(found - skeleton) == min(more, possible - len(skeleton - outside))
        assert all(set(edge) <= shown for edge in found - skeleton)
        assert variants[wrong_name(fewer)] <= found  # one chance, more and more of it
    some, most = (variants[dropped_name(share)] for share in DROPPED)
    assert outside <= most <= some <= skeleton


def test_the_same_supports_get_the_same_wrong_edges() -> None:
    prior, visible, change = torch.zeros(12, 12), torch.ones(12, dtype=torch.bool), changes()[wrong_name(4)]
    places = [torch.rand(1, 12, 2, generator=torch.Generator().manual_seed(seed)) for seed in range(6)]
    found = [edges(changed(prior, change, place, visible)) for place in places]
    assert len(set(map(frozenset, found))) == len(places)
    torch.manual_seed(5)  # what else is random has no say
    assert [edges(changed(prior, change, place + 1e-7, visible)) for place in places] == found


@pytest.mark.parametrize("name", [SELF_LOOPS, FULL])
def test_no_prior_knows_nothing_of_the_skeleton(name: str) -> None:
    visible, places = torch.ones(6, dtype=torch.bool), torch.rand(1, 6, 2)
    one, other = (changed(A, changes()[name], places, visible) for A in (torch.zeros(6, 6), tiny.episode().prior[0]))
    assert torch.equal(one, other)
