"""Finding annotation files and images in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecape.errors import DataError
from edgecape.io.paths import locate

from coco_files import sample, write


def test_locate(tmp_path: Path) -> None:
    path = write(tmp_path / "set/annotations/a.json", sample())
    assert locate(tmp_path / "set") == ([path], tmp_path / "set")  # MP-100's own layout
    assert locate(path) == ([path], tmp_path / "set")
    assert locate(path.parent) == ([path], tmp_path / "set")
    (tmp_path / "set/images").mkdir()
    assert locate(tmp_path / "set")[1] == locate(path)[1] == tmp_path / "set/images"
    assert locate(path, tmp_path)[1] == tmp_path
    for data, images, words in (
        (tmp_path / "none", None, "does not exist"),
        (tmp_path / "set/images", None, "no annotation files"),
        (path, tmp_path / "none", "image folder"),
    ):
        with pytest.raises(DataError, match=words):
            locate(data, images)
