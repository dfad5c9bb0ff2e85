"""Nobody ever sees half a file, and errors name the file."""

from __future__ import annotations

import gzip
import json
import stat
from pathlib import Path

import pytest

from edgecape.errors import DataError
from edgecape.io.files import atomic_path, atomic_write, read_json, read_yaml, write_json


@pytest.mark.parametrize(("mode", "content"), [("w", "keypoints: é, 牛\n"), ("wb", b"\x00\xff")])
def test_atomic_write_makes_the_folder_and_the_file(tmp_path: Path, mode: str, content: str | bytes) -> None:
    target = tmp_path / "new" / "folder" / "file.txt"
    with atomic_write(target, mode) as file:
        file.write(content)
        assert not target.exists()
    assert (target.read_bytes() if mode == "wb" else target.read_text(encoding="utf-8")) == content
    assert list(target.parent.iterdir()) == [target]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "file.json"
    target.write_text("old")

    def fail() -> None:
        with atomic_write(target) as file:
            file.write("half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_files_have_the_usual_rights(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    write_json(tmp_path / "ours.json", {})
    assert stat.S_IMODE((tmp_path / "ours.json").stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)


def test_atomic_path_keeps_the_suffix_for_libraries_that_look_at_it(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "labels.slp") as temporary:
        assert temporary.suffix == ".slp"
        assert temporary.parent == tmp_path
        temporary.write_bytes(b"x")
    assert (tmp_path / "labels.slp").read_bytes() == b"x"


def test_a_long_name_is_no_trouble(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 250 + ".json")
    write_json(target, [1])
    assert read_json(target) == [1]


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file/below\.json cannot be written: (File exists|Not a directory)"):
        write_json(tmp_path / "file" / "below.json", {})


def test_json_is_plain_text_and_has_no_nan(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"name": "Nüster 牛"})
    assert "Nüster 牛" in (tmp_path / "a.json").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "a.json", float("nan"))
    assert read_json(tmp_path / "a.json") == {"name": "Nüster 牛"}


def test_packed_json_and_byte_order_marks_are_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.json.gz", "wt") as file:
        json.dump([1, 2], file)
    (tmp_path / "b.json").write_text("[1, 2]", encoding="utf-8-sig")
    assert read_json(tmp_path / "a.json.gz") == read_json(tmp_path / "b.json") == [1, 2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b'{"a": ', "not a complete JSON file"),
        ("a.json", b"\xff\xfe", "not a complete JSON file"),
        ("a.json", b"[" * 100_000, "not a complete JSON file"),
        ("a.json.gz", b"not packed", "cannot be read"),
        ("a.yaml", b"a: [1, ", "not a YAML file"),
        ("a.yaml", b"a: !!python/object/apply:os.system ['true']", "not a YAML file"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        (read_yaml if name.endswith("yaml") else read_json)(tmp_path / name)
    assert name in str(caught.value)


@pytest.mark.parametrize("reader", [read_json, read_yaml])
def test_missing_files_are_named(tmp_path: Path, reader) -> None:
    with pytest.raises(DataError, match=r"nothing\.here does not exist"):
        reader(tmp_path / "nothing.here")
