"""Videos become photos; skeleton templates fit together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgecape import formats
from edgecape.io.video import write_video

from service import FakeModel, client, encoded, found, lamp, save


@pytest.fixture
def http(tmp_path: Path):
    with client(tmp_path / "project", load=FakeModel) as made:
        yield made


def clip(folder: Path, frames: int = 10) -> bytes:
    pictures = [np.full((48, 64, 3), 20 * n, np.uint8) for n in range(frames)]
    write_video(folder / "made.mp4", pictures, 5.0)
    return (folder / "made.mp4").read_bytes()


@pytest.mark.parametrize(("fields", "numbers"), [({"every": "4"}, [0, 4, 8]), ({"frames": "3"}, [0, 4, 9])])
def test_frames_become_photos_of_the_clip(http, tmp_path, fields, numbers):
    answer = http.post("/api/v1/videos", files={"file": ("a/clip.mp4", clip(tmp_path))}, data=fields)
    assert answer.status_code == 200, answer.text
    photos = answer.json()["photos"]
    assert [photo["frame"] for photo in photos] == numbers and {photo["clip"] for photo in photos} == {"clip.mp4"}
    assert [photo["time"] for photo in photos] == [number / 5 for number in numbers]
    queries = [{"photo": photo["id"], "pose": found([(n, n)])} for n, photo in enumerate(photos)]
    assert save(http, names=["a"], queries=queries[::-1]).status_code == 200
    (tmp_path / "table.csv").write_bytes(http.post("/api/v1/export", json={"format": "deeplabcut"}).content)
    (labels,) = formats.read(tmp_path / "table.csv")
    assert [image.file for image in labels.images] == [f"clip.mp4#{number}" for number in numbers]


@pytest.mark.parametrize("content", [b"", b"#EXTM3U\nfile:///etc/passwd", b"\0\0\0\x20ftypisom" + bytes(50)])
def test_what_is_no_video_is_told(http, tmp_path, content):
    answer = http.post("/api/v1/videos", files={"file": ("clip.mp4", content)})
    assert answer.status_code == 415 and "'clip.mp4'" in answer.json()["error"], answer.text
    assert str(tmp_path) not in answer.text


def test_templates_fit_together(http):
    given = http.get("/api/v1/templates").json()
    assert [one["name"] for one in given] == ["quadruped", "bird", "person", "hand", "insect", "face"]
    for one in given:
        K = len(one["names"])
        assert len(one["places"]) == K == len(set(one["names"])) and len({*map(tuple, one["places"])}) == K
        assert {k for edge in one["skeleton"] for k in edge} == set(range(K))
        assert save(http, names=one["names"], skeleton=one["skeleton"]).status_code == 200


def test_labels_find_a_photo_that_is_there_under_another_name(http):
    picture = encoded(lamp()[0])
    http.post("/api/v1/photos", files={"files": ("first.png", picture)})
    labels = b'{"image": "second.png", "keypoints": [[1, 1]]}'
    answer = http.post("/api/v1/import", files=[("file", ("a.json", labels)), ("photos", ("second.png", picture))])
    assert answer.status_code == 200, answer.text
    assert [photo["name"] for photo in answer.json()["photos"]] == ["first.png"] and len(answer.json()["shots"]) == 1


def test_a_full_disk_is_one_answer_without_a_path(http, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    picture = encoded(lamp()[0])
    for answer in (http.post("/api/v1/photos", files={"files": ("a.png", picture)}), save(http, name="x")):
        assert answer.status_code == 507 and "No space left" in answer.json()["error"]
        assert str(tmp_path) not in answer.text


def test_wrong_types_and_names_that_mislead_are_refused_and_edges_kept_once(http):
    for changes in ({"revision": True}, {"names": ["a\u202eb"]}, {"name": 1}):
        assert save(http, **changes).status_code == 422
    assert save(http, names=["a", "b"], skeleton=[[0, 1], [1, 0], [0, 1]]).status_code == 200
    assert http.get("/api/v1/project").json()["skeleton"] == [[0, 1]]
