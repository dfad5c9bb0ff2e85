from __future__ import annotations

from pathlib import Path

import pytest
import torch

from edgecape.errors import WeightsError
from edgecape.training.checkpoints import load_checkpoint, save_checkpoint


def test_the_newest_is_loaded(tmp_path: Path):
    assert load_checkpoint(tmp_path) is None
    for done in range(3):
        save_checkpoint(tmp_path, {"done": done, "weights": torch.full((3,), float(done))})
    state = load_checkpoint(tmp_path)
    assert state is not None and state["done"] == 2 and state["weights"].tolist() == [2, 2, 2]


@pytest.mark.parametrize("damage", ["truncated", "bit", "empty"])
def test_a_damaged_one_is_never_loaded(tmp_path: Path, damage: str):
    for done in range(2):
        save_checkpoint(tmp_path, {"done": done})
    last = tmp_path / "last.checkpoint"
    content = bytearray(last.read_bytes())
    content[-20] ^= 1
    last.write_bytes({"truncated": content[:100], "bit": content, "empty": b""}[damage])
    state = load_checkpoint(tmp_path)
    assert state is not None and state["done"] == 0
    (tmp_path / "previous.checkpoint").write_bytes(b"gone")
    with pytest.raises(WeightsError, match="damaged"):
        load_checkpoint(tmp_path)


def test_killed_between_the_renames(tmp_path: Path):
    """The new one is complete but not yet called `last`."""
    save_checkpoint(tmp_path, {"done": 0})
    (tmp_path / "last.checkpoint").rename(tmp_path / "previous.checkpoint")
    other = tmp_path / "other"
    save_checkpoint(other, {"done": 1})
    (other / "last.checkpoint").rename(tmp_path / "next.checkpoint")
    state = load_checkpoint(tmp_path)
    assert state is not None and state["done"] == 1
