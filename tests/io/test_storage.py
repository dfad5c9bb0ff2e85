from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecape.errors import DataError, MissingPackageError
from edgecape.io import storage
from edgecape.io.files import atomic_write
from edgecape.io.storage import LocalFolder, RemoteFolder, open_folder


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """A connection keeps the environment that it was made in."""
    storage._filesystem.cache_clear()
    yield
    storage._filesystem.cache_clear()


@pytest.fixture(params=["local", "s3"])
def folder(request, tmp_path: Path) -> LocalFolder | RemoteFolder:
    if request.param == "s3":
        request.getfixturevalue("s3")
    return open_folder(tmp_path / "new" if request.param == "local" else f"s3://out/{tmp_path.name}/")


def write(folder: LocalFolder | RemoteFolder, name: str, content: bytes) -> None:
    with folder.writing(name) as path, atomic_write(path, "wb") as file:
        file.write(content)


def test_what_is_written_comes_back(folder, tmp_path):
    assert folder.read("a/b c#ü.bin") is None and list(folder.files()) == []
    write(folder, "a/b c#ü.bin", b"\x00one")
    write(folder, "a/b c#ü.bin", b"\x00other")
    write(folder, "d.gz", b"not unpacked by anybody")
    assert folder.read("a/b c#ü.bin") == b"\x00other" and folder.read("d.gz") == b"not unpacked by anybody"
    assert sorted((file.name, file.bytes) for file in folder.files()) == [("a/b c#ü.bin", 6), ("d.gz", 23)]
    assert [file.name for file in folder.files("a")] == ["a/b c#ü.bin"] and not list(folder.files("b"))
    with folder.reading("a/b c#ü.bin") as path:
        assert path.read_bytes() == b"\x00other" and path.name == "b c#ü.bin"
    folder.remove("d.gz")
    assert folder.read("d.gz") is None


def test_whole_folders(folder):
    with folder.writing("predictions") as path:
        for name in ("data.yaml", "labels/a.txt"):
            with atomic_write(path / name) as file:
                file.write(name)
    assert folder.read("predictions/labels/a.txt") == b"labels/a.txt"


def test_a_failure_leaves_what_was_there(folder):
    write(folder, "a", b"old")

    def fail() -> None:
        with folder.writing("a") as path, atomic_write(path, "wb") as file:
            file.write(b"half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert folder.read("a") == b"old" and [file.name for file in folder.files()] == ["a"]


def test_an_upload_that_fails_leaves_nothing(s3, tmp_path, monkeypatch):
    folder = RemoteFolder("s3://out/broken")

    def fail(source, target, length):
        target.write(source.read(3))
        raise OSError("the line is cut")

    monkeypatch.setattr(storage.shutil, "copyfileobj", fail)
    with pytest.raises(DataError, match="s3://out/broken/a cannot be written: the line is cut"):
        write(folder, "a", b"whole")
    assert folder.read("a") is None


def test_large_files_go_up_in_pieces(s3):
    folder = RemoteFolder("s3://out/large")
    content = bytes(range(256)) * (12 << 12)
    write(folder, "a", content)
    assert folder.read("a") == content


def test_facts_of_a_file(s3):
    folder = RemoteFolder("s3://out/facts")
    write(folder, "a.jpg", b"12345")
    assert folder.facts("a.jpg").bytes == 5 and folder.facts("a.jpg").mtime > 0 and folder.facts("b.jpg") is None


def test_a_bucket_that_is_not_there(s3):
    for ask in (lambda folder: list(folder.files()), lambda folder: write(folder, "a", b"1")):
        with pytest.raises(DataError, match=r"s3://nowhere/x.* cannot be (listed|written): .*bucket"):
            ask(RemoteFolder("s3://nowhere/x"))


@pytest.mark.parametrize("key", ["", "somebody"])
def test_without_credentials(s3, monkeypatch, key):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, key) if key else monkeypatch.delenv(name)
    with pytest.raises(DataError, match="check the credentials"):
        list(RemoteFolder("s3://out/x").files())


def test_a_server_that_is_not_there(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(DataError, match="check the connection"):
        list(RemoteFolder("s3://out/x").files())


@pytest.mark.parametrize("place", ["foo://bucket/x", "s3:///x"])
def test_places_that_nobody_knows(place):
    with pytest.raises(DataError, match="no place that can be reached"):
        RemoteFolder(place).read("a")


def test_forgotten_copies_are_cleared(tmp_path, monkeypatch):
    monkeypatch.setattr(storage.tempfile, "tempdir", str(tmp_path))
    for name in ("edgecape-copy-old", "edgecape-copy-new", "other-old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jpg").touch()
        if name.endswith("old"):
            os.utime(tmp_path / name, (1, 1))
    storage.clear_copies()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edgecape-copy-new", "other-old"]


def test_stores_need_a_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'edgecape\[cluster\]'"):
        RemoteFolder("s3://out/x").read("a")
