"""Phase reread: from a model of the phases before to one with our decoder, in one call that can be repeated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from edgecape.cli.main import main
from edgecape.matching.settings import MatchingSettings, RereadingSettings, ViewSettings
from edgecape.training.reread import train_decoder
from edgecape.training.sampler import EpisodeSettings
from edgecape.training.settings import DecoderTraining, TrainSettings
from edgecape.training.validation import Validation
from edgecape.weights.store import load_model

import toy

SETTINGS = DecoderTraining(
    graph="predicted",
    bias="markov",
    rereading=RereadingSettings(neighbours=True, share=0.5, local_heads=1),
    episodes=EpisodeSettings(views=3, self_supervised=0.5, points=(4, 8)),
    parts=1,
    learns="both",
    steps=4,
    batch=4,
    warmup=2,
    save_every=2,
    precision="float32",
)


@pytest.fixture(autouse=True)
def few_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgecape.training.reread.PART", 16)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    mirrored = MatchingSettings(views=ViewSettings(mirror=True))
    toy.estimator(matching=mirrored, graph="fixed", bias="off").save_pretrained(tmp_path / "adapt")
    return tmp_path / "adapt"


def test_it_is_used_with_the_views_of_its_base_and_has_scores(base: Path, tmp_path: Path) -> None:
    data, store, out = toy.lamps(tmp_path / "photos", 6, ("lamp", "light")), toy.store(), tmp_path / "run"
    validate = Validation(data, data, store, episodes=1)
    train_decoder(SETTINGS, base, data, store, out, validate)
    config, before = load_model(out / "reread").config, load_model(base).config
    assert config.matching is not None
    assert before.matching is not None
    assert config.matching == replace(before.matching, rereading=SETTINGS.rereading, log_linear_edges=True)
    assert (config.network.graph, config.network.bias) == ("predicted", "markov")
    assert config.calibration is not None
    assert config.training["phase"] == "reread"
    assert config.training["refined_all"] > 0
    load_model(out / "reread").network()  # the weights fit it


def test_stopped_and_run_again_it_ends_as_if_it_had_not_been(base: Path, tmp_path: Path) -> None:
    data, store = toy.lamps(tmp_path / "photos", 6, ("lamp", "light")), toy.store()
    whole = train_decoder(SETTINGS, base, data, store, tmp_path / "whole").head

    class StoppedError(Exception):
        pass

    steps = 0
    from edgecape.training import decoder

    step = decoder.DecoderTrainer.step

    def stops(self, episodes):
        nonlocal steps
        steps += 1
        if steps == 4:
            raise StoppedError
        return step(self, episodes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder.DecoderTrainer, "step", stops)
        with pytest.raises(StoppedError):
            train_decoder(SETTINGS, base, data, store, tmp_path / "parts")
    assert not (tmp_path / "parts/reread").exists()  # there whole, or not at all
    again = train_decoder(SETTINGS, base, data, store, tmp_path / "parts").head
    assert all(torch.equal(again[name], value) for name, value in whole.items())


def test_what_stands_on_nothing_is_refused_before_anything_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--data", "a.json", "--images", "a", "--out", "b"]
    assert main(["train", "small", *files, "--phases", "reread"]) == 2
    assert "give --start, or train phase adapt before it" in capsys.readouterr().err
    assert main(["train", "small", *files, "--phases", "rereading"]) == 2
    assert "the recipe has no phase 'rereading'; it has adapt, reread" in capsys.readouterr().err


def test_it_needs_matching() -> None:
    from edgecape.errors import SettingsError

    with pytest.raises(SettingsError, match="phase 'reread' stands on matching"):
        TrainSettings(decoder=SETTINGS).check()
