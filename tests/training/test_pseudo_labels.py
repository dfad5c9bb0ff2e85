from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from edgecape.data.crops import plain_crop
from edgecape.data.dataset import Dataset, Instance
from edgecape.errors import DataError, SettingsError
from edgecape.matching.network import build_network
from edgecape.matching.settings import MatchingSettings
from edgecape.model.proposals import cell_centres
from edgecape.training.initialise import start_from_matching
from edgecape.training.loop import train
from edgecape.training.pseudo_labels import (
    LabelSettings,
    PseudoLabels,
    dense_match,
    expected,
    face_differently,
    make_labels,
    pairs_of,
)
from edgecape.training.sampler import EpisodeSampler, EpisodeSettings
from edgecape.training.settings import PHASES
from edgecape.weights.store import load_model

from toy import NETWORK, lamps, store, training

SETTINGS = LabelSettings()
EVERYWHERE = LabelSettings(likeness=0.2, near=1.0)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return lamps(tmp_path_factory.mktemp("photos"), 5, ("lamp", "light"))


@pytest.fixture(scope="module")
def labels(data: Dataset) -> PseudoLabels:
    torch.manual_seed(0)
    network = build_network(replace(NETWORK, width=64), MatchingSettings()).eval()
    start_from_matching(network, store().get([plain_crop(o.image, o.box, (112, 112)) for o in data.instances]))
    return make_labels(data, data.by_category, network, store(), EVERYWHERE)


def turned(points: Tensor, angle: float = 0.3, scale: float = 0.8) -> Tensor:
    cos, sin = scale * np.cos(angle), scale * np.sin(angle)
    return (points - 0.5) @ torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float32) + 0.5


def test_guides_that_turned_and_shrank_expect_all_points_to_have_done_so():
    guides = torch.rand(8, 2, generator=torch.Generator().manual_seed(0))
    points = cell_centres(6, 6)
    places, deviation = expected(points, guides, turned(guides), SETTINGS)
    torch.testing.assert_close(places, turned(points), atol=0.04, rtol=0)
    nearest = (turned(points)[:, None] - turned(guides)).norm(dim=-1).amin(dim=1)
    order = nearest.argsort()
    assert deviation[order[0]] < deviation[order[-1]]  # the farther from a guide, the less sure


def test_a_part_that_moved_takes_its_surroundings_along():
    guides = torch.tensor([[0.1, 0.1], [0.1, 0.3], [0.3, 0.2], [0.9, 0.9], [0.9, 0.7], [0.7, 0.8]])
    others = guides.clone()
    others[3:, 0] -= 0.3
    places, _ = expected(torch.tensor([[0.15, 0.2], [0.85, 0.8]]), guides, others, SETTINGS)
    torch.testing.assert_close(places, torch.tensor([[0.15, 0.2], [0.55, 0.8]]), atol=0.06, rtol=0)


def alike(h: int, w: int, partner: Tensor) -> Tensor:
    """Cosines (h, w, h, w) of cells that look like their partners (hw,) and nothing else."""
    return torch.nn.functional.one_hot(partner, h * w).float().view(h, w, h, w)


def test_features_say_where_exactly():
    """Every cell looks like the one to the right of where guides expect it."""
    h = w = 8
    column = torch.arange(h * w) % w
    partner = torch.arange(h * w) + (column < w - 1).long()
    guides = cell_centres(4, 4)
    found = dense_match(alike(h, w, partner), guides, guides, LabelSettings(returns=0.02, spread=(0.1, 0.3)))
    inner = (column > 0) & (column < w - 2)
    torch.testing.assert_close(found.places[inner], cell_centres(h, w)[partner[inner]], atol=0.01, rtol=0)
    assert found.kept[inner].all()
    assert not found.kept[column == w - 2].any()  # the last two columns look alike: the way back leads to one of them


def test_what_looks_like_nothing_there_gets_no_label():
    h = w = 8
    similarity = alike(h, w, torch.arange(h * w))
    similarity[:, :4] = 0.0
    guides = cell_centres(4, 4)
    kept = dense_match(similarity, guides, guides, SETTINGS).kept.view(h, w)
    assert kept[:, 4:].all() and not kept[:, :4].any()


def test_only_what_is_near_a_guide_gets_a_label():
    h = w = 16
    guides = torch.tensor([[0.2, 0.2], [0.2, 0.3], [0.3, 0.2], [0.3, 0.3]])
    kept = dense_match(alike(h, w, torch.arange(h * w)), guides, guides, SETTINGS).kept
    near = (cell_centres(h, w)[:, None] - guides).norm(dim=-1).amin(dim=1) < SETTINGS.near
    assert torch.equal(kept, near)


def test_each_object_is_once_the_first_and_once_the_second_of_a_pair():
    pairs = pairs_of(range(7), 100, (0,))
    assert sorted(a for a, _ in pairs) == sorted(b for _, b in pairs) == list(range(7))
    assert all(a != b for a, b in pairs)
    assert len(pairs_of(range(7), 3, (0,))) == 3 and pairs_of([4], 3, (0,)) == []


def test_labels_of_drawn_lamps_are_right(data: Dataset, labels: PseudoLabels):
    """A label on a rod's end lies on the same rod's end of the other lamp."""
    assert len(labels.pairs) == 10 and len(labels.bounds) == 11 and len(labels.points) > 40
    errors = []
    for pair, (a, b) in enumerate(labels.pairs):
        one, other = data.instances[a], data.instances[b]
        assert one.category == other.category
        for here, there in labels.of(pair):
            near = np.linalg.norm(one.keypoints - here, axis=1)
            if near.min() < 16:
                shift = here - one.keypoints[near.argmin()]
                errors.append(np.linalg.norm(other.keypoints[near.argmin()] + shift - there) / max(other.box[2:]))
    assert len(errors) > 10 and np.median(errors) < 0.08  # cells of the toy backbone are 0.1 of the box wide


def test_few_shared_keypoints_give_no_labels(data: Dataset, labels: PseudoLabels):
    hidden = tuple(replace(o, visible=np.arange(len(o.visible)) < 3) for o in data.instances)
    network = build_network(NETWORK, None).eval()
    none = make_labels(replace_instances(data, hidden), data.by_category, network, store(), EVERYWHERE)
    assert len(none.pairs) == len(labels.pairs) and len(none.points) == 0
    assert none.by_category(data, fewest=1) == {}


def replace_instances(data: Dataset, instances: tuple[Instance, ...]) -> Dataset:
    return Dataset(data.name, data.categories, instances)


def test_facing(data: Dataset):
    one = data.instances[0]
    mirrored = replace(one, keypoints=one.keypoints * np.array((-1, 1), np.float32))
    assert face_differently(one, mirrored) and not face_differently(one, one)


def test_saved_labels_are_the_same(labels: PseudoLabels, tmp_path: Path):
    labels.save(tmp_path / "labels.npz")
    for before, after in zip(labels, PseudoLabels.load(tmp_path / "labels.npz"), strict=True):
        np.testing.assert_array_equal(before, after)
    (tmp_path / "labels.npz").write_bytes(b"half")
    with pytest.raises(DataError, match="made anew"):
        PseudoLabels.load(tmp_path / "labels.npz")


def test_pseudo_labelled_episodes_join_what_labels_join(data: Dataset, labels: PseudoLabels):
    settings = EpisodeSettings(pseudo_labelled=1.0, views=3, match_facing=True)
    draw = EpisodeSampler(data, store(), settings, labels=labels)
    owner = {o.image: o for o in data.instances}
    for position in range(12):
        category = position % 2
        if category not in draw.labelled:
            continue
        episode = draw.draw(0, position, category, shots=2)
        one, other = owner[episode.supports[0].photo], owner[episode.query.photo]
        assert {crop.photo for crop in episode.supports} == {one.image} and one.image != other.image
        (pair,) = (p for p, (a, b) in enumerate(labels.pairs) if (a, b) == (one.index, other.index))
        known = labels.of(pair)
        for shot, crop in enumerate(episode.supports):
            places = np.stack(
                (crop.coordinates(known[:, 0], (112, 112)), episode.query.coordinates(known[:, 1], (112, 112))), 1
            )
            mine = np.stack((episode.coordinates[shot], episode.target), 1)
            assert np.abs(mine[:, None] - places).max(axis=(2, 3)).min(axis=1).max() < 1e-6
        assert 5 <= len(episode.target) <= 24 and episode.prior.sum() > 0
    assert len(draw.labelled) > 0


def test_a_category_without_labels_has_annotated_episodes(data: Dataset, labels: PseudoLabels):
    none = labels._replace(bounds=np.zeros_like(labels.bounds))
    with_none = EpisodeSampler(data, store(), EpisodeSettings(pseudo_labelled=1.0), labels=none)
    annotated = EpisodeSampler(data, store(), EpisodeSettings())
    assert np.array_equal(with_none.draw(0, 0, 0).target, annotated.draw(0, 0, 0).target)


def test_a_phase_makes_its_labels_once_and_a_stopped_run_goes_on_with_them(data: Dataset, tmp_path: Path):
    phase = replace(PHASES["base"], epochs=1, learning_rate=1e-3, warmup=2, pseudo_labelled=0.6)
    settings = training(4, phases=(phase,), initialisation="matching", matching=MatchingSettings(), save_every=2)
    settings = replace(settings, network=replace(NETWORK, width=64), labels=EVERYWHERE)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    train(settings, data, store(), whole)
    made = PseudoLabels.load(whole / "base.labels.npz")
    assert len(made.points) > 40

    class StopError(Exception):
        pass

    import edgecape.training.loop as loop

    def stop(self, *arguments, plain=loop.PhaseTrainer._step):
        if arguments[0] == 3:
            raise StopError
        return plain(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.PhaseTrainer, "_step", stop)
        with pytest.raises(StopError):
            train(settings, data, store(), stopped)
    changed = (stopped / "base.labels.npz").stat().st_mtime_ns
    train(settings, data, store(), stopped)
    assert (stopped / "base.labels.npz").stat().st_mtime_ns == changed
    mine, other = (load_model(folder / "base").head for folder in (stopped, whole))
    assert all(torch.equal(mine[name], other[name]) for name in other)


def test_shares_of_episodes_are_at_most_all():
    phase = replace(PHASES["base"], self_supervised=0.7, pseudo_labelled=0.4)
    with pytest.raises(SettingsError, match="0.7 and 0.4"):
        training(phases=(phase,)).check()
