"""Holding out a super-category, and many species as one definition."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgecape.cli import data as cli
from edgecape.data.objects import read_coco
from edgecape.data.splits import super_categories, write_hold_out
from edgecape.errors import DataError

from coco_files import sample, write


def test_hold_out(tmp_path: Path) -> None:
    paths = write_hold_out([write(tmp_path / "a.json", sample())], "Furniture", tmp_path)
    train, test = (read_coco(path, "") for path in paths)
    assert [category.name for category in train.categories] == ["dog"]
    assert [category.name for category in test.categories] == ["chair"]
    assert [instance.annotation_id for instance in train.instances] == [4, 1]
    assert [(instance.index, instance.category) for instance in test.instances] == [(0, 0), (1, 0)]


def test_what_cannot_be_held_out(tmp_path: Path) -> None:
    content = sample()

    def hold_out(name: str) -> None:
        write_hold_out([write(tmp_path / "a.json", content)], name, tmp_path)

    with pytest.raises(DataError, match="no super-category 'face'; it has body, furniture"):
        hold_out("face")
    content["categories"][1]["supercategory"] = "body"
    with pytest.raises(DataError, match="nothing would be left"):
        hold_out("body")
    for category in content["categories"]:
        del category["supercategory"]
    with pytest.raises(DataError, match="gives no category a supercategory"):
        hold_out("body")
    with pytest.raises(DataError, match="no annotation file"):
        write_hold_out([], "body", tmp_path)


def test_files_state_their_base(tmp_path: Path) -> None:
    """In the part alone nothing would prove the base of `chair`; in the whole file `dog` does."""
    content = sample()
    content["categories"][0]["skeleton"] = [[1, 2], [2, 3]]
    content["categories"][1]["skeleton"] = [[1, 2]]
    paths = write_hold_out([write(tmp_path / "a.json", content)], "furniture", tmp_path / "out")
    assert [path.name for path in paths] == ["without_furniture.json", "furniture.json"]
    rest, held = (read_coco(path, "") for path in paths)
    assert rest.categories[0].edges == ((0, 1), (1, 2))
    assert held.categories[0].edges == ((0, 1),)
    assert held.notes == ()
    assert [instance.annotation_id for instance in held.instances] == [2, 3]
    assert {image["id"] for image in json.loads(paths[1].read_text())["images"]} == {10, 30}


def test_several_files(tmp_path: Path) -> None:
    content = sample()
    parts = []
    for number, category in enumerate(content["categories"]):
        part = {
            **content,
            "categories": [category],
            "annotations": [a for a in content["annotations"] if a["category_id"] == category["id"]],
        }
        parts.append(write(tmp_path / f"{number}.json", part))
    rest, held = (read_coco(path, "") for path in write_hold_out(parts, "furniture", tmp_path))
    assert [instance.annotation_id for instance in rest.instances] == [4, 1]
    assert [instance.annotation_id for instance in held.instances] == [2, 3]
    content["images"][0]["file_name"] = "other.png"
    with pytest.raises(DataError, match="image 30 is another one"):
        write_hold_out([*parts, write(tmp_path / "x.json", content)], "furniture", tmp_path)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.json", sample())
    assert cli.split((path,), hold_out="body", out=tmp_path / "out") == 0
    text = capsys.readouterr().out
    assert "1 categories, 2 objects" in text
    assert (tmp_path / "out/body.json").is_file()


def test_categories_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write(tmp_path / "a.json", sample()), tmp_path / "new" / "dogs.json"
    assert cli.pick((path,), categories=("dog",), out=out) == 0
    assert capsys.readouterr().out.startswith(f"{out}, 1 categories, 2 objects")
    whole, part = read_coco(path, ""), read_coco(out, "")
    assert [category.name for category in part.categories] == ["dog"]
    assert part.categories[0].edges == next(c for c in whole.categories if c.name == "dog").edges
    assert [instance.annotation_id for instance in part.instances] == [4, 1]
    for names, said in ((("dog", "cat"), "no category 'cat'; it has chair, dog"), ((), "asked for no category")):
        with pytest.raises(DataError, match=said):
            cli.pick((path,), categories=names, out=tmp_path / "none.json")
    assert not (tmp_path / "none.json").exists()
    before = path.read_bytes()
    with pytest.raises(DataError, match="is the file to pick from"):
        cli.pick((path,), categories=("dog",), out=tmp_path / "new" / ".." / "a.json")
    assert path.read_bytes() == before


@pytest.mark.shared
def test_mp100s_own_super_categories(shared: Path, tmp_path: Path) -> None:
    files = [shared / f"data/mp100_annotations/mp100_split5_{part}.json.gz" for part in ("val", "test")]
    dataset = read_coco(files[1], "")
    assert set(super_categories(dataset.categories)) == {"animal_body", "animal_face", "clothes", "face", "vehicle"}
    rest, held = (read_coco(path, "") for path in write_hold_out(files, "vehicle", tmp_path))
    assert (len(rest.categories), len(held.categories)) == (28, 2)
    assert {category.name for category in held.categories} == {"car", "suv"}
    by_name = {category.name: category.edges for category in dataset.categories}
    for category in rest.categories:
        assert category.edges == by_name.get(category.name, category.edges)
