"""Training a decoder that reads the similarity again, from episodes of drawn lamps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgecape.errors import SettingsError
from edgecape.matching.settings import MatchingSettings, RereadingSettings
from edgecape.model.proposals import locate
from edgecape.training.decoder import DecoderTrainer, build, decode, graph_of, hide, unsupervised
from edgecape.training.decoder_validation import (
    SKELETONS,
    DecoderValidation,
    bend,
    best_of_peaks,
    by_votes,
    collapsed,
    distances,
    load_parts,
    predictions,
)
from edgecape.training.encoded import EncodedEpisodes, write_training_part
from edgecape.training.sampler import EpisodeSampler, EpisodeSettings
from edgecape.training.settings import DecoderTraining, HidingSettings
from edgecape.weights.store import Stored, load_model

import toy

SETTINGS = DecoderTraining(
    rereading=RereadingSettings(rivals=True, local_heads=1), steps=8, batch=4, warmup=2, save_every=4, validate_every=4,
    learning_rate=3e-3, precision="float32",
)  # fmt: skip


UNVOTED = replace(SETTINGS, voting=False)
PREDICTS: dict[str, Any] = {"graph": "predicted", "bias": "markov", "learns": "both"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    folder = tmp_path_factory.mktemp("base")
    toy.estimator(matching=MatchingSettings(), graph="predicted", bias="off").save_pretrained(folder)
    return load_model(folder)


@pytest.fixture(scope="module")
def folder(base, tmp_path_factory: pytest.TempPathFactory) -> Path:
    dataset = toy.lamps(tmp_path_factory.mktemp("lamps"), 5, ("lamp", "light"))
    sampler = EpisodeSampler(dataset, toy.store(), EpisodeSettings(views=3, self_supervised=0.5, points=(4, 8)))
    folder = tmp_path_factory.mktemp("encoded")
    for part in ("train", "val", "covered"):
        write_training_part(base.network().eval(), sampler, folder / part, 0, 24)
    return folder


@pytest.fixture(scope="module")
def episodes(folder) -> EncodedEpisodes:
    return EncodedEpisodes(folder / "train")


def trained(base: Stored, episodes: EncodedEpisodes, out: Path, start: Any = None, **changes: Any) -> DecoderTrainer:
    out.mkdir(parents=True, exist_ok=True)
    trainer = DecoderTrainer(base, replace(SETTINGS, **changes), out, start)
    trainer.train(episodes)
    return trainer


def weights(trainer: DecoderTrainer) -> dict[str, torch.Tensor]:
    return trainer.network.state_dict()


def test_arms_of_a_seed_start_alike_in_what_they_share(base):
    arms = {
        name: build(base, replace(SETTINGS, **changes)).state_dict()
        for name, changes in {
            "none": {"graph": "none"},
            "fixed": {"graph": "fixed"},
            "untold": {
                "graph": "fixed",
                "rereading": RereadingSettings(places=False, votes=False, rivals=True, local_heads=1),
            },
            "predicted": {"graph": "predicted", "bias": "markov"},
        }.items()
    }
    for name, state in arms.items():
        for key in state.keys() & arms["predicted"].keys():
            assert torch.equal(state[key], arms["predicted"][key]), (name, key)
    assert any(".neighbours." in key for key in arms["fixed"].keys() - arms["none"].keys())
    told = arms["fixed"].keys() - arms["untold"].keys()
    assert told and all(any(part in key for part in ("place_mlp.", "voted.", "heed.")) for key in told)
    other = build(base, replace(SETTINGS, seed=1)).state_dict()
    assert not torch.equal(other["decoder.layers.0.inject.weight"], arms["fixed"]["decoder.layers.0.inject.weight"])


def test_it_learns_and_leaves_the_encoder_alone(base, episodes, tmp_path):
    trainer = trained(base, episodes, tmp_path, steps=60, hiding=HidingSettings(episodes=0.0))
    losses = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    before = DecoderTrainer(base, replace(SETTINGS, hiding=HidingSettings(episodes=0.0)), tmp_path / "other")
    start = np.mean([before.step(episodes) for _ in range(3)])
    assert losses[-1]["layer1"] < 0.9 * start
    for name, value in weights(trainer).items():
        if name in base.head and not name.startswith(("decoder.", "pose_graph.", "mask_token")):
            assert torch.equal(value, base.head[name]), name


def test_a_stopped_run_goes_on_bit_by_bit(base, episodes, tmp_path):
    whole = trained(base, episodes, tmp_path / "whole")
    out = tmp_path / "stopped"
    out.mkdir()
    first = DecoderTrainer(base, SETTINGS, out)
    for _ in range(4):
        first.step(episodes)
    first.save()
    first.step(episodes)  # is lost
    (out / "log.jsonl").write_text('{"step": 4, "layer0": 1.0}\n{"step": 5, "layer0": 1.0}\n')
    second = trained(base, episodes, out)
    assert second.done == 8 and '"step": 5' not in (out / "log.jsonl").read_text()
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(second)[name]), name
    with pytest.raises(SettingsError, match="other settings"):
        DecoderTrainer(base, replace(SETTINGS, seed=5), out)


def test_the_saved_model_is_the_averaged_one(base, episodes, tmp_path):
    trainer = trained(base, episodes, tmp_path)
    stored = load_model(tmp_path / "model")
    assert stored.config.matching is not None and stored.config.matching.rereading == SETTINGS.rereading
    expected = trainer.averaged().state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in stored.network().state_dict().items())


def test_phases_go_on_from_each_other(base, episodes, tmp_path):
    """Base, then the graph alone, then the bias: a phase keeps what it does not learn."""
    one = trained(base, episodes, tmp_path / "base").averaged().state_dict()
    options = {"graph": "predicted", "learns": "graph"}
    two = trained(base, episodes, tmp_path / "graph", start=one, **options)
    state = weights(two)
    for name, value in one.items():
        if name.startswith("decoder."):
            assert torch.equal(state[name], value), name
    graph, batch = two.network.pose_graph, episodes.batch(0, 0, 4)
    assert graph.scale.item() != 1
    both = batch.usable[:, :, None] & batch.usable[:, None] & ~torch.eye(batch.usable.shape[1], dtype=torch.bool)
    assert (graph_of(two.network, batch).weights[both] > 0).all()  # no edge is shut
    last = trained(base, episodes, tmp_path / "bias", start=state, graph="predicted", bias="markov")
    after = weights(last)
    assert all(torch.equal(after[name], value) for name, value in state.items() if name.startswith("pose_graph."))
    assert not torch.equal(after["decoder.layers.0.read.weight"], state["decoder.layers.0.read.weight"])


@pytest.mark.parametrize("changes", [{"residual": "mlp"}, {"residual": "attention"}, {"hops": 2}])
def test_what_an_arm_has_of_its_own_starts_alike_every_time(base, changes):
    usual = build(base, replace(SETTINGS, **PREDICTS)).state_dict()
    first, second = (build(base, replace(SETTINGS, **PREDICTS, **changes)).state_dict() for _ in range(2))
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    shared = {name for name in first.keys() & usual.keys() if first[name].shape == usual[name].shape}
    assert all(torch.equal(first[name], usual[name]) for name in shared)
    assert shared < first.keys()  # it has something of its own


def test_an_auxiliary_gcn_teaches_the_graph_and_stays_behind(base, episodes, tmp_path):
    """Its weights learn, survive a stop, and are no part of the model."""
    options = {**PREDICTS, "graph_loss": "gcn"}
    whole = trained(base, episodes, tmp_path / "whole", **options)
    own = {name: value for name, value in whole.learned.items() if name.startswith("reconstruction.")}
    assert own and any(value.abs().sum() > 0 for name, value in own.items() if "mask_token" in name)
    assert not any("reconstruction" in name for name in load_model(tmp_path / "whole/model").head)
    first = DecoderTrainer(base, replace(SETTINGS, **options), tmp_path / "stopped")
    for _ in range(4):
        first.step(episodes)
    first.save()
    second = trained(base, episodes, tmp_path / "stopped", **options)
    assert all(torch.equal(value, second.learned[name]) for name, value in whole.learned.items())
    plain = trained(base, episodes, tmp_path / "off", **{**options, "graph_loss": "off"})
    assert not torch.equal(weights(plain)["pose_graph.scale"], weights(whole)["pose_graph.scale"])


def test_hidden_keypoints_teach_the_graph_only_if_they_are_to(base, episodes, tmp_path):
    everything = HidingSettings(episodes=1.0, keypoints=(0.5, 0.5))
    batch = episodes.batch(0, 0, 4)
    hidden = hide(batch, everything, np.random.default_rng(0))
    network = trained(base, episodes, tmp_path, **PREDICTS).network  # one that listens
    for keeps, expected in ((lambda graph: graph, True), (lambda graph: unsupervised(graph, hidden), False)):
        network.zero_grad()
        decode(network, batch, hidden, keeps(graph_of(network, batch))).logits.square().mean().backward()
        learned = [p.grad is not None and bool(p.grad.abs().sum() > 0) for p in network.pose_graph.parameters()]
        assert any(learned) is expected


def test_hidden_keypoints(episodes):
    batch = episodes.batch(0, 0, 4)
    rng = np.random.default_rng(0)
    hidden, mistaken, masked, other = hide(batch, HidingSettings(episodes=1.0, keypoints=(0.5, 0.5)), rng)
    assert (hidden.sum(1) == (0.5 * batch.usable.sum(1)).round()).all()
    assert not (hidden & ~batch.usable).any()
    for some in (mistaken, masked):
        assert some.any() and not (some & ~hidden).any()
    itself = torch.arange(hidden.shape[1]).expand_as(other)
    assert torch.equal(hidden, other != itself) and batch.usable.gather(1, other)[hidden].all()


def test_a_hidden_keypoint_says_nothing_of_itself(base, episodes):
    """Whatever its similarity and token are, an untrained decoder has nothing to choose by."""
    network = build(base, UNVOTED).eval()
    batch = episodes.batch(0, 0, 4)
    everything = HidingSettings(episodes=1.0, keypoints=(1.0, 1.0), masked=1.0, mistaken=0.0)
    with torch.no_grad():
        found = decode(network, batch, hide(batch, everything, np.random.default_rng(0)))
    logits = found.logits[0][batch.usable].flatten(1)
    torch.testing.assert_close(logits, logits[:, :1].expand_as(logits))


@torch.no_grad()
def test_a_mistaken_keypoint_looks_like_another(base, episodes):
    network, batch = build(base, UNVOTED).eval(), episodes.batch(0, 0, 4)
    hidden = hide(batch, HidingSettings(1.0, (0.5, 0.5), masked=0.0, mistaken=1.0), np.random.default_rng(0))
    plain, found = decode(network, batch), decode(network, batch, hidden)
    rows = torch.arange(len(plain.logits[0]))[:, None]
    torch.testing.assert_close(found.logits[0], plain.logits[0][rows, hidden.other])


@torch.no_grad()
def test_an_untrained_one_leaves_votes_as_they_are(base, folder):
    part = load_parts(folder / "val")["00000"]
    for settings, expected in ((SETTINGS, by_votes(part)), (UNVOTED, locate(part.similarity.float()).peak)):
        torch.testing.assert_close(predictions(build(base, settings).eval(), part), expected)


def test_validation_measures_skeletons_and_groups(base, folder):
    network = build(base, UNVOTED).eval()
    validate = DecoderValidation(folder, {"new": ["00000"]})
    scores = validate(network)
    assert scores["val"] == scores["val, new"] == validate(None)["val"] and set(scores) == {
        "val", "val, new", "covered", "covered, new",
    }  # fmt: skip
    part = load_parts(folder / "val")["00000"]
    with torch.no_grad():
        for parameter in network.decoder.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    given = distances(network, part)
    for change in SKELETONS.values():
        changed = distances(network, part, change)
        assert np.array_equal(changed, distances(network, part, change), equal_nan=True)
        assert not np.array_equal(changed, given, equal_nan=True)
        assert np.array_equal(np.isnan(changed), np.isnan(given))


def test_the_best_of_more_peaks_is_never_further_off(folder):
    part = load_parts(folder / "val")["00000"]
    one, two, three = (best_of_peaks(part, number) for number in (1, 2, 3))
    assert np.array_equal(one, distances(None, part), equal_nan=True)
    counts = ~np.isnan(one)
    assert (
        (three[counts] <= two[counts]).all()
        and (two[counts] <= one[counts]).all()
        and two[counts].sum() < one[counts].sum()
    )


def test_votes_go_along_the_skeleton(folder):
    part = load_parts(folder / "val")["00000"]
    points = by_votes(part)
    assert points.shape == part.target.shape and ((points >= 0) & (points <= 1)).all()
    bare = by_votes(part._replace(prior=torch.zeros_like(part.prior)))
    assert not torch.equal(points[part.usable], bare[part.usable])


def test_keypoints_are_collapsed_where_two_that_are_apart_share_a_place(folder):
    part = load_parts(folder / "val")["00000"]
    K = part.usable.shape[1]
    true = torch.rand(len(part.usable), K, 2, generator=torch.Generator().manual_seed(0))
    part = part._replace(target=true, weight=torch.ones_like(part.weight))
    part.weight[:, 2] = False
    true[:, :3] = torch.tensor([[0.1, 0.1], [0.9, 0.9], [0.9, 0.1]])
    assert not np.nan_to_num(collapsed(true, part)).any()
    points = true.clone()
    points[:, 1] = points[:, 2] = true[:, 0]
    found = collapsed(points, part)
    assert (found[:, :2] == 1).all() and np.isnan(found[:, 2]).all()


def test_bend_is_what_no_affine_map_explains(folder):
    part = load_parts(folder / "val")["00000"]
    shear = torch.tensor([[1.1, 0.2], [-0.1, 0.9]])
    stiff = part._replace(target=part.places @ shear + 0.05, weight=torch.ones_like(part.weight))
    assert bend(stiff).max() < 0.03  # a ridge draws the map towards the identity
    bent = stiff._replace(target=stiff.target.clone())
    bent.target[:, 0] += 0.3
    assert (bend(bent) > bend(stiff)).all()
    few = stiff._replace(weight=torch.arange(part.weight.shape[1]).expand_as(part.weight) < 3)
    assert np.isnan(bend(few)).all()
