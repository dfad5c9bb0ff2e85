from __future__ import annotations

from pathlib import Path

import pytest

from edgecape.cli.train import read_all
from edgecape.errors import SettingsError

from toy import write_lamps


def test_several_files_are_one_data_set(tmp_path: Path):
    first, second = (write_lamps(tmp_path / name, 2, (name,)) for name in ("desk", "floor"))
    both = read_all((first, second), (first.parent, second.parent))
    assert [category.name for category in both.categories] == ["desk", "floor"]
    assert [instance.category for instance in both.instances] == [0, 0, 1, 1]
    assert all(instance.image.is_file() for instance in both.instances)
    alone = read_all((first,), (first.parent,))
    assert len(alone.instances) == 2 and alone.name == "lamps"


def test_one_folder_serves_all_files(tmp_path: Path):
    path = write_lamps(tmp_path, 2)
    assert len(read_all((path, path, path), (tmp_path,)).instances) == 6
    with pytest.raises(SettingsError, match="3 files with 2 folders"):
        read_all((path, path, path), (tmp_path, tmp_path))
