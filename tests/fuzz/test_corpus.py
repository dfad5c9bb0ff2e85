"""What was once taken, crashed or ran: refused ever since, by whoever reads it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgecape import EdgeCape, Prompt, formats
from edgecape.errors import EdgeCapeError
from edgecape.examples import lamp
from edgecape.formats.boxes import read_boxes
from edgecape.formats.supports import read_supports

from hostile import answered
from toy import estimator

CORPUS = Path(__file__).parent / "corpus"


def files(kind: str) -> list[Path]:
    return sorted((CORPUS / kind).iterdir())


@pytest.mark.parametrize("path", files("labels"), ids=lambda path: path.name)
def test_label_files(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for reader in (formats.read, read_supports, read_boxes):
        assert isinstance(answered(reader, path), EdgeCapeError)
    assert not list(tmp_path.iterdir())  # where a payload would leave its mark


@pytest.fixture(scope="module")
def model() -> EdgeCape:
    return estimator()


@pytest.mark.parametrize("path", files("images"), ids=lambda path: path.name)
def test_images(path: Path, model: EdgeCape) -> None:
    (found,) = model.predict(model.prompt(lamp().support), [path], errors="return")
    if path.name == "thin.png":  # 40 000 × 1 pixels are a photo
        assert np.isfinite(found.keypoints).all()
    else:
        assert isinstance(found, EdgeCapeError) and path.name in str(found)


@pytest.mark.parametrize("path", files("prompts"), ids=lambda path: path.name)
def test_prompts(path: Path) -> None:
    assert isinstance(answered(Prompt.load, path), EdgeCapeError)
