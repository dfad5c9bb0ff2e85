from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from edgecape.data.crops import PLAIN, AugmentSettings, plain_crop
from edgecape.data.dataset import Dataset
from edgecape.errors import DataError, SettingsError
from edgecape.geometry import apply, inverse
from edgecape.matching.alignment import is_mirrored
from edgecape.matching.views import transform
from edgecape.training.sampler import EpisodeSampler, EpisodeSettings, random_graph, with_points_between

from toy import lamps, store


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return lamps(tmp_path_factory.mktemp("lamps"), 5, ("lamp", "light"))


def sampler(dataset: Dataset, **settings: object) -> EpisodeSampler:
    return EpisodeSampler(dataset, store(), EpisodeSettings(**settings))  # type: ignore[arg-type]


def test_an_epoch_is_a_function_of_its_number_and_can_be_entered_anywhere(dataset):
    draw = sampler(dataset, self_supervised=0.5, edge_noise=0.5, subset=0.5)
    order = draw.order(3, 8)
    whole, late = draw.batch(3, order, 0), draw.batch(3, order[5:], 5)
    assert torch.equal(whole.query[5:], late.query)
    K = late.target.shape[1]
    assert torch.equal(whole.target[5:, :K], late.target)
    other = draw.batch(4, draw.order(4, 8), 0)
    assert other.query.shape != whole.query.shape or not torch.equal(other.query, whole.query)


def to_photo(crop, frame_pixels):
    return apply(inverse(transform(crop.view, (112, 112)) @ crop.transform), frame_pixels)


def test_supports_and_query_are_different_objects(dataset):
    draw = sampler(dataset, shots=(3,))
    for position in range(20):
        episode = draw.draw(0, position, position % 2, shots=3)
        photos = [crop.photo for crop in (*episode.supports, episode.query)]
        assert len(set(photos)) == 4


def test_annotated_coordinates_are_the_labels(dataset):
    draw = sampler(dataset, augment=AugmentSettings(strong_probability=1.0))
    by_photo = {instance.image: instance for instance in dataset.instances}
    episode = draw.draw(0, 0, 1)
    label = by_photo[episode.query.photo]
    pixels = to_photo(episode.query, episode.target.astype(np.float64) * 112)
    np.testing.assert_allclose(pixels, label.keypoints, atol=0.05)


def test_self_supervised_points_correspond_exactly(dataset):
    draw = sampler(dataset, self_supervised=1.0, views=4, augment=AugmentSettings(strong_probability=1.0))
    for position in range(10):
        episode = draw.draw(0, position, 0)
        (support,) = episode.supports
        assert support.photo == episode.query.photo
        assert support.transform.tobytes() != episode.query.transform.tobytes()
        back = to_photo(support, episode.coordinates[0].astype(np.float64) * 112)
        there = to_photo(episode.query, episode.target.astype(np.float64) * 112)
        np.testing.assert_allclose(back, there, atol=0.05)
        assert 5 <= len(back) <= 24 and episode.prior.sum() > 0


def test_views_are_limited_so_that_they_can_be_cached(dataset, tmp_path):
    settings = EpisodeSettings(views=2, self_supervised=0.5)
    draw = EpisodeSampler(dataset, store(tmp_path), settings)
    for view in range(2):
        draw.store.get(draw.crops(view))
    computed = draw.store.computed
    assert computed == 2 * len(dataset.instances)
    for epoch in range(3):
        draw.batch(epoch, draw.order(epoch, 16), 0)
    assert draw.store.computed == computed


def test_the_first_view_is_the_crop_that_is_evaluated_and_the_third_its_mirror_image(dataset):
    draw = sampler(dataset, views=3, match_facing=True)
    for instance, *crops in zip(dataset.instances, draw.crops(0), draw.crops(1), draw.crops(2), strict=True):
        first, augmented, third = (crop.key for crop in crops)
        evaluated = plain_crop(instance.image, instance.box, draw.store.size)
        assert first == evaluated.key != augmented
        assert third == evaluated.seen(1).key


def test_cached_and_online_features_give_the_same_batch(dataset, tmp_path):
    settings = EpisodeSettings(views=3, match_facing=True)
    online, cached = (EpisodeSampler(dataset, store(cache), settings) for cache in (None, tmp_path))
    for _ in range(2):  # computed, then read
        for a, b in zip(online.batch(0, online.order(0, 6), 0), cached.batch(0, cached.order(0, 6), 0), strict=True):
            assert torch.equal(a, b)


def test_every_category_is_drawn_as_often_as_the_largest(dataset):
    draw = sampler(dataset)
    assert draw.steps(batch=2) == 5
    assert Counter(draw.order(0, 10).tolist()) == {0: 5, 1: 5}


def test_balance_by_definition_draws_shared_definitions_as_one(tmp_path):
    three = lamps(tmp_path, 3, ("a", "b", "c"))
    shared = replace(three.categories[1], names=three.categories[0].names)
    dataset = Dataset(three.name, (three.categories[0], shared, three.categories[2]), three.instances)
    for balance, alone in (("definition", 1 / 2), ("root", 1 / (1 + math.sqrt(2))), ("category", 1 / 3)):
        drawn = Counter(sampler(dataset, balance=balance).order(0, 3000).tolist())
        assert drawn[2] / 3000 == pytest.approx(alone, abs=0.04)
        assert drawn[0] / 3000 == pytest.approx((1 - alone) / 2, abs=0.04)


def of_groups(folder: Path, groups: tuple[str | None, ...]) -> Dataset:
    data = lamps(folder, 3, tuple("abcd"[: len(groups)]))
    kinds = zip(data.categories, groups, strict=True)
    return Dataset(data.name, tuple(replace(kind, supercategory=group) for kind, group in kinds), data.instances)


def test_a_super_category_has_its_share_whatever_balance_says(tmp_path):
    dataset = of_groups(tmp_path, ("solids", "solids", "animal", None))
    drawn = Counter(sampler(dataset, balance="root", shares={"solids": 0.3}).order(0, 6000).tolist())
    assert [drawn[k] / 6000 for k in range(4)] == pytest.approx([0.15, 0.15, 0.35, 0.35], abs=0.03)
    drawn = Counter(
        sampler(dataset, balance="definition", shares={"solids": 0.1, "animal": 0.9}).order(0, 900).tolist()
    )
    assert drawn[3] == 0 and drawn[2] / 900 == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize(
    ("balance", "shares", "said"),
    [
        ("category", {"solids": 0.3}, "need balance"),
        ("root", {"boats": 0.3}, "no super-category 'boats'"),
        ("root", {"solids": 1.2}, "cannot be had"),
        ("root", {"solids": -0.1}, "cannot be had"),
        ("root", {"solids": 0.3, "animal": 0.3}, "cannot be had"),  # and nobody has the rest
    ],
)
def test_shares_that_cannot_be_had(balance, shares, said, tmp_path):
    with pytest.raises(SettingsError, match=said):
        sampler(of_groups(tmp_path, ("solids", "animal")), balance=balance, shares=shares)


def test_padding_is_unusable_and_weight_needs_query_and_support(dataset):
    draw = sampler(dataset, self_supervised=0.5, subset=1.0)
    batch = draw.batch(0, draw.order(0, 12), 0)
    sizes = [len(draw.draw(0, i, int(c)).target) for i, c in enumerate(draw.order(0, 12))]
    assert batch.target.shape[1] == max(sizes) and min(sizes) < max(sizes)
    for row, K in enumerate(sizes):
        assert not batch.visible[row, K:].any() and not batch.prior[row, K:].any()
    assert not (batch.weight & ~batch.visible).any()


def test_most_objects_and_too_few(dataset):
    draw = sampler(dataset, most_objects=3)
    photos = {draw.draw(0, position, 0).query.photo for position in range(60)}
    assert len(photos) == 3
    with pytest.raises(DataError, match="fewer shots"):
        sampler(dataset, shots=(5,))


def test_edge_noise_changes_some_priors(dataset):
    clean, noisy = sampler(dataset), sampler(dataset, edge_noise=1.0)
    changed = [not torch.equal(clean.draw(0, p, 0).prior, noisy.draw(0, p, 0).prior) for p in range(12)]
    assert sum(changed) >= 10


def test_a_random_graph_is_connected():
    rng = np.random.default_rng(0)
    for K in (1, 2, 5, 24):
        A = random_graph(rng.random((K, 2)), rng)
        reached = torch.linalg.matrix_power(A + torch.eye(K), K) > 0
        assert reached.all() and torch.equal(A, A.T) and not A.diagonal().any()


def test_a_mirrored_view_swaps_left_and_right(dataset):
    """Only with a known symmetry; the mirrored keypoint is where its partner's label lies."""
    assert dataset.categories[0].symmetry == ((0, 1), (5, 6))  # by the names of its keypoints
    unknown = Dataset("lamps", tuple(replace(c, symmetry=()) for c in dataset.categories), dataset.instances)
    by_photo = {instance.image: instance for instance in dataset.instances}
    always = AugmentSettings(flip_probability=1.0)
    plain, mirrored = (sampler(data, augment=always).draw(0, 0, 0) for data in (unknown, dataset))
    assert not plain.query.swapped and mirrored.query.swapped
    label = by_photo[mirrored.query.photo].keypoints
    pixels = to_photo(mirrored.query, mirrored.target.astype(np.float64) * 112)
    np.testing.assert_allclose(pixels, label[[1, 0, 2, 3, 4, 6, 5]], atol=0.05)
    assert (plain.query.view, mirrored.query.view) == (0, 1)


def faced(dataset, **changes):
    return sampler(dataset, match_facing=True, augment=PLAIN, **changes)


def test_supports_face_the_way_of_the_query(dataset):
    """Half of the objects are turned round; in every episode supports and query lie alike all the same."""
    turned = []
    for number, instance in enumerate(dataset.instances):
        if number % 2:
            x, _, w, _ = instance.box
            points = instance.keypoints * (-1, 1) + (2 * x + w, 0)
            instance = replace(instance, keypoints=points.astype(np.float32))
        turned.append(instance)
    mixed = Dataset("mixed", dataset.categories, tuple(turned))
    for views in (0, 3):
        drawn = [faced(mixed, views=views).draw(0, position, 0, shots=2) for position in range(8)]
        mirror_images = 0
        for episode in drawn:
            for support in episode.coordinates:
                both = torch.from_numpy(episode.visible & episode.target_visible)[None]
                places = (torch.from_numpy(x)[None] for x in (support, episode.target))
                assert not is_mirrored(*places, both).any()
            mirror_images += sum(crop.view == 1 for crop in (*episode.supports, episode.query))
        assert mirror_images > 4


def test_a_self_supervised_episode_is_no_mirror(dataset):
    for position in range(6):
        episode = faced(dataset, views=3, self_supervised=1.0).draw(0, position, 0, shots=2)
        assert all(crop.view == 0 for crop in (*episode.supports, episode.query))


def test_only_queries_are_seen_covered(dataset):
    draw = sampler(dataset, views=3, cover=0.3, self_supervised=0.5)
    episodes = [draw.draw(0, position, position % 2) for position in range(60)]
    covered = [bool(episode.query.cover) for episode in episodes]
    assert 5 < sum(covered) < 40
    assert not any(crop.cover for episode in episodes for crop in episode.supports)


def test_at_most_so_many_keypoints(dataset):
    draw, whole = sampler(dataset, most_keypoints=4), sampler(dataset)
    sizes = {len(draw.draw(0, position, 0).target) for position in range(10)}
    assert sizes == {4} and len(whole.draw(0, 0, 0).target) == 7
    kept = {tuple(draw.draw(0, position, 0).prior.sum(0).tolist()) for position in range(10)}
    assert len(kept) > 1  # not always the same ones


def test_points_between_the_ends_of_edges(dataset):
    """The same part of the way in supports and query, seen where both ends are, and linked to both instead of them to
    each other."""
    plain, mixed = sampler(dataset).draw(0, 3, 1), sampler(dataset, between=0.6).draw(0, 3, 1)
    K, more = len(plain.target), len(mixed.target)
    assert more > K and torch.equal(torch.from_numpy(mixed.target[:K]), torch.from_numpy(plain.target))
    assert int(torch.triu(mixed.prior).sum()) == int(torch.triu(plain.prior).sum()) + more - K
    for new in range(K, more):
        i, j = mixed.prior[new].nonzero()[:, 0].tolist()
        assert plain.prior[i, j] == 1 and mixed.prior[i, j] == 0
        for points in (mixed.coordinates[0], mixed.target):
            part = np.dot(points[new] - points[i], points[j] - points[i]) / np.square(points[j] - points[i]).sum()
            np.testing.assert_allclose(points[new], points[i] + part * (points[j] - points[i]), atol=1e-6)
            assert 0.25 <= part <= 0.75
        parts = [
            np.linalg.norm(points[new] - points[i]) / np.linalg.norm(points[j] - points[i])
            for points in (mixed.coordinates[0], mixed.target)
        ]
        assert parts[0] == pytest.approx(parts[1], abs=1e-4)
        assert mixed.visible[new] == (plain.visible[i] and plain.visible[j])


def test_no_edge_no_point_between():
    placed, shown = np.random.default_rng(1).random((2, 4, 2), dtype=np.float32), np.ones((2, 4), dtype=bool)
    found = with_points_between(placed, shown, torch.zeros(4, 4), 1.0, np.random.default_rng(0))
    assert found[0].shape == (2, 4, 2) and found[1].shape == (2, 4) and found[2].shape == (4, 4)
