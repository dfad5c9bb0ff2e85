"""What is exported is what the project holds, in every format."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from edgecape import formats
from edgecape.examples.lamps import EDGES, NAMES

from service import FakeModel, client, encoded, found, lamp, marks, save, shot, upload, upload_lamps

K = len(NAMES)
BOX = [12.5, 7, 200, 280.25]
READ_BACK = tuple(name for name, format in formats.FORMATS.items() if format.reader)
KNOWS_BOXES = ("coco", "cvat", "labelme", "csv", "yolo", "labelstudio")


@pytest.fixture
def http(tmp_path: Path):
    with client(tmp_path / "project", load=FakeModel) as made:
        yield made


def fill(http) -> list[str]:
    """A shot with a hidden and an unplaced keypoint, poses of every state, and a photo that is shot and query.

    Keypoint 0 was not found on the third photo.
    """
    photos = upload_lamps(http, 6)
    states = ["predicted", "accepted", "waiting", "failed", "accepted"]  # whatever it is, a pose is exported
    queries = []
    for n, (photo, state) in enumerate(zip(photos[1:], states, strict=True), start=1):
        pose = found(lamp(n)[1] + 0.123, moved=[1], lost=[0] if n == 2 else [])
        queries.append({"photo": photo, "box": BOX if n == 2 else None, "state": state, "pose": pose})
    body = marks(photos[0], shots=[shot(photos[0], lamp(0)[1], hidden=[1], without=[3]), shot(photos[5], lamp(5)[1])])
    answer = save(http, name="desk lamp", queries=queries, **body)
    assert answer.status_code == 200, answer.text
    return photos


def unpack(content: bytes, folder: Path, name: str) -> Path:
    """Where the labels are, from the file or from the zip."""
    folder.mkdir()
    if not zipfile.is_zipfile(io.BytesIO(content)):
        (folder / name).write_bytes(content)
        return folder / name
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(folder)
    files = [path for path in folder.iterdir() if path.is_file() and path.stem == "labels" and path.suffix != ".xml"]
    return files[0] if files else folder


def test_every_format_is_offered(http):
    offered = http.get("/api/v1/formats").json()
    assert {one["name"] for one in offered} == set(formats.FORMATS)
    assert all(one["title"] and one["about"] and one["suffix"].startswith(".") for one in offered)


@pytest.mark.parametrize("with_photos", [False, True])
@pytest.mark.parametrize("format", READ_BACK)
def test_exported_pixels_are_the_projects(http, tmp_path, format, with_photos):
    fill(http)
    answer = http.post("/api/v1/export", json={"format": format, "photos": with_photos or format == "yolo"})
    assert answer.status_code == 200, answer.text
    name = unquote(answer.headers["content-disposition"])
    suffix = next(one["suffix"] for one in http.get("/api/v1/formats").json() if one["name"] == format)
    assert f"desk lamp-{format}{'.zip' if with_photos or format == 'yolo' else suffix}" in name
    path = unpack(answer.content, tmp_path / "read", f"labels{suffix}")
    (labels,) = formats.read(path)
    assert labels.names == NAMES
    images = {Path(image.file).name: image for image in labels.images}
    assert {name for name, image in images.items() if image.objects} == {f"lamp{n}.png" for n in range(6)}
    for n in range(6):
        (thing,) = images[f"lamp{n}.png"].objects
        wanted = lamp(n)[1] + (0.123 if n in (1, 2, 3, 4) else 0)
        shown = [(n, k) not in ((0, 3), (2, 0)) for k in range(K)]
        assert thing.visible.tolist() == shown, n
        np.testing.assert_allclose(thing.keypoints[shown], wanted[shown], atol=2e-3)
        if thing.scores is not None and n in (1, 2, 3, 4):
            np.testing.assert_allclose(thing.scores, [0 if n == 2 else 0.5, 1.0] + [0.5] * (K - 2), atol=1e-3)
        if n == 2 and format in KNOWS_BOXES:
            np.testing.assert_allclose(thing.box, BOX, atol=2e-3)
    if format in ("coco", "csv", "labelme", "yolo"):
        assert images["lamp0.png"].objects[0].occluded.tolist() == [k == 1 for k in range(K)]
    if format in ("coco", "labelme", "sleap", "yolo"):
        assert set(labels.skeleton or ()) == set(EDGES)
    if with_photos:
        stored = [path.read_bytes() for path in (tmp_path / "project" / "photos").iterdir()]
        photos = sorted((tmp_path / "read").rglob("*.png"))
        assert [photo.name for photo in photos] == [f"lamp{n}.png" for n in range(6)]
        assert all(photo.read_bytes() in stored for photo in photos)


def test_results_and_cvat(http):
    fill(http)
    results = json.loads(http.post("/api/v1/export", json={"format": "coco-results"}).content)
    assert [entry["image_id"] for entry in results] == [1, 2, 3, 4, 5, 6]
    np.testing.assert_allclose(np.reshape(results[1]["keypoints"], (-1, 3))[:, :2], lamp(1)[1] + 0.123, atol=2e-3)
    cvat, coco = (http.post("/api/v1/export", json={"format": format}).content for format in ("cvat", "coco"))
    assert cvat == coco and json.loads(coco)["categories"][0]["name"] == "desk lamp"


def test_a_keypoint_that_was_not_found_is_not_labelled(http):
    fill(http)
    content = json.loads(http.post("/api/v1/export", json={"format": "coco"}).content)
    (lost,) = (one for one in content["annotations"] if one["keypoints"][:3] == [0, 0, 0])
    assert lost["num_keypoints"] == K - 1 and lost["keypoint_scores"][0] == 0
    assert lost["score"] == pytest.approx((1 + 0.5 * (K - 2)) / (K - 1))  # of those that were found
    queries = http.get("/api/v1/project").json()["queries"]
    for query in queries:
        query["pose"]["keypoints"] = [None] * K
    assert save(http, queries=queries).status_code == 200
    content = json.loads(http.post("/api/v1/export", json={"format": "coco"}).content)
    assert len(content["annotations"]) == 2  # the shots: where nothing was found, nothing is said


def test_two_objects_of_one_photo(http):
    photo = upload_lamps(http, 1)[0]
    names = {"names": ["a", "b"], "skeleton": []}
    queries = [
        {"photo": photo, "box": box, "state": "accepted", "pose": found([(x, x), (x + 9, x)])}
        for x, box in ((10, [0, 0, 50, 50]), (60, [50, 50, 50, 50]))
    ]
    assert save(http, queries=queries, **names).status_code == 200
    content = json.loads(http.post("/api/v1/export", json={"format": "coco"}).content)
    assert len(content["images"]) == 1 and [one["keypoints"][0] for one in content["annotations"]] == [10, 60]


def test_nothing_to_export_and_no_such_format(http):
    empty = http.post("/api/v1/export", json={"format": "coco"})
    assert empty.status_code == 422 and "nothing to export" in empty.json()["error"]
    fill(http)
    for format in ("tiff", "../coco", "", "x" * 1000):
        answer = http.post("/api/v1/export", json={"format": format})
        assert answer.status_code == 422 and "coco-results" in answer.json()["error"]


def test_nothing_is_left_behind(http, tmp_path):
    fill(http)
    for format in (*formats.FORMATS, "none"):
        http.post("/api/v1/export", json={"format": format, "photos": True})
    http.get("/api/v1/project/archive")
    assert list((tmp_path / "project" / ".work").iterdir()) == []


@pytest.mark.parametrize("format", ["csv", "deeplabcut"])
def test_names_that_look_like_formulas_are_no_formulas_in_a_table(http, tmp_path, format):
    """Neither keypoints nor photos; reading the table gives the names again."""
    photo = upload(http, ("=cmd.png", encoded(lamp()[0]))).json()["photos"][0]["id"]
    names = ["=1+1", "'=1", "-x", "plain"]
    queries = [{"photo": photo, "pose": found([(n, n) for n in range(4)])}]
    assert save(http, names=names, queries=queries).status_code == 200
    content = http.post("/api/v1/export", json={"format": format}).content
    cells = {cell for line in content.decode().splitlines() for cell in line.split(",")}
    assert cells >= {"'=1+1", "''=1", "'-x", "plain", "'=cmd.png"}
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
    (tmp_path / "labels.csv").write_bytes(content)
    (labels,) = formats.read(tmp_path / "labels.csv")
    assert list(labels.names) == names and labels.images[0].file == "=cmd.png"
