"""PCK, mPCK, AUC, NME, EPE against the reference and their definitions; intervals that can be trusted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edgecape.data.objects import read_coco
from edgecape.evaluation.episodes import pairs, protocol_episodes
from edgecape.evaluation.evaluate import distances
from edgecape.evaluation.metrics import bootstrap_means, pair_metrics, pck

nan = np.nan
many = settings(deadline=None, derandomize=True, max_examples=60)

tables = st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.one_of(st.just(nan), st.floats(0, 2)))
)


@pytest.mark.parametrize("shots", [1, 5])
def test_values_of_the_reference(shared: Path, shots: int) -> None:
    folder = shared / "golden/dataset"
    data = read_coco(folder / "ann.json", folder)
    predicted = np.load(folder / "dataset_golden.npz")[f"eval_preds_{shots}shot"].astype(np.float64)
    episodes, _ = protocol_episodes(data, shots, episodes=4)
    rows, scale = [], []
    for pair, points in zip(pairs(episodes), predicted, strict=True):
        *supports, query = (data.instances[index] for index in pair)
        usable = np.logical_and.reduce([support.visible for support in supports])
        row = distances(points[: len(usable), :2], query, usable)
        rows.append(np.pad(row, (0, 13 - len(row)), constant_values=nan))
        scale.append(max(query.box[2:]))
    found = {name: values.mean() for name, values in pair_metrics(np.stack(rows), np.array(scale)).items()}
    expected = json.loads((folder / f"eval_{shots}shot.json").read_text())
    expected["mPCK@5"] = expected.pop("mPCK")
    expected["mPCK@4"] = np.mean([expected[f"PCK@{threshold}"] for threshold in (0.05, 0.1, 0.15, 0.2)])
    assert found == pytest.approx(expected, abs=1e-6)


def test_definitions_on_a_pair_that_can_be_checked_by_hand() -> None:
    distance = np.array([[0.04, 0.1, 0.24, nan], [nan, nan, nan, nan]])
    metrics = pair_metrics(distance, np.array([50.0, 10.0]))
    assert metrics["PCK@0.05"] == pytest.approx([1 / 3, 0])
    assert metrics["PCK@0.1"] == pytest.approx([1 / 3, 0])  # strictly below
    assert metrics["PCK@0.15"] == pytest.approx([2 / 3, 0])
    assert metrics["PCK@0.25"] == pytest.approx([1, 0])
    assert metrics["mPCK@4"] == pytest.approx([(1 + 1 + 2 + 2) / 12, 0])
    assert metrics["mPCK@5"] == pytest.approx([(1 + 1 + 2 + 2 + 3) / 15, 0])
    assert metrics["AUC"] == pytest.approx([(2 * 1 + 2 * 2 + 15 * 3) / 60, 0])
    assert metrics["NME"] == pytest.approx([0.38 / 3, 0])
    assert metrics["EPE"] == pytest.approx([50 * 0.38 / 3, 0])
    assert next(iter(pair_metrics(distance, np.ones(2), (0.3,)))) == "PCK@0.3"


@many
@given(tables)
def test_perfect_predictions(distance: np.ndarray) -> None:
    perfect = pair_metrics(np.where(np.isnan(distance), nan, 0.0), np.ones(len(distance)))
    any_counted = (~np.isnan(distance)).any(axis=1).astype(float)
    for name, values in perfect.items():
        best = {"AUC": 0.95, "NME": 0.0, "EPE": 0.0}.get(name, 1.0)
        np.testing.assert_allclose(values, best * any_counted)


@many
@given(tables, st.lists(st.floats(0, 2), min_size=2, max_size=6))
def test_pck_grows_with_the_threshold_and_stays_a_share(distance: np.ndarray, thresholds: list[float]) -> None:
    shares = pck(distance, sorted(thresholds))
    assert (np.diff(shares, axis=1) >= 0).all()
    assert ((shares >= 0) & (shares <= 1)).all()


@many
@given(tables, st.randoms(use_true_random=False))
def test_order_of_pairs_and_keypoints_and_padding_do_not_matter(distance: np.ndarray, rng) -> None:
    rows, columns = list(range(distance.shape[0])), list(range(distance.shape[1]))
    rng.shuffle(rows)
    rng.shuffle(columns)
    scale = np.arange(1.0, len(distance) + 1)
    expected = pair_metrics(distance, scale)
    padded = np.pad(distance[rows][:, columns], ((0, 0), (0, 3)), constant_values=nan)
    for name, values in pair_metrics(padded, scale[rows]).items():
        np.testing.assert_allclose(values, expected[name][rows], rtol=1e-12)


def crossed(rng: np.random.Generator, spread: float = 1.0) -> tuple[np.ndarray, ...]:
    """40 episodes of one support and 10 queries among 30 objects, each object being easy or hard in both roles."""
    as_support, as_query = spread * rng.normal(size=30), spread * rng.normal(size=30)
    chosen = np.stack([rng.permutation(30)[:11] for _ in range(40)])
    support, query = np.repeat(chosen[:, 0], 10), chosen[:, 1:].ravel()
    values = as_support[support] + as_query[query] + 0.3 * rng.normal(size=400)
    return values[:, None], np.zeros(400, np.int64), support, query


def test_intervals_are_as_wide_as_other_objects_would_make_them() -> None:
    rng = np.random.default_rng(0)
    worlds = [crossed(rng) for _ in range(150)]
    truth = np.std([values.mean() for values, *_ in worlds])
    widths = [np.std(bootstrap_means(*world, resamples=200)) for world in worlds[:30]]
    assert np.mean(widths) == pytest.approx(truth, rel=0.2)
    pairs_only = np.mean([values.std() / 20 for values, *_ in worlds])  # what resampling pairs would say
    assert pairs_only < truth / 2


def test_resampled_means_per_category() -> None:
    rng = np.random.default_rng(1)
    first, second = crossed(rng), crossed(rng)
    values = np.concatenate((first[0], second[0] + 5))
    category = np.repeat([2, 7], 400)
    support, query = (np.concatenate((first[part], 100 + second[part])) for part in (2, 3))
    means = bootstrap_means(np.hstack((values, np.ones_like(values))), category, support, query, resamples=300)
    assert means.shape == (300, 2, 2)
    np.testing.assert_allclose(means[..., 1], 1)  # the mean of a constant is certain
    np.testing.assert_allclose(means[..., 0].mean(0), [values[:400].mean(), values[400:].mean()], atol=0.15)
    again = bootstrap_means(np.hstack((values, np.ones_like(values))), category, support, query, resamples=300)
    np.testing.assert_array_equal(means, again)


def test_resampling_follows_the_definition() -> None:
    """The fast sums equal counting each pair as often as its support set and its query were drawn."""
    values, category, support, query = crossed(np.random.default_rng(2))
    found = bootstrap_means(values, category, support, query, resamples=5, seed=3)[:, 0, 0]
    rng = np.random.default_rng(3)
    numbers = [np.unique(column, return_inverse=True) for column in (support, query)]
    drawn = [rng.multinomial(len(n), np.full(len(n), 1 / len(n)), 5)[:, index] for n, index in numbers]
    weights = drawn[0] * drawn[1]
    np.testing.assert_allclose(found, (weights * values[:, 0]).sum(1) / weights.sum(1))
