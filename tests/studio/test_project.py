"""The project folder: saved whole or not at all, and nobody's changes are lost."""

from __future__ import annotations

import io
import json
import os
import threading
import zipfile
from pathlib import Path

import pytest

from edgecape.errors import DataError, EdgeCapeError
from edgecape.examples.lamps import NAMES
from edgecape.studio.limits import Limits, RefusedError
from edgecape.studio.models import Document, Project
from edgecape.studio.project import ProjectStore

from service import SMALL, FakeModel, client, encoded, found, lamp, marks, save, shot, upload_lamps


@pytest.fixture
def http(tmp_path: Path):
    with client(tmp_path / "project", load=FakeModel) as made:
        yield made


def filled(http, number: int = 3) -> list[str]:
    """A project with a shot and queries; ids of its photos."""
    photos = upload_lamps(http, number)
    body = marks(photos[0])
    queries = [
        {"photo": photos[1], "box": [1, 2, 200, 201.5], "pose": found(lamp(1)[1], moved=[0]), "state": "accepted"},
        *({"photo": photo} for photo in photos[2:]),
    ]
    settings = {"scoreThreshold": 0.25, "graphThreshold": 0, "showNames": False}
    answer = save(http, name="Stehlampe №1", queries=queries, prior="none", settings=settings, **body)
    assert answer.status_code == 200, answer.text
    return photos


# --- saving --------------------------------------------------------------------------------------------------


def test_a_project_is_there_again_after_a_restart(http, tmp_path):
    filled(http)
    before = http.get("/api/v1/project").json()
    assert before["revision"] == 1 and before["shots"][0]["points"][0]["hidden"] is False
    with client(tmp_path / "project", load=FakeModel) as again:
        assert again.get("/api/v1/project").json() == before
        assert save(again, name="lamp").json() == {"revision": 2}


def test_a_stale_revision_changes_nothing(http):
    filled(http)
    mine, theirs = (http.get("/api/v1/project").json() for _ in range(2))
    assert http.put("/api/v1/project", json=mine | {"name": "mine"}).json() == {"revision": 2}
    answer = http.put("/api/v1/project", json=theirs | {"name": "theirs"})
    assert answer.status_code == 409 and "another window" in answer.json()["error"]
    assert http.get("/api/v1/project").json()["name"] == "mine"


def test_only_one_of_many_windows_wins(tmp_path):
    store = ProjectStore(tmp_path / "project", Limits())
    won = []

    def window(number: int) -> None:
        try:
            won.append(store.save(Document(name=str(number), revision=0)))
        except RefusedError as error:
            won.append(error.status)

    threads = [threading.Thread(target=window, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [1] + [409] * 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shots": [{"photo": "0" * 16, "points": []}]}, "no photo '0000000000000000'"),
        ({"queries": [{"photo": "0" * 16}]}, "no photo"),
        ({"names": ["a", "a"]}, "names must differ"),
        ({"names": [""]}, "names[0]"),
        ({"names": ["two\nlines"]}, "one line"),
        ({"names": ["a", "b"], "skeleton": [[0, 2]]}, "does not fit 2 keypoints"),
        ({"names": ["a", "b"], "skeleton": [[0, 0]]}, "to itself"),
        ({"names": ["a", "b"], "skeleton": [[0, -1]]}, "skeleton[0][1]"),
        ({"settings": {"scoreThreshold": 2}}, "settings.scoreThreshold"),
        ({"prompt": "0" * 16}, "no prompt"),
        ({"revision": -1}, "revision"),
        ({"quereis": []}, "quereis"),
        ({"name": "x" * 101}, "name"),
    ],
)
def test_documents_that_are_refused(http, changes, message):
    before = http.get("/api/v1/project").json()
    answer = save(http, **changes)
    assert answer.status_code == 422 and message in answer.json()["error"], answer.text
    assert http.get("/api/v1/project").json() == before


def test_poses_and_points_have_to_fit_the_keypoints(http):
    photos = filled(http)
    short = found(lamp(1)[1][:-1])
    answer = save(http, queries=[{"photo": photos[1], "pose": short, "state": "predicted"}])
    assert answer.status_code == 422 and "query 0 does not fit" in answer.json()["error"]
    answer = save(http, shots=[shot(photos[0], lamp(0)[1][:-1])])
    assert answer.status_code == 422 and "shot 0 has" in answer.json()["error"]
    text = json.dumps(http.get("/api/v1/project").json()).replace("200.0", "NaN")
    answer = http.put("/api/v1/project", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422


def test_a_crash_while_writing_leaves_the_old_project(http, tmp_path, monkeypatch):
    filled(http)
    before = http.get("/api/v1/project").json()
    content = (tmp_path / "project" / "project.json").read_bytes()

    def crash(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", crash)
        answer = save(http, name="lost")
        assert answer.status_code == 507 and "No space left" in answer.json()["error"]
    assert (tmp_path / "project" / "project.json").read_bytes() == content
    assert http.get("/api/v1/project").json() == before
    assert [path.name for path in (tmp_path / "project").iterdir() if path.name.startswith(".")] == []
    assert save(http, name="saved").status_code == 200


def test_a_disk_that_fails_is_told(http, monkeypatch):
    filled(http)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zipfile.ZipFile.write", full)
    answer = http.get("/api/v1/project/archive")
    assert answer.status_code == 507 and "No space left" in answer.json()["error"]
    assert http.get("/api/v1/project").status_code == 200


def test_what_a_crash_left_behind_is_swept(http, tmp_path):
    photos = filled(http)
    folder = tmp_path / "project"
    (folder / "photos" / "0123456789abcdef.jpg").write_bytes(b"uploaded, but never listed")
    (folder / "photos" / "mine.jpg").write_bytes(b"not ours")
    (folder / ".work" / "half").mkdir(parents=True)
    store = ProjectStore(folder, Limits())
    store.open_folder()
    assert {path.stem for path in (folder / "photos").iterdir()} == {*photos, "mine"}
    assert list((folder / ".work").iterdir()) == []
    store.close_folder()
    assert not (folder / ".work").exists() and (folder / "project.json").exists()


def test_another_program_that_writes_is_noticed(http, tmp_path):
    filled(http)
    other = ProjectStore(tmp_path / "project", Limits())
    other.save(Document(revision=1, name="other"))
    answer = save(http, name="mine")
    assert answer.status_code == 409 and "another program" in answer.json()["error"]


def test_reset_removes_photos_and_counts_on(http, tmp_path):
    filled(http)
    fresh = http.post("/api/v1/project/reset").json()
    assert fresh == Project(revision=2).model_dump(by_alias=True)
    assert list((tmp_path / "project" / "photos").iterdir()) == []


OUTSIDE = json.dumps(
    {"photos": {"0" * 16: {"id": "0" * 16, "name": "x", "width": 1, "height": 1, "suffix": "/../../../etc/passwd"}}}
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a complete JSON"),
        ("[]", "not a project"),
        ('{"revision": 0, "names": ["a", "a"]}', "names must differ"),
        ('{"more": 0}', "more"),
        (OUTSIDE, "suffix"),
    ],
)
def test_a_damaged_project_is_told_at_the_start(tmp_path, content, message):
    (tmp_path / "project.json").write_text(content)
    with pytest.raises(EdgeCapeError, match=message):
        ProjectStore(tmp_path, Limits())


def test_a_lost_photo_is_told_at_the_start(http, tmp_path):
    photos = filled(http)
    next((tmp_path / "project" / "photos").glob(f"{photos[0]}.*")).unlink()
    with pytest.raises(DataError, match="lamp0.png.* is missing"):
        ProjectStore(tmp_path / "project", Limits())


def test_a_studio_killed_before_it_wrote_a_project_starts_again(tmp_path):
    """Its first photo was stored, but no project.json listed it yet: the folder seemed to hold other things."""
    left = [tmp_path / "photos" / "0123456789abcdef.png", tmp_path / "photos" / f".{'0' * 32}.png"]
    left += [tmp_path / f".{'1' * 32}.json", tmp_path / ".work" / "half"]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    store = ProjectStore(tmp_path, Limits())
    store.open_folder()
    assert not any(path.exists() for path in left)
    (tmp_path / "photos" / "holiday.png").write_bytes(b"")
    with pytest.raises(DataError, match="holds other things"):
        ProjectStore(tmp_path, Limits())


def test_a_folder_of_other_things_is_no_project(tmp_path):
    (tmp_path / "holiday.jpg").write_bytes(b"")
    with pytest.raises(DataError, match="holds other things"):
        ProjectStore(tmp_path, Limits())
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="holds other things"):
        ProjectStore(tmp_path / "file", Limits())


# --- archives ------------------------------------------------------------------------------------------------


def test_an_archive_is_the_project(http, tmp_path):
    photos = filled(http, number=4)
    save(http, queries=http.get("/api/v1/project").json()["queries"][:1])  # two photos are not used any more
    before = http.get("/api/v1/project").json()
    archive = http.get("/api/v1/project/archive")
    assert "edgecape.zip" in archive.headers["content-disposition"]
    with client(tmp_path / "other") as other:
        upload_lamps(other, 6)
        opened = other.post("/api/v1/project/archive", files={"file": ("x.zip", archive.content)}).json()
        assert opened == other.get("/api/v1/project").json()
        assert set(opened["photos"]) == set(photos[:2]) == {path.stem for path in (tmp_path / "other/photos").iterdir()}
        for name in set(before) - {"revision", "photos"}:
            assert opened[name] == before[name], name
        for id_ in photos[:2]:
            assert other.get(f"/api/v1/photos/{id_}").content == http.get(f"/api/v1/photos/{id_}").content
        assert opened["revision"] == 1  # other windows of this studio notice


def repacked(content: bytes, change) -> bytes:
    """The archive with its files changed: name → bytes."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return file.getvalue()


def edit(files: dict[str, bytes], **changes) -> None:
    files["project.json"] = json.dumps(json.loads(files["project.json"]) | changes).encode()


def photo_of(files: dict[str, bytes]) -> str:
    return next(name for name in files if name.startswith("photos/"))


BAD = {
    "outside": (lambda files: files.update({"../../outside.txt": b"x"}), "'../../outside.txt'"),
    "absolute": (lambda files: files.update({"/tmp/outside.txt": b"x"}), "'/tmp/outside.txt'"),
    "deeper": (lambda files: files.update({"photos/../../x.jpg": b"x"}), "which no project has"),
    "another photo": (lambda files: files.update({"photos/0123456789abcdef.jpg": b"x"}), "does not list"),
    "no project": (lambda files: files.pop("project.json"), "has no project.json"),
    "no photo": (lambda files: files.pop(photo_of(files)), "no photo"),
    "other bytes": (lambda files: files.update({photo_of(files): encoded(lamp(9)[0])}), "are not those of"),
    "not a photo": (lambda files: files.update({photo_of(files): b"hello"}), "not a photo"),
    "bad document": (lambda files: edit(files, names=["a", "a"]), "must differ"),
    "bad numbers": (lambda files: edit(files, revision="x"), "revision"),
    "not JSON": (lambda files: files.update({"project.json": b"{" * 100}), "not a project archive"),
    "deep JSON": (lambda files: files.update({"project.json": b"[" * 100_000}), "not a project archive"),
    "no prompt": (lambda files: edit(files, prompt="0" * 16), "prompt"),
    "bomb": (lambda files: files.update({"project.json": b" " * 30_000_000}), "unpacks to more than"),
    "photo bomb": (lambda files: files.update({photo_of(files): bytes(60_000_000)}), "unpacks to more than"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_archive_replaces_nothing(http, tmp_path, kind):
    filled(http)
    before = http.get("/api/v1/project").json()
    tree = sorted(path for path in tmp_path.rglob("*") if ".work" not in path.parts)
    change, message = BAD[kind]
    content = repacked(http.get("/api/v1/project/archive").content, change)
    answer = http.post("/api/v1/project/archive", files={"file": ("x.zip", content)})
    assert answer.status_code in (413, 415, 422) and message in answer.json()["error"], answer.text
    assert http.get("/api/v1/project").json() == before
    assert sorted(path for path in tmp_path.rglob("*") if ".work" not in path.parts) == tree
    assert not any((tmp_path / "project" / ".work").iterdir())


def test_a_zip_whose_header_lies_is_no_bomb(http):
    """The directory says 10 bytes, the data go on."""
    filled(http)
    content = repacked(http.get("/api/v1/project/archive").content, BAD["bomb"][0])
    size = (30_000_000).to_bytes(4, "little")
    assert content.count(size) == 2
    answer = http.post(
        "/api/v1/project/archive", files={"file": ("x.zip", content.replace(size, (10).to_bytes(4, "little")))}
    )
    assert answer.status_code == 422 and "not a project archive" in answer.json()["error"]


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\3\4" + bytes(50)])
def test_what_is_no_archive(http, content):
    answer = http.post("/api/v1/project/archive", files={"file": ("x.zip", content)})
    assert answer.status_code == 422 and "not a project archive" in answer.json()["error"]


def test_archives_keep_the_limits(http, tmp_path):
    photos = upload_lamps(http, SMALL.photos + 1)
    save(http, queries=[{"photo": photo} for photo in photos], names=list(NAMES))
    content = http.get("/api/v1/project/archive").content
    with client(tmp_path / "strict", SMALL) as strict:
        answer = strict.post("/api/v1/project/archive", files={"file": ("x.zip", content)})
        assert answer.status_code == 422 and "7 photos; a project may have 6" in answer.json()["error"]
