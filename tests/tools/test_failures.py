"""tools/failures.py with a small model: the picture is whole, small, and the same every time."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgecape.predictor import EdgeCape

from toy import estimator

SCRIPT = Path(__file__).parents[2] / "tools/failures.py"
CASES = [make() for make in runpy.run_path(str(SCRIPT))["CASES"]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_the_truth_of_a_case_is_on_its_picture(case) -> None:
    height, width = case.query.shape[:2]
    assert case.truth.shape == case.support.keypoints.shape
    assert (case.truth >= 0).all() and (case.truth < (width, height)).all()
    if case.box:
        x, y, w, h = case.box
        assert (case.truth >= np.array((x, y)) - 0.1).all() and (case.truth <= np.array((x + w, y + h)) + 0.1).all()


def test_one_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(EdgeCape, "from_pretrained", lambda source=None, device=None: estimator())
    files = [tmp_path / "once.jpg", tmp_path / "twice.jpg"]
    for file in files:
        monkeypatch.setattr(sys, "argv", ["failures.py", "--out", str(file)])
        runpy.run_path(str(SCRIPT), run_name="__main__")
    said = capsys.readouterr().out
    assert all(f"{case.title}: " in said for case in CASES) and " right, mean score of the others 0." in said
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].stat().st_size < 250_000
    with Image.open(files[0]) as picture:
        assert picture.format == "JPEG" and picture.width > 900
