"""tools/release.py with a small model on drawn lamps: what it writes is a model with scores fitted both ways."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from edgecape.evaluation import calibration
from edgecape.examples import lamp
from edgecape.matching.settings import MatchingSettings, ViewSettings
from edgecape.predictor import EdgeCape

import toy

SCRIPT = Path(__file__).parents[2] / "tools/release.py"
MIRRORS = MatchingSettings(views=ViewSettings(mirror=True))


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model without calibration."""
    monkeypatch.setattr("edgecape.runtime.torch_runtime.load_backbone", lambda *_: (toy.ToyBackbone(), "toy"))
    toy.estimator(matching=MIRRORS).save_pretrained(tmp_path / "trained")
    return tmp_path / "trained"


def test_a_model_with_scores(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lamps = str(toy.write_lamps(tmp_path / "lamps"))
    asked: list[tuple[int, bool]] = []
    collect = calibration.collect

    def listening(network, dataset, episodes, store, named=True):
        asked.append((len(episodes[0].supports), named))
        return collect(network, dataset, episodes, store, named)

    monkeypatch.setattr(calibration, "collect", listening)
    out, figure = tmp_path / "released", tmp_path / "reliability.png"
    files = ["--val", lamps, "--test", lamps, "--images", str(tmp_path / "lamps"), "--out", str(out)]
    monkeypatch.setattr("edgecape.weights.backbones.load_backbone", lambda *_: (toy.ToyBackbone(), "toy"))
    arguments = ["release.py", str(model), str(model), *files, "--episodes", "2", "--figure", str(figure)]
    monkeypatch.setattr(sys, "argv", arguments)
    runpy.run_path(str(SCRIPT), run_name="__main__")

    assert sorted(asked) == sorted([(shots, named) for shots in (1, 5) for named in (True, False)] * 2)
    said = capsys.readouterr().out
    for part in ("val", "test"):
        counts = []
        for way in ("names told", "names not told", "together"):
            line = re.search(rf"^{part}, {way}: (\d+) keypoints, .* ECE 0\.\d+, AUROC [01]\.\d+$", said, re.MULTILINE)
            assert line
            counts.append(int(line[1]))
        told, untold, both = counts
        assert told == untold > 0 and both == told + untold
    assert figure.stat().st_size > 0

    before, after = (EdgeCape.from_pretrained(folder, device="cpu") for folder in (model, out))
    assert before.torch_runtime.calibration is None and after.torch_runtime.calibration is not None
    assert {tensor.dtype for tensor in load_file(out / "model.safetensors").values()} == {torch.float16}
    example = lamp()
    (pose,) = after.predict(after.prompt(example.support), [example.support.image])
    assert np.isfinite(pose.scores).all() and (pose.scores >= 0).all() and (pose.scores <= 1).all()
