"""Experiments with decoders that read the similarity again, on a tiny set: all that the regime offers runs, and an arm
is what its name says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgecape.errors import SettingsError
from edgecape.experiments import bias, mask_ratio, our_stages, predictor, supervision
from edgecape.experiments.arms import BOTH, FIXED, FIXED_BIAS, NONE, PREDICTED, Arm
from edgecape.experiments.backbones import grouped
from edgecape.experiments.catalogue import EXPERIMENTS
from edgecape.experiments.experiment import section_of
from edgecape.experiments.lab import Lab
from edgecape.experiments.options import BUDGETS, Options
from edgecape.experiments.our_stages import decoder_settings
from edgecape.matching.settings import MatchingSettings
from edgecape.training.settings import DecoderTraining
from edgecape.weights.store import load_model

import toy

OFFERED = [name for name, experiment in EXPERIMENTS.items() if "ours" in experiment.regimes]
BUDGET = BUDGETS["smoke"]


@pytest.fixture(scope="module")
def made_here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ours")
    toy.estimator(matching=MatchingSettings(), graph="predicted", bias="off").save_pretrained(folder / "model")
    return folder


@pytest.fixture
def ours(lab: Callable[..., Lab], made_here: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Lab]:
    load = "edgecape.runtime.torch_runtime.load_backbone"
    monkeypatch.setattr(load, lambda settings, state: (toy.ToyBackbone(), "toy"))
    tried = our_stages.TRIED
    narrow = replace(tried, rereading=replace(tried.rereading, local_heads=1), batch=4)
    monkeypatch.setattr(our_stages, "TRIED", narrow)

    def make(**changes: object) -> Lab:
        return lab(regime="ours", model=str(made_here / "model"), out=made_here / "runs", **changes)

    return make


@pytest.mark.parametrize("name", OFFERED)
def test_everything_it_offers_runs(name: str, ours: Callable[..., Lab]) -> None:
    world = ours()
    experiment = EXPERIMENTS[name]
    world.check(experiment.arms(world.options))
    section = section_of(experiment, world, f"edgecape experiment {name}")
    assert (section.tables or section.figures) and f"{BUDGETS['smoke'].decoder_steps} steps" in section.done["budget"]


def test_what_needs_many_trainings_is_offered() -> None:
    assert {"benchmark", "components", "bias", "supervision", "mask-ratio", "predictor"} <= set(OFFERED)


def settings_of(arm: Arm, seed: int = 0) -> DecoderTraining:
    return decoder_settings(arm, BUDGET, seed)


def test_an_arm_is_what_its_name_says() -> None:
    told = {arm.name: settings_of(arm) for arm in (NONE, FIXED, FIXED_BIAS, PREDICTED, BOTH)}
    assert {name: (one.graph, one.bias, one.learns) for name, one in told.items()} == {
        "none": ("none", "off", "decoder"),
        "fixed": ("fixed", "off", "decoder"),
        "fixed + bias": ("fixed", "markov", "decoder"),
        "predicted": ("predicted", "off", "both"),
        "predicted + bias": ("predicted", "markov", "both"),
    }
    assert not any(one.rereading.places or one.voting for one in told.values())  # the paper's question
    assert [(one.bias, one.hops) for one in map(settings_of, bias.ARMS)][:4] == [
        ("off", 4),
        ("shortest_path", 4),
        ("markov", 1),
        ("markov", 2),
    ]
    assert [settings_of(arm).graph_loss for arm in supervision.ARMS] == ["masked", "gcn", "off"]
    offered = predictor.arms(Options((Path("data"),), regime="ours"))
    assert [settings_of(arm).residual for arm in offered] == ["cosine", "mlp", "attention"]
    shares = [settings_of(arm).hiding for arm in mask_ratio.ARMS.values()]
    assert [one.keypoints for one in shares] == [(share, share) for share in mask_ratio.RATIOS]
    assert shares[0].episodes == 0 < shares[1].episodes  # nothing hidden: no episode hides anything
    usual = settings_of(BOTH)
    assert settings_of(bias.MARKOV[bias.USUAL]) == settings_of(supervision.ARMS[0]) == usual  # trained once


def test_what_is_held_out_meets_an_encoder_that_nobody_trained(ours: Callable[..., Lab]) -> None:
    world = ours()
    for name in ("single-category", "super-category"):
        for data in EXPERIMENTS[name].check(world).values():  # type: ignore[attr-defined]
            there = world.on(*data)
            base = load_model(there.source)
            assert base.config.training == {"phase": "untrained"} and there.encoded.dataset is data[0]
    assert world.source == world.options.model
    one, other = (world.on(data, world.measured).source for data in (world.train, world.train.subset([0])))
    assert one != other  # it knows the features of what it is trained on


def test_what_one_encoder_cannot_do_is_refused(ours: Callable[..., Lab]) -> None:
    other_features = next(iter(grouped(ours().options).values()))["fixed"]
    for arm in (other_features, Arm("fmmp", "fmmp"), Arm("pomnet", "pomnet"), Arm("sdpnet", "sdpnet")):
        with pytest.raises(SettingsError, match=f"arm '{arm.name}' is one of the published network"):
            ours().check([arm])
