from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgecape.batch.queries import content_digest, find_queries, without_boxes
from edgecape.errors import DataError, ImageError
from edgecape.formats.boxes import Boxes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.png", "a.JPG", "sub/c.tif", ".hidden.png", "._a.jpg", ".cache/d.png", "notes.md", "clip.mp4"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "photos"


def found(*queries: Path | str, notes: list[str] | None = None) -> list[str]:
    listed = find_queries([str(query) for query in queries], [] if notes is None else notes, [])
    return [Path(each.file).name for each in listed]


def test_photos_are_sorted_and_each_is_there_once(folder):
    assert found(folder) == ["a.JPG", "b.png", "c.tif"]
    assert found(folder / "b.png", folder) == ["a.JPG", "b.png", "c.tif"]


def test_files_patterns_and_lists(folder):
    (folder / "list.txt").write_text("\ufeffsub/c.tif\n\n  b.png \n", encoding="utf-8")
    assert found(folder / "list.txt") == ["b.png", "c.tif"]
    assert found(folder / "**" / "*.tif", folder / "[ab].*") == ["a.JPG", "b.png", "c.tif"]
    assert found(folder / "*.mp4") == ["clip.mp4"]


def test_a_list_of_places_in_a_store_is_taken_as_it_is(folder):
    (photo,) = find_queries([str(_list(folder, "s3://bucket/a b.jpg"))], [], [])
    assert photo == ("s3://bucket/a b.jpg", 0, 0, None)


def test_what_is_known_of_them(folder):
    (folder / "b.png").write_bytes(b"12345")
    (photo, film) = find_queries([str(folder / "b.png"), str(folder / "clip.mp4")], [], [])
    assert photo.bytes == 5 and photo.mtime == (folder / "b.png").stat().st_mtime_ns and photo.frames is None
    assert film.frames == 0  # no video: its time to be named comes
    (gone,) = find_queries([str(_list(folder, "gone.png"))], [], [])
    assert (gone.bytes, gone.mtime) == (0, 0)


def _list(folder: Path, *names: str) -> Path:
    (folder / "list.txt").write_text("\n".join(names))
    return folder / "list.txt"


def test_what_runs_drew_is_no_photo(folder, monkeypatch):
    for place in ("out/drawn", "drawn", "other/drawn"):
        (folder / place).mkdir(parents=True)
        (folder / place / f"{place[:2]}.jpg").touch()
    (folder / "out" / "run.json").touch()
    (folder / "other" / "run.json").touch()
    notes: list[str] = []
    assert found(folder, notes=notes) == ["a.JPG", "b.png", "dr.jpg", "c.tif"]  # a folder of that name without a run
    assert len(notes) == 2 and "a run drew it" in notes[0]


def test_folders_that_cannot_be_read_are_named(folder, monkeypatch):
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    unreadable: list[str] = []
    assert [Path(each.file).name for each in find_queries([str(folder)], [], unreadable)] == ["a.JPG", "b.png"]
    assert unreadable == [f"folder {folder / 'sub'} cannot be read: Permission denied"]


@pytest.mark.parametrize("query", ["nothing", "no-*.png", "photos/empty", "", "  "])
def test_queries_that_name_nothing(folder, query, monkeypatch):
    (folder / "empty").mkdir()
    monkeypatch.chdir(folder.parent)
    with pytest.raises(ImageError, match="names no photo"):
        found(query)


def test_a_list_that_is_no_text(folder):
    (folder / "list.txt").write_bytes(b"\xff\xfe\x00photo")
    with pytest.raises(DataError, match="list.txt cannot be read"):
        found(folder / "list.txt")


def test_fewer_boxes_than_photos_is_said(folder):
    photos = find_queries([str(folder)], [], [])
    boxes = Boxes(Path("boxes.json"), {"b.png": {"b.png": []}})
    (note,) = without_boxes(photos, boxes)
    assert "boxes.json has no boxes for 2 of 3 photos" in note and "a.JPG" in note


def test_content_tells_photos_apart(folder):
    assert content_digest(folder / "a.JPG") == content_digest(folder / "b.png")
    (folder / "b.png").write_bytes(b"1")
    assert content_digest(folder / "a.JPG") != content_digest(folder / "b.png")
    assert content_digest(folder / "gone") is None
