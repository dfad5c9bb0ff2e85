"""Costs are those of what `predict` runs."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from edgecape.cli.main import main
from edgecape.evaluation.cost import count_costs, measure_speed, save_plot
from edgecape.io.images import load_image
from edgecape.matching.network import build_network
from edgecape.matching.settings import MatchingSettings
from edgecape.model.backbone import Backbone
from edgecape.model.network import Network
from edgecape.model.settings import NetworkSettings
from edgecape.training.settings import recipe
from edgecape.weights.backbones import backbone_config

import toy


def costs(network: Network) -> dict[str, tuple[int, ...]]:
    settings = network.settings.backbone
    parts = count_costs(network, Backbone(backbone_config(settings.name), settings))
    return {part.name: part[1:] for part in parts}


def test_the_reference_s_sizes():
    parts = costs(Network(NetworkSettings()))
    backbone = parts.pop("backbone")
    assert backbone[0] / 1e6 == pytest.approx(22.06, abs=0.5)  # the position grid is resampled
    assert backbone[1] == backbone[2] == backbone[3] and backbone[1] / 1e9 == pytest.approx(11.5, abs=1.5)
    dead = 2 * (256 * 256 + 256) + 9  # projections that official checkpoints store and never use
    assert (sum(part[0] for part in parts.values()) + dead) / 1e6 == pytest.approx(15.56, abs=0.01)
    assert parts["pose-graph predictor"][0] / 1e6 == pytest.approx(8.2, abs=0.15)
    assert parts["pose-graph predictor"][1:3] == (0, 0) and parts["pose-graph predictor"][3] > 0
    assert all(parts[name][1] > 0 and parts[name][3] == 0 for name in ("encoder", "proposals", "graph decoder"))


def test_our_views_are_counted():
    """At best a query passes the backbone twice and the encoder four times, the fast way both once; a support is seen
    in two sizes, as it is and mirrored."""
    settings = recipe("small")
    ours, plain = costs(build_network(settings.network, settings.matching)), costs(Network(settings.network))
    assert ours["backbone"][1:] == tuple(times * plain["backbone"][1] for times in (1, 2, 4))
    assert ours["encoder"][1:3] == (plain["encoder"][1], 4 * plain["encoder"][1])
    assert ours["graph decoder"][1] == ours["graph decoder"][2] == plain["graph decoder"][1]


def test_a_part_that_is_new_is_counted_too():
    network = Network(NetworkSettings(graph="fixed", bias="off"))
    network.wings = build_network(NetworkSettings(graph="fixed"), None).image_proj  # type: ignore[assignment]
    assert costs(network)["wings"][0] > 0


def test_the_command_prints_them(capsys):
    assert main(["benchmark", "--model"]) == 0
    out = capsys.readouterr().out
    assert "pose-graph" in out and "head" in out
    assert main(["benchmark", "--model", "--json"]) == 0
    parts = {part["name"]: part["parameters"] for part in json.loads(capsys.readouterr().out)["parts"]}
    assert f"{parts['pose-graph predictor'] / 1e6:.2f}" in out


def test_a_median_of_nothing_is_refused(capsys):
    assert main(["benchmark", "--model", "--repeats", "0"]) == 2
    assert "--repeats is 0" in capsys.readouterr().err


def test_all_that_predict_and_prompt_do_is_timed_and_drawn(tmp_path):
    """How long it takes is for benchmarks."""
    runtime = toy.estimator(matching=MatchingSettings()).torch_runtime
    timings = measure_speed(runtime, (3, 5), (2,), (1, 2), repeats=1)
    counts = Counter(timing.what for timing in timings)
    assert counts == {
        "backbone (t_b)": 1,
        "backbone, as it predicts": 1,
        "query, fast": 2,
        "query, best": 2,
        "backbone, each of a batch": 1,
        "query, fast, each of a batch": 1,
        "query, best, each of a batch": 1,
        "query, fast, beside supports": 2,
        "query, best, beside supports": 2,
        "prompt": 2,
        "prompt, one more support": 2,
        "prompt, another edge": 1,
        "prompt, keypoints moved": 1,
    }
    assert all(timing.seconds > 0 and timing.ratio > 0 for timing in timings)
    save_plot(timings, tmp_path / "benchmark.png")
    assert load_image(tmp_path / "benchmark.png").std() > 5
