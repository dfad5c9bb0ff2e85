"""edgecape evaluate from the command line to its files."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from edgecape.cli.main import main
from edgecape.evaluation.results import Result
from edgecape.model.backbone import Backbone
from edgecape.model.dinov2 import Dinov2Shape
from edgecape.model.settings import BackboneSettings
from edgecape.predictor import EdgeCape
from edgecape.runtime.torch_runtime import TorchRuntime

import tiny
import toy

SETTINGS = BackboneSettings(image_size=(56, 56))
MODEL = ["model, proposals", "model, graph none", "model, graph fixed", "model, graph predicted"]
SIMPLE = ["copy support", "nearest feature, layer 2", "nearest feature, layer 3"]


def tiny_backbone(settings: BackboneSettings, state=None) -> tuple[Backbone, str]:
    """A DINOv2 of three narrow layers; the same weights whatever layers are asked for."""
    torch.manual_seed(0)
    return Backbone(Dinov2Shape(16, 3, heads=2), replace(settings, image_size=(56, 56))).eval(), "tiny"


@pytest.fixture(scope="module")
def lamps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.write_lamps(tmp_path_factory.mktemp("lamps"), 8, ("lamp", "light"))


@pytest.fixture
def folder(tmp_path: Path, lamps: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set in the usual layout, and a model called "default"."""

    def from_pretrained(source=None, device=None) -> EdgeCape:
        backbone, fingerprint = tiny_backbone(SETTINGS)
        runtime = TorchRuntime(tiny.network(backbone=SETTINGS), backbone, source or fingerprint, device="cpu")
        return EdgeCape(runtime)

    monkeypatch.setattr("edgecape.weights.backbones.load_backbone", tiny_backbone)
    monkeypatch.setattr(EdgeCape, "from_pretrained", from_pretrained)
    data = tmp_path / "data"
    shutil.copytree(lamps.parent, data / "images")
    (data / "annotations").mkdir()
    for name in ("mp100_split1_test", "mp100_split1_val"):
        shutil.copy(lamps, data / f"annotations/{name}.json")
    monkeypatch.setenv("COLUMNS", "200")
    return data


def run(*arguments: str | Path) -> int:
    return main(["evaluate", *map(str, arguments)])


def test_model_and_baselines_on_a_split(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    train = folder / "annotations/mp100_split1_val.json"
    options = ("--split", "test", "--episodes", 2, "--groups", "things=furniture", "--train-annotations", train)
    assert run("default", folder, *options, "--out", out) == 0
    text = capsys.readouterr().out
    for expected in (
        *SIMPLE,
        *MODEL,
        "EdgeCape (DINOv2-S) (published)",
        "averages over the five",
        "things: 2 categories",
    ):
        assert expected in text
    assert "7 instead of 15 queries" in text
    assert "28 of 28 pairs (2 episodes per category), 2 of 2 categories, 16 of 16 objects (100.0%)" in text
    stored = json.loads((out / "evaluation.json").read_text())
    assert list(stored["rows"]) == [*SIMPLE, *MODEL]
    groups = ["all", "things", "known definition", "category lamp", "category light"]
    assert [row["group"] for row in stored["rows"]["copy support"]] == groups
    with open(out / "evaluation.csv", newline="") as file:
        lines = {(line["group"], line["method"]): line for line in csv.DictReader(file)}
    saved = Result.load(out / "model_graph_predicted.npz")
    found = float(lines["all", "model, graph predicted"]["PCK@0.2"])
    assert found == pytest.approx(saved.metrics()["PCK@0.2"])
    assert len(lines) == 5 * 7
    assert len(list(out.iterdir())) == 2 + 7


def test_baselines_alone_on_some_categories_with_images_missing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "images/1003.png").unlink()
    file = folder / "annotations/mp100_split1_val.json"
    arguments = ("none", file, "--categories", "lamp", "--episodes", 4, "--thresholds", 0.3)
    assert run(*arguments) == 2
    assert "1 of 8 images of mp100_split1_val are missing" in capsys.readouterr().err
    assert run(*arguments, "--skip-missing") == 0
    text = capsys.readouterr().out
    assert "@.3" in text
    assert "model" not in text
    assert "1 of 2 categories, 7 of 16 objects" in text


def test_results_as_json_or_not_at_all(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("default", folder, "--split", "val", "--episodes", 1, "--no-baselines", "--out", tmp_path / "out")
    assert run(*arguments, "--json", "--quiet") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "out/evaluation.json").read_text())
    assert run(*arguments, "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_the_model_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("default", folder, "--split", "split1_val", "--episodes", 1, "--no-baselines", "--shots", 2) == 0
    text = capsys.readouterr().out
    assert "model" in text
    assert not any(name in text for name in (*SIMPLE, *MODEL))


def test_a_backbone_of_its_own_is_matched_with_the_layers_it_has(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fine-tuned", folder, "--split", "val", "--episodes", 1) == 0
    text = capsys.readouterr().out
    assert "nearest feature, layer 3" in text
    assert "nearest feature, layer 2" not in text
    assert "it has weights of its own" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("default",), "2 fit, say which one with --split"),
        (("default", "--split", "train"), "none fits, say which one with --split"),
        (("none", "--split", "val", "--no-baselines"), "there is nothing to measure"),
        (("default", "--split", "val", "--shots", "8"), "no category of mp100_split1_val has the 9 objects"),
        (("default", "--split", "val", "--categories", "lmap"), "did you mean lamp"),
        (("default", "--split", "val", "--groups", "birds"), "names supercategory 'birds'"),
        (("default", "--split", "val", "--layers"), "at least one layer"),
    ],
)
def test_bad_input(folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    model, *options = arguments
    assert run(model, folder, *options) == 2
    assert message in capsys.readouterr().err


def test_nothing_is_left_to_evaluate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("1003", "2003"):
        (folder / f"images/{name}.png").unlink()
    assert run("default", folder, "--split", "val", "--shots", 7, "--skip-missing") == 2  # each episode needs all 8
    assert "nothing can be evaluated: 0 of 400 pairs" in capsys.readouterr().err


# --- several splits ------------------------------------------------------------------------------------------------


@pytest.fixture
def five(folder: Path) -> Path:
    """Test files of five splits; the later ones have fewer objects."""
    content = json.loads((folder / "annotations/mp100_split1_test.json").read_text())
    for number in range(1, 6):
        kept = [one for one in content["annotations"] if one["id"] % 1000 < 9 - number]
        path = folder / f"annotations/mp100_split{number}_test.json"
        path.write_text(json.dumps(content | {"annotations": kept}))
    return folder


def test_the_mean_over_five_splits_is_one_command(
    five: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    made = EdgeCape.from_pretrained

    def from_pretrained(source=None, device=None):
        asked.append(source)
        return made(source, device)

    monkeypatch.setattr(EdgeCape, "from_pretrained", from_pretrained)
    options = ("--split", "split?_test", "--episodes", 2, "--out", tmp_path / "out")
    assert run("runs/{split}", five, *options) == 0
    text = capsys.readouterr().out
    assert asked == [f"runs/{number}" for number in range(1, 6)]  # each split has a model of its own
    assert "mean of 5 splits, 1-shot" in text and "warning" not in text
    found = json.loads((tmp_path / "out/mean.json").read_text())
    reports = [json.loads((tmp_path / f"out/mp100_split{n}_test/evaluation.json").read_text()) for n in range(1, 6)]
    for method, row in found["mean"].items():
        alone = [report["rows"][method][0]["mean"]["mPCK@5"] for report in reports]
        assert row["mean"]["mPCK@5"] == pytest.approx(sum(alone) / 5)
        line = next(line for line in text[text.index("mean of 5") :].splitlines() if line.startswith(f"{method} "))
        assert f"{100 * row['mean']['PCK@0.2']:.1f}" in line and len(line.split("±")) == 2
    published = next(line for line in text[text.index("mean of 5") :].splitlines() if line.startswith("EdgeCape (DINO"))
    assert published.split()[-1] == "89.4"

    folders = [tmp_path / f"out/mp100_split{number}_test" for number in range(1, 6)]
    assert main(["experiment", "mean", *map(str, folders), "--json"]) == 0  # the same of what was saved
    assert json.loads(capsys.readouterr().out) == found
    assert main(["experiment", "mean", *map(str, folders[:2])]) == 0
    assert "warning: published means are over 5 splits, these over 2" in capsys.readouterr().out


def test_bad_input_of_a_mean(five: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, shots in ((1, 1), (2, 2)):
        options = ("--split", f"split{number}_test", "--episodes", 1, "--shots", shots, "--out", tmp_path / str(number))
        assert run("none", five, *options) == 0
    one, two, odd = tmp_path / "1", tmp_path / "2", tmp_path / "odd.json"
    odd.write_text('{"rows": {"a": [{"group": "all"}]}}')
    capsys.readouterr()
    for files, message in (
        ([one], "two or more different splits, got mp100_split1_test"),
        ([one, one], "two or more different splits"),
        ([one, two], "results with 1, 2 shots have no common mean"),
        ([one, odd], "odd.json is not a report of edgecape evaluate"),
        ([one, tmp_path / "none"], "does not exist"),
    ):
        assert main(["experiment", "mean", *map(str, files)]) == 2
        assert message in capsys.readouterr().err


def test_a_pattern_where_one_split_is_meant(five: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "cost", str(five), "--split", "split*_test"]) == 2
    assert "experiments take one at a time" in capsys.readouterr().err
    assert run("runs/{split}", five / "annotations/mp100_split1_test.json", "--split", "dogs") == 2
    assert "none fits" in capsys.readouterr().err
