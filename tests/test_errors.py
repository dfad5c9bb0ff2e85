"""What is missing is named together with the command that gets it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from edgecape.errors import MissingPackageError, brief, require

ROOT = Path(__file__).parents[1]
EXTRAS = re.findall(
    r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text().split("optional-dependencies]")[1], re.MULTILINE
)
CALL = re.compile(r'require\("(\w+)", ')


def test_nothing_is_said_of_what_is_there():
    require("train", "a test", "json", "pathlib")


def test_what_is_missing_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(MissingPackageError) as caught:
        require("train", "training", "json", "accelerate")
    assert str(caught.value) == "training needs accelerate: pip install 'edgecape[train]'"


def test_every_extra_that_is_spoken_of_exists():
    spoken = {extra for path in (ROOT / "src").rglob("*.py") for extra in CALL.findall(path.read_text())}
    assert {"train", "studio", "formats", "onnx", "cluster", "backbones"} <= spoken <= set(EXTRAS)


def test_a_value_is_shown_on_one_line():
    assert brief("a\nb" * 100).count("\n") == 0 and len(brief("x" * 1000)) < 70
