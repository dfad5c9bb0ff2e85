from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edgecape.evaluation.calibration import Samples, both_ways, collect, fit, fit_balanced, reliability
from edgecape.evaluation.episodes import protocol_episodes
from edgecape.matching.scores import FEATURES

from toy import estimator, lamps, store


def test_observing_counts_every_visible_keypoint(tmp_path: Path):
    dataset = lamps(tmp_path, 6)
    episodes, _ = protocol_episodes(dataset, shots=1, episodes=3)
    found = collect(estimator().torch_runtime.network, dataset, episodes, store())
    pairs = sum(len(episode.queries) for episode in episodes)
    assert found.features.shape == (7 * pairs, len(FEATURES)) and found.right.shape == (7 * pairs,)
    assert 0 < found.right.float().mean() < 1
    fit(found.features, found.right)


def test_honest_probabilities_have_no_error():
    generator = torch.Generator().manual_seed(0)
    probability = torch.rand(50_000, generator=generator)
    right = torch.rand(50_000, generator=generator) < probability
    honest = reliability(probability, right)
    assert honest.error < 0.01 and honest.auroc == pytest.approx(5 / 6, abs=0.01)
    assert sum(number for _, _, number in honest.bins) == 50_000
    assert reliability(torch.ones(50_000), right).error == pytest.approx(0.5, abs=0.01)


def test_auroc_of_a_perfect_and_a_wrong_order():
    right = torch.tensor([True, True, False, False])
    assert reliability(torch.tensor([0.9, 0.8, 0.2, 0.1]), right).auroc == 1
    assert reliability(torch.tensor([0.1, 0.2, 0.8, 0.9]), right).auroc == 0


@pytest.mark.parametrize("right", [True, False])
def test_there_is_no_order_where_all_are_right_or_all_wrong(right: bool):
    found = reliability(torch.tensor([0.9, 0.2]), torch.tensor([right, right]))
    assert found.auroc is None and str(found).endswith("AUROC –")
    nothing = Samples(torch.randn(8, len(FEATURES)), torch.full((8,), right), torch.zeros(8, dtype=torch.long))
    assert fit_balanced(nothing) is None


def test_keypoints_are_seen_in_all_ways_that_there_are_objects_for(tmp_path: Path):
    network = estimator().torch_runtime.network
    for number, pairs in ((6, 5 + 1), (5, 4)):  # six objects: five queries at one shot and one at five
        ways = both_ways(network, lamps(tmp_path / str(number), number), store(), episodes=2)
        assert list(ways) == ["names told", "names not told"]
        assert [len(samples.right) for samples in ways.values()] == [2 * 7 * pairs] * 2
    samples = Samples.together(ways.values())
    assert len(samples.features) == len(samples.right) == len(samples.category) == 2 * 2 * 7 * 4
    assert fit_balanced(samples) == fit(samples.features, samples.right, samples.balance)


def test_equal_scores_tell_nothing():
    """Whatever the order in which right and wrong keypoints come."""
    for right in ([True, True, False], [False, True, True], [True] * 9 + [False] * 40):
        assert reliability(torch.full((len(right),), 0.3), torch.tensor(right)).auroc == 0.5


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40))
def test_auroc_is_the_share_of_pairs_in_order(keypoints: list[tuple[int, bool]]):
    """Few different scores, so that many are equal."""
    good, bad = ([score for score, right in keypoints if right is kind] for kind in (True, False))
    if not good or not bad:
        return
    expected = sum((a > b) + (a == b) / 2 for a in good for b in bad) / (len(good) * len(bad))
    probability, right = torch.tensor([score / 6 for score, _ in keypoints]), torch.tensor([r for _, r in keypoints])
    assert reliability(probability, right).auroc == pytest.approx(expected)
