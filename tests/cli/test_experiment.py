"""edgecape experiment from the command line to its files."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgecape.cli.main import main
from edgecape.data.objects import read_coco
from edgecape.evaluation.episodes import protocol_episodes
from edgecape.evaluation.evaluate import evaluate
from edgecape.evaluation.methods import copy_support
from edgecape.evaluation.results import Result, difference

import toy


def run(*arguments: str | Path | int) -> int:
    return main(["experiment", *map(str, arguments)])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lamps and lights to measure on; beside them a training file that has lamps only."""
    folder = tmp_path_factory.mktemp("lamps")
    measured = toy.write_lamps(folder, 6, ("lamp", "light"))
    content = json.loads(measured.read_text())
    content["categories"] = content["categories"][:1]
    content["annotations"] = [one for one in content["annotations"] if one["category_id"] == 1]
    (folder / "train.txt").write_text(json.dumps(content))
    return measured


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two results on the same pairs."""
    folder = tmp_path_factory.mktemp("results")
    dataset = read_coco(data, data.parent)
    episodes, _ = protocol_episodes(dataset, shots=1, episodes=2)
    methods = {"copy_support": copy_support, "corner": lambda task: 0 * copy_support(task)}
    for name, result in evaluate(dataset, episodes, methods, toy.store()).items():
        result.save(folder / f"{name}.npz")
    return folder


# --- experiments ---------------------------------------------------------------------------------------------


@pytest.fixture
def world(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | Path]:
    """A folder of data with train and val, and a model that is told less; returns the arguments for both."""
    for split in ("train", "val"):
        (tmp_path / "data" / "annotations").mkdir(parents=True, exist_ok=True)
        shutil.copy(data, tmp_path / "data" / "annotations" / f"{split}.json")
    shutil.copytree(data.parent, tmp_path / "data" / "images")
    toy.estimator(bias="off").save_pretrained(tmp_path / "model")
    monkeypatch.setattr("edgecape.weights.backbones.load_backbone", lambda *_: (toy.ToyBackbone(), "toy"))
    monkeypatch.setattr("edgecape.runtime.torch_runtime.load_backbone", lambda *_: (toy.ToyBackbone(), "toy"))
    monkeypatch.setattr("edgecape.experiments.lab.load_backbone", lambda *_: (toy.ToyBackbone(), "toy"))
    monkeypatch.setattr("edgecape.experiments.lab.baselines", lambda backbone: {"copy support": copy_support})
    sizes = ("--regime", "told", "--budget", "smoke", "--model", tmp_path / "model", "--out", tmp_path / "out")
    return [tmp_path / "data", *sizes]


def test_one_experiment(world: list[str | Path], tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run("noisy-prior", *world) == 0
    text = capsys.readouterr().out
    assert "noisy-prior: What do wrong edges" in text and "16 wrong edges" in text and "report: " in text
    table = text[text.index("as given") : text.index("60 % dropped")].splitlines()
    assert len(table) >= 7 and all(len(line) <= 80 for line in table)
    report = (tmp_path / "out/report.html").read_text()
    assert "mPCK against wrong edges" in report and "edgecape experiment noisy-prior data --regime told" in report
    assert str(tmp_path / "data") not in report
    assert run("noisy-prior", *world, "--json") == 0
    (section,) = json.loads(capsys.readouterr().out)
    assert section["name"] == "noisy-prior" and section["figures"][0]["data"]["x"] == [0, 1, 2, 4, 8, 16]


def test_an_interrupted_run_goes_on_and_gives_the_same_report(
    world: list[str | Path], tmp_path: Path, capsys, monkeypatch
) -> None:
    from edgecape.experiments import experiment as module
    from edgecape.experiments.catalogue import EXPERIMENTS

    slow = [name for name in EXPERIMENTS if name not in ("benchmark", "noisy-prior", "graphs")]
    monkeypatch.setattr("edgecape.experiments.catalogue.EXPERIMENTS", {**EXPERIMENTS})
    chosen = {name: one for name, one in EXPERIMENTS.items() if name not in slow}
    monkeypatch.setattr("edgecape.cli.experiment.NAMES", dict.fromkeys(chosen, ""))
    whole = [*world[:-1], tmp_path / "whole"]
    assert run("all", *whole) == 0
    done: list[str] = []
    usual = module.section_of

    def killed(one, lab, command):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(one.name)
        return usual(one, lab, command)

    with monkeypatch.context() as patch:
        patch.setattr(module, "section_of", killed)
        assert run("all", *world) == 130
    before = {
        path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.suffix in (".npz", ".json")
    }
    assert len([path for path in before if path.parent.name == "sections"]) == 2
    assert run("all", *world) == 0
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())  # nothing was done twice
    assert (tmp_path / "out/report.html").read_text() == (tmp_path / "whole/report.html").read_text()
    capsys.readouterr()
    joined = tmp_path / "joined.html"
    assert run("report", tmp_path / "out", "--report", joined, "--title", "All of it") == 0
    assert "report of 3 sections" in capsys.readouterr().out and "All of it" in joined.read_text()


def test_bad_input_of_experiments(world: list[str | Path], tmp_path: Path, capsys) -> None:
    data, *rest = world
    for arguments, message in (
        (("bias", *world), "experiment bias cannot be done in the regime 'told'; take published"),
        (("graphs", tmp_path / "nowhere", *rest), "does not exist"),
        (("graphs", *world, "--split", "test"), "none fits"),
        (("benchmark", *world, "--shots", "1", "6"), "has the 7 objects"),
        (("benchmark", *world, "--methods", "edgcape"), "did you mean 'edgecape'"),
        (("benchmark", *world, "--models", "fixed"), "give ARM=FOLDER"),
        (("benchmark", *world, "--models", f"fixed={tmp_path}"), "is no saved model"),
        (("benchmark", *world, "--models", f"fixed={tmp_path / 'model'}"), "is a model with graph 'predicted'"),
        (
            ("benchmark", data, "--regime", "ours", "--model", tmp_path / "model", "--methods", "sdpnet"),
            "--regime published",
        ),
        (("report", tmp_path / "nothing"), "there is no section"),
    ):
        assert run(*arguments) == 2, arguments
        assert message in capsys.readouterr().err
        assert not (tmp_path / "out/results").exists()  # nothing was computed


# --- two results ---------------------------------------------------------------------------------------------


def test_two_results(
    finished: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    files = (finished / "copy_support.npz", finished / "corner.npz")
    known = ("--annotations", data, "--train-annotations", data.parent / "train.txt")
    assert run("compare", *files, *known) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert run("compare", *files, *known, "--json") == 0
    rows = json.loads(capsys.readouterr().out)["differences"]
    names = ["all", "known definition", "new definition", "furniture", "lamp", "light"]
    assert [row["group"].split(" ", 1)[-1] if "category " in row["group"] else row["group"] for row in rows] == names
    expected = difference(*(Result.load(file) for file in files), {"all": [0, 1]}, thresholds=(0.2,))[0]
    assert rows[0]["mean"] == pytest.approx(expected.mean) and rows[0]["low"] == pytest.approx(expected.low)
    shown = next(line for line in lines if line[:1] == ["all"])
    assert float(shown[3]) == pytest.approx(100 * expected.mean["mPCK@5"], abs=0.051)
    assert float(shown[6]) == pytest.approx(100 * expected.mean["PCK@0.2"], abs=0.051)
    assert run("compare", *files) == 0
    assert "definition" not in capsys.readouterr().out


def test_two_categories_of_one_name_stay_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MP-100 has two called face."""
    content = json.loads(toy.write_lamps(tmp_path, 6, ("face", "face")).read_text())
    content["categories"][1]["keypoints"] = [f"other {name}" for name in content["categories"][1]["keypoints"]]
    (tmp_path / "faces.json").write_text(json.dumps(content))
    dataset = read_coco(tmp_path / "faces.json", tmp_path)
    episodes, _ = protocol_episodes(dataset, shots=1, episodes=2)
    methods = {"good": copy_support, "bad": lambda task: 0 * copy_support(task)}
    for name, result in evaluate(dataset, episodes, methods, toy.store()).items():
        result.save(tmp_path / f"{name}.npz")
    files = (tmp_path / "good.npz", tmp_path / "bad.npz")
    for given in ((), ("--annotations", tmp_path / "faces.json")):
        assert run("compare", *files, *given, "--json") == 0
        rows = json.loads(capsys.readouterr().out)["differences"][-2:]
        assert [row["group"] for row in rows] == ["category face (1)", "category face (2)"]
        assert [row["pairs"] for row in rows] == [10, 10] and rows[0]["mean"] != rows[1]["mean"]
    old = replace(Result.load(files[0]), categories=("face", "face"))
    old.save(files[1])
    assert run("compare", *files) == 2
    assert "several categories of one name" in capsys.readouterr().err


def test_bad_input_of_compare(finished: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, half, other = finished / "copy_support.npz", tmp_path / "half.npz", tmp_path / "train.json"
    whole = Result.load(good)
    whole.subset(np.arange(len(whole.category)) < 7).save(half)
    shutil.copy(data.parent / "train.txt", other)
    for arguments, message in (
        ((good, half), "not on the same pairs"),
        ((good, tmp_path / "none.npz"), "is not a saved evaluation result"),
        ((good, good, "--annotations", other), "they have different categories"),
        ((good, good, "--train-annotations", other), "only together with --annotations"),
    ):
        assert run("compare", *arguments) == 2
        assert message in capsys.readouterr().err
