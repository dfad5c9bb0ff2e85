"""Changed skeletons: what is changed, what is not, and that nothing is computed twice."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from edgecape.errors import SettingsError
from edgecape.evaluation.episodes import protocol_episodes
from edgecape.evaluation.evaluate import evaluate
from edgecape.evaluation.methods import ModelMethod, final, proposals
from edgecape.evaluation.results import Result
from edgecape.experiments.robustness import (
    AS_GIVEN,
    COPY,
    DROPPED,
    FULL,
    NO_EDGES,
    PROPOSALS,
    WRONG,
    Recorder,
    changed,
    changes,
    draw_robustness,
    given_share,
    summary,
    wrong_name,
)
from edgecape.model import graph
from edgecape.model.settings import BackboneSettings

import dots
import graphs
import tiny

DROP_NAMES = ("30 % dropped", "60 % dropped")


def edges(A: torch.Tensor) -> set[tuple[int, int]]:
    assert torch.equal(A, A.T) and not A.diagonal().any()
    return set(graphs.edges_of(A))


def test_variants_by_name() -> None:
    names = [*(wrong_name(n) for n in (0, *WRONG)), *DROP_NAMES, NO_EDGES, FULL]
    assert list(changes()) == names
    assert (wrong_name(0), wrong_name(1), wrong_name(2), len(DROPPED)) == (AS_GIVEN, "1 wrong edge", "2 wrong edges", 2)


@settings(deadline=None, max_examples=40)
@given(K=st.integers(2, 9), seed=st.integers(0, 1000))
def test_a_skeleton_is_changed_among_visible_keypoints_only(K: int, seed: int) -> None:
    one = tiny.episode(K, shots=2, seed=seed)
    prior, places, visible = one.prior[0], one.coordinates[0], one.visible[0].all(0)
    before = prior.clone()
    variants = {name: edges(changed(prior, change, places, visible)) for name, change in changes().items()}
    assert torch.equal(prior, before)
    shown = set(visible.nonzero()[:, 0].tolist())
    skeleton = edges(prior)
    outside = {edge for edge in skeleton if not set(edge) <= shown}
    inside = skeleton - outside
    possible = len(shown) * (len(shown) - 1) // 2
    assert variants[AS_GIVEN] == skeleton
    assert variants[NO_EDGES] == outside
    assert variants[FULL] == outside | {(i, j) for i in shown for j in shown if i < j}
    for fewer, more in zip((0, *WRONG), WRONG, strict=False):
        found = variants[wrong_name(more)]
        assert len(found - skeleton) == min(more, possible - len(inside))
        assert all(set(edge) <= shown for edge in found - skeleton)
        assert variants[wrong_name(fewer)] <= found  # one chance, more and more of it
    some, most = (variants[name] for name in DROP_NAMES)
    assert outside <= most <= some <= skeleton


def test_the_same_supports_get_the_same_wrong_edges() -> None:
    prior, visible, change = torch.zeros(12, 12), torch.ones(12, dtype=torch.bool), changes()[wrong_name(4)]
    places = [torch.rand(1, 12, 2, generator=torch.Generator().manual_seed(seed)) for seed in range(6)]
    found = [edges(changed(prior, change, place, visible)) for place in places]
    assert len(set(map(frozenset, found))) == len(places)
    torch.manual_seed(5)  # what else is random has no say
    assert [edges(changed(prior, change, place + 1e-7, visible)) for place in places] == found


def test_share_of_the_graph_on_the_given_skeleton() -> None:
    given_edges, both = graphs.adjacency([(0, 1)], 3), graphs.adjacency([(0, 1), (1, 2)], 3)
    assert given_share(graph.row_normalise(given_edges), given_edges) == pytest.approx(1)
    assert given_share(graph.row_normalise(both), given_edges) == pytest.approx(1.5 / 3)
    assert math.isnan(given_share(torch.zeros(3, 3), given_edges))
    assert math.isnan(given_share(both, torch.zeros(3, 3)))


# --- through the protocol ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory):
    """Results of all variants on coloured dots, their shares, and the store that gave the features."""
    torch.manual_seed(0)
    data = dots.dots(tmp_path_factory.mktemp("dots"), objects=(6, 5, 5), hide=0.1)
    network = tiny.network(channels=3, backbone=BackboneSettings(image_size=(64, 64)))
    store = dots.store()
    episodes, _ = protocol_episodes(data, shots=1, episodes=4)
    recorder = Recorder(network)
    results = evaluate(data, episodes, recorder.methods(), store)
    return data, network, episodes, store, results, recorder.all_shares()


def test_every_photo_goes_through_the_backbone_once(measured) -> None:
    _, _, episodes, store, *_ = measured
    objects = {index for episode in episodes for index in (*episode.supports, *episode.queries)}
    assert store.backbone.frames == len(objects)


def test_variants_are_the_network_with_another_prior(measured) -> None:
    data, network, episodes, store, results, _ = measured

    def fully_connected(task):
        return final(ModelMethod(network))(task._replace(prior=graphs.fully_connected(len(task.prior))))

    direct = {
        AS_GIVEN: final(ModelMethod(network)),
        PROPOSALS: proposals(ModelMethod(network)),
        FULL: fully_connected,
    }
    for name, expected in evaluate(data, episodes, direct, store).items():
        np.testing.assert_allclose(results[name].distance, expected.distance, atol=1e-6)
    different = [results[name].distance for name in (AS_GIVEN, wrong_name(2), NO_EDGES, FULL, PROPOSALS, COPY)]
    assert min(np.nanmax(np.abs(a - b)) for n, a in enumerate(different) for b in different[:n]) > 1e-5


def test_summary(measured, tmp_path: Path) -> None:
    *_, results, shares = measured
    groups = {"all": [0, 1, 2], "first": [0], "nobody": []}
    found = summary(results, shares, groups)
    assert list(found.values) == list(results) and list(found.differences) == [n for n in results if n != AS_GIVEN]
    means = {name: rows[0].mean["mPCK@5"] for name, rows in found.values.items()}
    for name, rows in found.differences.items():
        assert [row.group for row in rows] == ["all", "first"]
        assert rows[0].mean["mPCK@5"] == pytest.approx(means[name] - means[AS_GIVEN])
        assert rows[0].low["mPCK@5"] <= rows[0].mean["mPCK@5"] <= rows[0].high["mPCK@5"]
    assert list(found.given_share) == list(changes())
    for name, share in shares.items():
        assert share.shape == results[name].category.shape
        assert found.given_share[name][1] == pytest.approx(np.nanmean(share[results[name].category == 0]))
    first, last = found.given_share[AS_GIVEN][0], found.given_share[FULL][0]
    assert first is not None and last is not None and first > last

    draw_robustness(found, list(groups), "dots", tmp_path / "figure.png")
    with Image.open(tmp_path / "figure.png") as picture:
        assert picture.width > 600  # two panels
    assert [path.name for path in tmp_path.iterdir()] == ["figure.png"]


def test_a_variant_without_any_weight_has_no_share(measured) -> None:
    results: dict[str, Result] = measured[4]
    nothing = {name: np.full(len(results[AS_GIVEN].category), np.nan) for name in changes()}
    found = summary(results, nothing, {"all": [0, 1, 2]})
    assert all(share == [None] for share in found.given_share.values())


def test_a_network_without_a_graph_is_refused() -> None:
    with pytest.raises(SettingsError, match="trained without a graph"):
        Recorder(tiny.network(graph="none"))
