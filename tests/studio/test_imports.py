"""Beginning with the label file of another tool."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from edgecape import formats
from edgecape.examples.lamps import EDGES, NAMES
from edgecape.formats import LabelledImage, LabelledObject, LabelSet

from service import SMALL, FakeModel, client, encoded, lamp, save, upload_lamps

K = len(NAMES)
BOX = (5.0, 6.0, 280.0, 300.0)
SLEAP = importlib.util.find_spec("sleap_io")


@pytest.fixture
def http(tmp_path: Path):
    with client(tmp_path / "project", load=FakeModel) as made:
        yield made


def labels(category: str = "lamp", number: int = 2, names: tuple[str, ...] = NAMES, first: int = 0) -> LabelSet:
    images = []
    for n in range(first, first + number):
        picture, keypoints = lamp(n)
        visible, occluded = [k != 2 for k in range(K)], [k == 1 for k in range(K)]
        thing = LabelledObject(keypoints, visible, occluded, box=BOX)
        images.append(LabelledImage(f"photos/lamp{n}.png", picture.shape[1], picture.shape[0], (thing,)))
    return LabelSet(names, EDGES, category, images)


def post(http, name: str, content: bytes, photos: tuple[int, ...] = ()):
    files = [("file", (name, content))]
    files += [("photos", (f"lamp{n}.png", encoded(lamp(n)[0]))) for n in photos]
    return http.post("/api/v1/import", files=files)


@pytest.mark.parametrize(
    ("format", "name"),
    [
        ("coco", "labels.json"),
        ("csv", "labels.csv"),
        ("deeplabcut", "labels.csv"),
        ("labelme", "labels.json"),
        ("labelstudio", "../labels.JSON"),
        pytest.param("sleap", "labels.slp", marks=pytest.mark.skipif(not SLEAP, reason="sleap-io is missing")),
    ],
)
def test_marks_of_other_tools(http, tmp_path, format, name):
    one = format in ("labelme",)
    path = tmp_path / Path(name).name.lower()
    formats.write(path, labels(number=1 if one else 2), format)
    answer = post(http, name, path.read_bytes(), (0,) if one else (0, 1))
    assert answer.status_code == 200, answer.text
    given = answer.json()
    order = [given["names"].index(name) for name in NAMES if name in given["names"]]
    assert (
        len(given["shots"]) == len(given["photos"]) == (1 if one else 2) and given["failed"] == given["missing"] == []
    )
    for n, marked in enumerate(given["shots"]):
        points = [marked["points"][k] for k in order]
        wanted = [k for k in range(K) if k != 2]
        if len(points) == K:
            assert points[2] is None
            points.pop(2)
        np.testing.assert_allclose([(p["x"], p["y"]) for p in points], lamp(n)[1][wanted], atol=2e-3)
        if format in ("coco", "csv", "labelme"):
            assert [p["hidden"] for p in points] == [k == 1 for k in wanted]
            np.testing.assert_allclose(marked["box"], BOX, atol=2e-3)
    assert http.get("/api/v1/project").json()["shots"] == []  # the document stays
    saved = save(http, names=given["names"], skeleton=given["skeleton"], shots=given["shots"])
    assert saved.status_code == 200, saved.text
    if format == "coco":
        assert given["skeleton"] == [list(edge) for edge in EDGES]


def test_our_small_json(http):
    entry = {
        "image": "a/b/lamp0.png",
        "keypoints": lamp(0)[1].tolist(),
        "visible": [True] * (K - 1) + [False],
        "skeleton": [[0, 1]],
    }
    given = post(http, "lamp.json", json.dumps(entry).encode(), (0,)).json()
    assert given["names"] == [f"kp{k}" for k in range(K)] and given["skeleton"] == [[0, 1]]
    assert [point is None for point in given["shots"][0]["points"]] == [False] * (K - 1) + [True]


def test_photos_of_the_project_count_by_name_and_missing_ones_are_named(http, tmp_path):
    upload_lamps(http, 1)
    formats.write(tmp_path / "labels.json", labels(number=3), "coco")
    given = post(http, "labels.json", (tmp_path / "labels.json").read_bytes()).json()
    assert [photo["name"] for photo in given["photos"]] == ["lamp0.png"]
    assert given["missing"] == ["lamp1.png", "lamp2.png"] and len(given["shots"]) == 1


def test_the_kind_of_object_that_the_photos_show_is_taken(http, tmp_path):
    others = labels("other", names=tuple(f"{name} too" for name in NAMES), first=2)
    formats.write(tmp_path / "labels.json", [labels(), others], "coco")
    content = (tmp_path / "labels.json").read_bytes()
    assert post(http, "labels.json", content, (2,)).json()["names"][0] == f"{NAMES[0]} too"
    both = post(http, "labels.json", content, (0, 2))
    assert both.status_code == 422 and "several kinds of object" in both.json()["error"]


def test_what_edges_were_taken_for_is_told(http, tmp_path):
    formats.write(tmp_path / "labels.json", labels(), "coco")
    content = json.loads((tmp_path / "labels.json").read_text())
    assert post(http, "labels.json", json.dumps(content).encode(), (0, 1)).json()["notes"] == []
    content["info"], content["categories"][0]["skeleton"] = {}, [[1, 2]]
    (note,) = post(http, "labels.json", json.dumps(content).encode(), (0, 1)).json()["notes"]
    assert "edges taken as counted from 0" in note


def test_a_photo_of_another_size_is_not_the_one(http, tmp_path):
    formats.write(tmp_path / "labels.json", labels(), "coco")
    files = [
        ("file", ("labels.json", (tmp_path / "labels.json").read_bytes())),
        ("photos", ("lamp0.png", encoded(lamp(0)[0][:100]))),
        ("photos", ("lamp1.png", encoded(lamp(1)[0]))),
        ("photos", ("notes.png", b"no photo")),
    ]
    given = http.post("/api/v1/import", files=files).json()
    assert [photo["name"] for photo in given["photos"]] == ["lamp1.png"]
    assert [failure["name"] for failure in given["failed"]] == ["notes.png", "lamp0.png"]
    assert "× 100" in given["failed"][1]["error"]


@pytest.mark.parametrize(
    ("name", "content", "status", "message"),
    [
        ("labels.json", b"", 422, "not a complete JSON"),
        ("labels.json", b"{}", 422, "no known format"),
        ("labels.json", b"\xff\xfe", 422, "not a complete JSON"),
        ("labels.json", b"[" * 100_000, 422, "not a complete JSON"),
        ("labels.json", b'{"image": "lamp0.png", "keypoints": "x"}', 422, "list of (x, y)"),
        ("labels.json", b'{"image": "lamp0.png", "keypoints": [[1e30, 1]]}', 422, "cannot be used"),
        ("labels.json", b'{"image": "lamp0.png", "keypoints": [[1, 1]], "names": ["a\\nb"]}', 422, "one line"),
        ("labels.json", b'{"image": "other.png", "keypoints": [[1, 1]]}', 422, "'other.png'"),
        ("labels.csv", b"\0\0", 422, "no known format"),
        ("labels.yaml", b"kpt_shape: [1, 2]\npath: /etc\n", 415, "cannot be opened"),
        ("labels.h5", b"", 422, "not a DeepLabCut"),
        ("labels.slp", b"no", 422, "not a SLEAP file"),
        ("labels", b"", 415, "cannot be opened"),
    ],
)
def test_files_that_are_no_labels(http, tmp_path, name, content, status, message):
    answer = post(http, name, content, (0,))
    assert answer.status_code == status and message in answer.json()["error"], answer.text
    assert str(tmp_path) not in answer.text and list((tmp_path / "project").rglob("labels*")) == []


def test_limits_hold_for_imports_too(tmp_path):
    with client(tmp_path / "project", SMALL) as http:
        entry = {"image": "lamp0.png", "keypoints": [[n, n] for n in range(9)]}
        answer = post(http, "a.json", json.dumps(entry).encode(), (0,))
        assert answer.status_code == 422 and "9 keypoints are too many" in answer.json()["error"]
        answer = post(http, "a.json", json.dumps([entry | {"keypoints": [[1, 1]]}] * 5).encode(), (0,))
        assert answer.status_code == 422 and "5 marked photos are too many" in answer.json()["error"]
        answer = post(http, "a.json", b" " * 500_000)
        assert answer.status_code == 413
