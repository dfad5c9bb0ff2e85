"""edgecape experiment from the command line to its files."""

from __future__ import annotations

import csv
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
from edgecape.predictor import EdgeCape

import toy

VARIANTS = [
    "as given", "1 wrong edge", "2 wrong edges", "4 wrong edges", "8 wrong edges", "16 wrong edges",
    "30 % dropped", "60 % dropped", "no edges", "fully connected", "proposals", "copy support",
]  # fmt: skip


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
    """What the robustness experiment leaves."""
    out = tmp_path_factory.mktemp("experiment") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EdgeCape, "from_pretrained", lambda source=None, device=None: toy.estimator())
        train = ("--train-annotations", data.parent / "train.txt")
        assert run("robustness", "default", data, "--episodes", 2, *train, "--out", out) == 0
    return out


def test_robustness_files(finished: Path) -> None:
    stored = json.loads((finished / "robustness.json").read_text())
    assert list(stored["rows"]) == [*VARIANTS, *(f"{name} − as given" for name in VARIANTS[1:])]
    groups = ["all", "known definition", "new definition"]
    assert all([row["group"] for row in rows] == groups for rows in stored["rows"].values())
    assert list(stored["given_share"]) == VARIANTS[:10]
    assert stored["coverage"].startswith("20 of 20 pairs (2 episodes per category)")
    with open(finished / "robustness.csv", newline="") as file:
        lines = {(line["group"], line["method"]): float(line["mPCK@5"]) for line in csv.DictReader(file)}
    values = [lines["all", name] for name in ("fully connected − as given", "fully connected", "as given")]
    assert values[0] == pytest.approx(values[1] - values[2])
    saved = Result.load(finished / "as_given.npz")
    assert lines["all", "as given"] == pytest.approx(saved.metrics()["mPCK@5"])
    assert (finished / "robustness.png").stat().st_size > 10_000
    assert len(list(finished.iterdir())) == 3 + len(VARIANTS)


def test_robustness_on_the_terminal(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EdgeCape, "from_pretrained", lambda source=None, device=None: toy.estimator())
    monkeypatch.setenv("COLUMNS", "80")
    assert run("robustness", "default", data, "--episodes", 1, "--categories", "lamp", "--shots", 2) == 0
    text = capsys.readouterr().out
    assert "lamps, 2-shot" in text and "all: 1 category, 4 pairs" in text and "definition" not in text
    table = text[text.index("as given") :].splitlines()
    assert [line.split("  ")[0].strip() for line in table[: len(VARIANTS)]] == [
        line.split("  ")[0].strip() for line in VARIANTS
    ]
    assert "…" not in text.split("per cent;")[0]  # fits
    assert "2 instead of" not in text and "4 instead of 15 queries" in text


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        ("none", (), "trained without a graph"),
        ("predicted", ("--categories", "lmap"), "did you mean lamp"),
        ("predicted", ("--shots", "6"), "has the 7 objects"),
        ("predicted", ("--train-annotations", "nowhere.json"), "nowhere.json does not exist"),
    ],
)
def test_bad_input_of_robustness(
    data: Path,
    tmp_path: Path,
    graph: str,
    options: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(EdgeCape, "from_pretrained", lambda source=None, device=None: toy.estimator(graph=graph))
    assert run("robustness", "default", data, "--episodes", 1, *options, "--out", tmp_path / "out") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# --- two results ---------------------------------------------------------------------------------------------


def test_two_results(
    finished: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    files = (finished / "proposals.npz", finished / "copy_support.npz")
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
    good, half, other = finished / "as_given.npz", tmp_path / "half.npz", tmp_path / "train.json"
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
