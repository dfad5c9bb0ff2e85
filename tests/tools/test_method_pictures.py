"""tools/method_pictures.py with a small model: all pictures of the page are made, whatever the model found."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
from PIL import Image

from edgecape.matching.settings import MatchingSettings, ViewSettings
from edgecape.predictor import EdgeCape

from toy import estimator

ROOT = Path(__file__).parents[2]


def test_every_picture_of_the_page_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    views = ViewSettings(mirror=True, mirror_query=True, quarter_turns=True)
    made = estimator(matching=MatchingSettings(views=views), graph="predicted")
    monkeypatch.setattr(EdgeCape, "from_pretrained", lambda: made)
    monkeypatch.setattr(sys, "argv", ["method_pictures.py", "--out", str(tmp_path)])
    runpy.run_path(str(ROOT / "tools/method_pictures.py"), run_name="__main__")
    shown = set(re.findall(r"images/(method-\w+\.jpg)", (ROOT / "docs/method.md").read_text(encoding="utf-8")))
    assert shown == {path.name for path in tmp_path.iterdir()}
    for name in shown:
        with Image.open(tmp_path / name) as picture:
            assert picture.width > 400 and picture.height > 200, name
