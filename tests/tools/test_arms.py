"""tools/arms.py on drawn lamps: all arms are trained on one encoder, measured and compared, also as published."""

from __future__ import annotations

import json
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from edgecape.matching.network import build_network
from edgecape.matching.settings import LoraSettings, MatchingSettings, ViewSettings
from edgecape.model.backbone import Backbone
from edgecape.model.settings import BackboneSettings
from edgecape.training import settings as recipes
from edgecape.weights.config import ModelConfig
from edgecape.weights.store import load_model, save_model

import toy

SCRIPT = Path(__file__).parents[2] / "tools/arms.py"
TOOL = runpy.run_path(str(SCRIPT))
OURS = MatchingSettings(views=ViewSettings(mirror=True, mirror_query=True))
TINY = BackboneSettings(name="tiny", image_size=(56, 56), layers=(3,))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lamps, a model, and a recipe of two steps; returns the arguments that say where they are."""
    small = recipes.small()
    short = replace(small, episodes=replace(small.episodes, steps_per_epoch=2))
    monkeypatch.setitem(recipes.RECIPES, "small", lambda: short)
    monkeypatch.setattr("edgecape.weights.backbones.load_backbone", lambda *_: (toy.ToyBackbone(), "toy"))
    trained = tmp_path / "trained"
    toy.estimator(matching=OURS, graph="predicted", bias="off").save_pretrained(trained)
    lamps = toy.write_lamps(tmp_path / "lamps", 6, ("lamp", "light"))
    files = [word for name in ("--data", "--val", "--test") for word in (name, str(lamps))]
    return [str(trained), *files, "--images", str(lamps.parent), "--epochs", "1", "--episodes", "1", "--shots", "1"]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["arms.py", *arguments])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def use_lora(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another model in this folder, that changes the last block of a DINOv2."""
    torch.manual_seed(0)
    backbone = Backbone(toy.tiny_dinov2(), TINY).eval()
    monkeypatch.setattr("edgecape.weights.backbones.load_backbone", lambda *_: (backbone, "tiny"))
    network = replace(toy.NETWORK, channels=toy.TINY_WIDTH, backbone=TINY, graph="predicted", bias="off")
    matching = replace(OURS, lora=LoraSettings(blocks=1, rank=2))
    head = {name: value + 0.02 for name, value in build_network(network, matching).state_dict().items()}
    save_model(folder, ModelConfig(network, matching, "tiny"), head)


@pytest.mark.parametrize(("as_published", "lora"), [(False, False), (True, False), (True, True)])
def test_arms(as_published: bool, lora: bool, world: list[str], tmp_path: Path, monkeypatch, capsys) -> None:
    out = tmp_path / "arms"
    if lora:
        use_lora(Path(world[0]), monkeypatch)
    run(monkeypatch, *world, "--out", str(out), *(["--as-published"] if as_published else []))
    table = json.loads((out / "arms-0.json").read_text())
    wanted = {*TOOL["ARMS"], *(f"{one} − {other}" for one, other in TOOL["PAIRS"])}
    assert set(table) == {"val, 1-shot", "test, 1-shot"}
    for rows in table.values():
        assert set(rows) == wanted
        for name, row in rows.items():
            mean, low, high = row["all"]
            assert low <= mean + 1e-6 and mean <= high + 1e-6, name
    assert "predicted + bias − none" in capsys.readouterr().out

    trained = load_model(world[0]).head
    for name, arm in TOOL["ARMS"].items():
        folder = name.replace(" + ", "_")
        stored = load_model(out / f"{folder}-0" / folder)
        assert (stored.config.network.graph, stored.config.network.bias) == (arm["graph"], arm["bias"])
        matching = stored.config.matching
        assert matching is not None
        assert matching.centre and matching.layout and matching.direct_cosine
        assert (matching.voting.rounds > 0, matching.views.mirror) == (not as_published, not as_published)
        decoder = [part for part in stored.head if part.startswith("decoder.") and part in trained]
        assert not all(torch.equal(stored.head[part], trained[part]) for part in decoder)
        for part, value in stored.head.items():
            if part.startswith(TOOL["SHARED"]):
                assert torch.equal(value, trained[part]), part


def test_all_arms_start_from_the_same_decoder(world: list[str]) -> None:
    stored = load_model(world[0])
    starts = []
    for name in TOOL["ARMS"]:
        settings = TOOL["arm_settings"](name, stored.config, 1, (1,), True, 0)
        settings.check()
        starts.append(TOOL["fresh_decoder"](settings, stored.head))
    common = set.intersection(*map(set, starts))
    assert any(name.startswith("decoder.") for name in common)
    for name in common:
        assert all(torch.equal(start[name], starts[0][name]) for start in starts), name


def test_a_model_without_a_graph_is_refused(world: list[str], tmp_path: Path, monkeypatch, capsys) -> None:
    toy.estimator(matching=OURS, graph="fixed", bias="off").save_pretrained(world[0])
    with pytest.raises(SystemExit):
        run(monkeypatch, *world, "--out", str(tmp_path / "arms"))
    assert "predicts no graph" in capsys.readouterr().err
