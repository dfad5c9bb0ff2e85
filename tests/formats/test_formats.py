"""The table of formats: finding out which one a file has, and damage of every kind."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecape import formats
from edgecape.errors import AnnotationError, DataError, EdgeCapeError
from edgecape.formats import LabelledImage, LabelSet

from labels_for_tests import cow, few, make_photo


@pytest.mark.parametrize("name", ["nonsense", "coco-results", "auto"])
def test_unknown_formats_are_named_with_the_known(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(DataError, match=r"coco, csv, deeplabcut, labelme, labelstudio, sleap, yolo"):
        formats.read(tmp_path / "a.json", name)
    if name not in formats.FORMATS:
        with pytest.raises(DataError, match=f"format '{name}' cannot be written; .*coco-results"):
            formats.write(tmp_path / "b.json", cow(), name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "hello"),
        ("a.json", "5"),
        ("a.json", "{}"),
        ("a.json", "[]"),
        ("a.json", '{"images": [], "annotations": []}'),
        ("a.csv", "a,b,c\n1,2,3\n"),
        ("a.csv", ""),
    ],
)
def test_what_is_of_no_known_format_asks_for_it(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=f"{name} is of no known format; say which"):
        formats.detect(tmp_path / name)


def test_a_folder_that_is_two_things_asks_which(tmp_path: Path) -> None:
    formats.write(tmp_path, cow(), "yolo")
    formats.write(tmp_path, cow(), "labelme")
    with pytest.raises(DataError, match="could be yolo or labelme; say which"):
        formats.detect(tmp_path)


def test_folders_and_files_that_are_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is of no known format"):
        formats.detect(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        formats.read(tmp_path / "missing.json")


def test_a_config_of_something_else_is_no_data_set(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("bodyparts: [eye]\n")
    with pytest.raises(DataError, match="is of no known format"):
        formats.detect(tmp_path / "config.yaml")


@pytest.mark.parametrize("format", ["labelme", "yolo"])
@pytest.mark.parametrize("file", ["/elsewhere/cow.jpg", "../cow.jpg", "a/../../cow.jpg"])
def test_nothing_is_written_outside_the_folder(tmp_path: Path, format: str, file: str) -> None:
    labels = LabelSet(cow().names, None, "cow", [LabelledImage(file, 100, 120, cow().images[0].objects)])
    formats.write(tmp_path / "out" / "put", labels, format)
    (written,) = (path for path in tmp_path.rglob("*") if path.is_file() and path.name != "data.yaml")
    assert written.stem == "cow"
    assert written.is_relative_to(tmp_path / "out" / "put")


@pytest.mark.parametrize("format", ["labelme", "yolo"])
@pytest.mark.parametrize("files", [("a.jpg", "a.png"), ("/one/a.jpg", "/two/a.jpg")])
def test_photos_whose_label_files_would_be_one(tmp_path: Path, format: str, files: tuple[str, str]) -> None:
    images = [LabelledImage(file, 5, 5, ()) for file in files]
    with pytest.raises(AnnotationError, match=f"{files[0]} and {files[1]} would share the label file a"):
        formats.write(tmp_path / "out", LabelSet(["eye"], None, "cow", images), format)
    assert not (tmp_path / "out").exists()


def test_results_are_no_data_set(tmp_path: Path) -> None:
    formats.write(tmp_path / "a.json", cow(), "coco-results")
    with pytest.raises(DataError, match="list of COCO results, which names neither photos nor keypoints"):
        formats.read(tmp_path / "a.json")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    formats.write(tmp_path / "a.csv", cow(), "csv")
    before = (tmp_path / "a.csv").read_bytes()
    with pytest.raises(EdgeCapeError):
        formats.write(tmp_path / "a.csv", [cow(), cow()], "deeplabcut")
    assert (tmp_path / "a.csv").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_formats_load_nothing_heavy() -> None:
    heavy = ("torch", "cv2", "PIL", "pandas", "sleap_io", "yaml")
    code = f"import sys, edgecape.formats; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- damage --------------------------------------------------------------------------------------------------

JUNK = [None, True, -1, 0, 1, 2.5, 10**400, float("nan"), float("inf"), "", "x", [], [[]], [1], {}, {"x": 1}]


def places(content: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = list(content) if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    return [way, *(place for key in keys for place in places(content[key], (*way, key)))]


def replaced(content: Any, way: tuple[Any, ...], value: Any) -> Any:
    if not way:
        return value
    copy = content.copy()
    copy[way[0]] = replaced(content[way[0]], way[1:], value)
    return copy


@pytest.mark.parametrize("format", ["coco", "labelme", "labelstudio"])
@given(data=st.data())
@few
def test_any_value_of_a_json_file_can_be_junk(format: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        formats.write(folder, cow(), format) if format == "labelme" else formats.write(
            f"{folder}/cow 1.json", cow(), format
        )
        path = Path(folder) / "cow 1.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        damaged = replaced(content, data.draw(st.sampled_from(places(content))), data.draw(st.sampled_from(JUNK)))
        path.write_text(json.dumps(damaged))
        _read_or_name(path, format, "cow 1.json")


# not SLEAP's: a wrong byte can make HDF5 ask for all the memory there is
@pytest.mark.parametrize("format", ["coco", "csv", "deeplabcut", "labelme", "labelstudio", "yolo"])
@given(data=st.data())
@few
def test_any_byte_can_be_another_and_the_end_can_be_missing(format: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if format in ("labelme", "yolo"):
            formats.write(root, cow(), format)
            for image in cow().images:
                make_photo(root / "images" / image.file, image.size("test"))
            path = data.draw(
                st.sampled_from(sorted(file for file in root.rglob("*") if file.suffix in (".json", ".txt", ".yaml")))
            )
        else:
            path = root / "labels"
            formats.write(path, cow(), format)
            root = path
        content = bytearray(path.read_bytes())
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.sampled_from([position, len(content)]))])
        _read_or_name(root, format, path.name)


def _read_or_name(path: Path, format: str, name: str) -> None:
    try:
        found, message = formats.read(path, format), name
    except EdgeCapeError as error:
        found, message = [], str(error)
    assert found or name in message or path.name in message
