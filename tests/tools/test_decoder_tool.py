"""tools/decoder.py on drawn lamps: episodes are encoded, decoders trained and compared."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest

from edgecape.matching.settings import MatchingSettings

import toy

SCRIPT = Path(__file__).parents[2] / "tools/decoder.py"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["decoder.py", *map(str, arguments)])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def test_from_photos_to_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr("edgecape.weights.backbones.load_backbone", lambda *_: (toy.ToyBackbone(), "toy"))
    monkeypatch.setattr("edgecape.runtime.torch_runtime.load_backbone", lambda *_: (toy.ToyBackbone(), "toy"))
    model, data, encoded = tmp_path / "model", tmp_path / "data", tmp_path / "encoded"
    toy.estimator(matching=MatchingSettings(), graph="predicted", bias="off", heads=8).save_pretrained(model)
    for part, names in (("train", ("lamp", "light")), ("val", ("lamp", "torch"))):
        lamps = toy.write_lamps(data / "images", 4, names)
        (data / "annotations").mkdir(exist_ok=True)
        shutil.move(lamps, data / f"annotations/{part}.json")

    run(monkeypatch, "encode", "--data", data, "--out", encoded, "--model", model, "--parts", 2, "--part-size", 20)
    assert json.loads((encoded / "groups.json").read_text()) == {"known": ["lamp"], "new": ["torch"]}
    arms = {"none": ("--graph", "none"), "fixed-0": ("--neighbours",), "fixed-1": ("--neighbours", "--seed", 1)}
    for name, told in arms.items():
        out = tmp_path / name
        steps = ("--steps", 2, "--validate-every", 2)
        run(monkeypatch, "train", encoded, "--model", model, "--out", out, *steps, *told)
        log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        assert [entry["step"] for entry in log if "val" in entry] == [0, 2]
    options = ("--graph", "predicted", "--learns", "graph", "--start", tmp_path / "fixed-0", "--steps", 1, "--parts", 1)
    run(monkeypatch, "train", encoded, "--model", model, "--out", tmp_path / "graph", *options)

    table = tmp_path / "table.json"
    run(monkeypatch, "measure", encoded, *(tmp_path / name for name in arms), "--data", data, "--out", table)
    rows = json.loads(table.read_text())
    assert {"val, start, as given", "covered, fixed, permuted", "val, fixed, as given − none, as given"} <= set(rows)
    assert rows["val, start, as given"]["all"][0] <= rows["val, best of 2 peaks"]["all"][0]
    assert "val, none, permuted" not in rows  # it is told nothing of a skeleton
    for name, row in rows.items():
        differs = {"other categories too", "stiff", "between", "bent"} if " − " in name else set()
        assert set(row) - {"collapsed", "seeds"} == {"all", "known", "new"} | differs, name
        mean, low, high = row["all"]
        assert low <= mean <= high, name
    both = rows["val, fixed, as given"]
    assert len(both["seeds"]) == 2 and both["all"][0] == pytest.approx(sum(both["seeds"]) / 2, abs=0.02)
    assert "covered, fixed, wrong edges − fixed, as given" in capsys.readouterr().out
