"""Finding annotation files and images in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecape.errors import DataError
from edgecape.io.paths import find_annotations

from coco_files import sample, write


def test_find_annotations(tmp_path: Path) -> None:
    path = write(tmp_path / "set/annotations/a.json", sample())
    assert find_annotations(tmp_path / "set") == ([path], tmp_path / "set")  # MP-100's own layout
    assert find_annotations(path) == ([path], tmp_path / "set")
    assert find_annotations(path.parent) == ([path], tmp_path / "set")
    (tmp_path / "set/images").mkdir()
    assert find_annotations(tmp_path / "set")[1] == find_annotations(path)[1] == tmp_path / "set/images"
    assert find_annotations(path, tmp_path)[1] == tmp_path
    for data, images, words in (
        (tmp_path / "none", None, "does not exist"),
        (tmp_path / "set/images", None, "no annotation files"),
        (path, tmp_path / "none", "image folder"),
    ):
        with pytest.raises(DataError, match=words):
            find_annotations(data, images)
