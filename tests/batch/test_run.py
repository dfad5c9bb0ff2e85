from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from PIL import Image

from edgecape.batch.parts import Journal
from edgecape.batch.queries import count, find_queries
from edgecape.batch.run import run
from edgecape.errors import DataError, ImageError
from edgecape.examples import lamp
from edgecape.formats.labels import Entry

from toy import estimator

OUT = Path("out")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.png", "a.JPG", "sub/c.tif", ".hidden.png", "._a.jpg", ".cache/d.png", "notes.md", "clip.mp4"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "photos"


def found(*queries: Path | str, output: Path = OUT) -> list[str]:
    return [path.name for path in find_queries([str(query) for query in queries], output)]


def test_folders_give_photos_in_order(folder):
    assert found(folder) == ["a.JPG", "b.png", "c.tif"]
    assert found(folder, output=folder) == ["a.JPG", "b.png", "c.tif"]


def test_files_patterns_and_lists_each_once(folder):
    (folder / "list.txt").write_text("\ufeffsub/c.tif\n\n  b.png \n", encoding="utf-8")
    assert found(folder / "list.txt") == ["c.tif", "b.png"]
    assert found(folder / "b.png", folder) == ["b.png", "a.JPG", "c.tif"]
    assert found(folder / "**" / "*.tif", folder / "[ab].*") == ["c.tif", "a.JPG", "b.png"]
    assert found(folder / "*.mp4") == ["clip.mp4"]


def test_drawn_results_are_no_photos(folder, monkeypatch):
    (folder / "out" / "drawn").mkdir(parents=True)
    (folder / "out" / "drawn" / "b.jpg").touch()
    assert "b.jpg" in found(folder) and "b.jpg" not in found(folder, output=folder / "out")
    monkeypatch.chdir(folder)
    assert "b.jpg" not in found(".") and "b.jpg" not in found(folder)


@pytest.mark.parametrize("query", ["nothing", "no-*.png", "photos/empty"])
def test_queries_that_name_nothing(folder, query, monkeypatch):
    (folder / "empty").mkdir()
    monkeypatch.chdir(folder.parent)
    with pytest.raises(ImageError, match="names no photo"):
        found(query)


def test_a_list_that_is_no_text(folder):
    (folder / "list.txt").write_bytes(b"\xff\xfe\x00photo")
    with pytest.raises(DataError, match="list.txt cannot be read"):
        found(folder / "list.txt")


def test_counting_passes_over_what_cannot_be_opened(folder):
    assert count([folder / "a.JPG", folder / "clip.mp4"]) == 2


def test_outcomes_come_in_batches_and_memory_holds_one(tmp_path):
    """An endless number of queries: only those of a batch are taken before its results come."""
    model, example = estimator(), lamp()
    prompt = model.prompt(example.support)
    Image.fromarray(example.queries[0]).save(tmp_path / "1.png")
    taken: list[Path] = []

    def endless():
        for number in itertools.count():
            path = tmp_path / f"{number}.png"
            taken.append(path)
            yield path

    with Journal(tmp_path / "journal.jsonl", prompt) as journal:
        outcomes = run(model, prompt, endless(), journal, batch_size=3)
        first = [next(outcomes) for _ in range(3)]
        assert len(taken) == 3
        assert isinstance(first[0], ImageError) and isinstance(first[2], ImageError)
        assert isinstance(first[1], Entry) and first[1].file == (tmp_path / "1.png").as_posix()
        assert [entry.file for entry in journal] == [first[1].file]
        assert list(run(model, prompt, [tmp_path / "1.png"], journal)) == [None]
