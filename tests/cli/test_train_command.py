from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from edgecape.cli.train import Train, read_all, train
from edgecape.data.dataset import Dataset
from edgecape.errors import SettingsError, WeightsError

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


@pytest.mark.parametrize(("own", "found"), [((), "photos"), (("others",), "others")])
def test_validation_lies_where_training_does_or_in_folders_of_its_own(
    own: tuple[str, ...], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    read: list[tuple[Path, ...]] = []

    def note(files: Sequence[Path], images: Sequence[Path]) -> Dataset:
        read.append(tuple(images))
        return read_all(files, [path.parent])

    def no_backbone(settings: object) -> None:
        raise WeightsError("all is read")

    path = write_lamps(tmp_path, 2)
    monkeypatch.setattr("edgecape.cli.train.read_all", note)
    monkeypatch.setattr("edgecape.weights.backbones.load_backbone", no_backbone)
    with pytest.raises(WeightsError, match="all is read"):
        train(Train((path,), (Path("photos"),), tmp_path / "run", (path,), tuple(map(Path, own))))
    assert read == [(Path("photos"),), (Path(found),)]
