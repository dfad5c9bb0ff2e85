from __future__ import annotations

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgecape import __version__
from edgecape.examples import all_examples
from edgecape.examples.lamps import EDGES, NAMES
from edgecape.studio.engine import Job
from edgecape.studio.limits import Limits
from edgecape.types import Prompt, Support

from service import (
    SMALL,
    FakeModel,
    client,
    encoded,
    lamp,
    marks,
    predict,
    save,
    shot,
    tiny_model,
    upload,
    upload_lamps,
)
from toy import estimator


@pytest.fixture
def http(tmp_path: Path):
    with client(tmp_path / "project") as made:
        yield made


@pytest.fixture
def strict(tmp_path: Path):
    """With small limits."""
    with client(tmp_path / "project", SMALL) as made:
        yield made


def test_status(http):
    http.post("/api/v1/prompts", json=marks(*upload_lamps(http, 1)))  # waits for the model
    for _ in range(100):  # the worker's thread may still be putting its tools away
        status = http.get("/api/v1/status").json()
        if not status["queue"]["running"]:
            break
        time.sleep(0.05)
    assert status["version"] == __version__
    assert status["model"]["state"] == "ready" and status["model"]["fingerprint"] == tiny_model().fingerprint
    assert status["limits"]["pixels"] == Limits().pixels and status["queue"] == {
        "waiting": 0,
        "prompts": 0,
        "running": 0,
    }


# --- prompts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("prior", "skeleton"), [("mine", EDGES), ("full", None), ("none", [])])
def test_a_prompt_is_that_of_the_model(http, tmp_path, prior, skeleton):
    first, second = upload_lamps(http, 2)
    body = marks(first, prior=prior)
    body["shots"].append(shot(second, lamp(1)[1], without=[0]) | {"box": [10, 5, 290, 310]})
    answer = http.post("/api/v1/prompts", json=body)
    assert answer.status_code == 200, answer.text
    seen = [k > 0 for k in range(len(NAMES))]
    supports = [
        Support(lamp(0)[0], lamp(0)[1], skeleton, names=NAMES),
        Support(lamp(1)[0], lamp(1)[1], skeleton, seen, box=(10, 5, 290, 310), names=NAMES),
    ]
    wanted = tiny_model().prompt(supports)
    given = answer.json()
    assert given["names"] == list(NAMES) and given["shots"] == 2
    for name in ("prior", "weights", "graph"):
        np.testing.assert_allclose(given[name], getattr(wanted, name), atol=1e-6)
    file = http.get(f"/api/v1/prompts/{given['id']}/file")
    (tmp_path / "saved.prompt").write_bytes(file.content)
    saved = Prompt.load(tmp_path / "saved.prompt")
    np.testing.assert_allclose(saved.tokens, wanted.tokens, atol=1e-6)
    assert saved.skeleton == wanted.skeleton and ".prompt" in file.headers["content-disposition"]
    assert http.get(f"/api/v1/prompts/{given['id']}").json() == given


def test_the_same_marks_give_the_same_prompt_once(tmp_path):
    model = estimator()
    made = []
    encode = model.prompt
    model.prompt = lambda supports: made.append(1) or encode(supports)
    with client(tmp_path / "project", SMALL, load=lambda: model) as http:
        photos = upload_lamps(http, 5)
        bodies = [marks(photo, n) for n, photo in enumerate(photos)]
        ids = [http.post("/api/v1/prompts", json=body).json()["id"] for body in bodies[:3]]
        assert http.post("/api/v1/prompts", json=bodies[0]).json()["id"] == ids[0]  # kept, and now the last one used
        assert len(made) == 3 and len(set(ids)) == 3
        http.post("/api/v1/prompts", json=bodies[3])
        assert len(http.app.state.studio.prompts) == SMALL.prompts
        assert http.get(f"/api/v1/prompts/{ids[0]}").status_code == 200
        gone = http.get(f"/api/v1/prompts/{ids[1]}")
        assert gone.status_code == 404 and "create it again" in gone.json()["error"]
        refused = http.post("/api/v1/predictions", json={"prompt": ids[1], "photos": [{"photo": photos[0]}]})
        assert refused.status_code == 404


def test_hidden_keypoints_count_only_where_no_other_photo_shows_them(http):
    first, second = upload_lamps(http, 2)
    K = len(NAMES)
    alone = http.post("/api/v1/prompts", json=marks(first, shots=[shot(first, lamp(0)[1], hidden=[1])]))
    plain = http.post("/api/v1/prompts", json=marks(first))
    assert alone.json()["graph"] == plain.json()["graph"]
    both = [shot(first, lamp(0)[1], hidden=[1]), shot(second, lamp(1)[1])]
    given = http.post("/api/v1/prompts", json=marks(first, shots=both)).json()
    supports = [
        Support(lamp(0)[0], lamp(0)[1], EDGES, [k != 1 for k in range(K)], names=NAMES),
        Support(lamp(1)[0], lamp(1)[1], EDGES, names=NAMES),
    ]
    np.testing.assert_allclose(given["graph"], tiny_model().prompt(supports).graph, atol=1e-6)


def test_a_prompt_file_is_kept_with_the_project(http, tmp_path):
    photo = upload_lamps(http, 1)[0]
    tiny_model().prompt(Support(lamp(0)[0], lamp(0)[1], EDGES, names=NAMES)).save(tmp_path / "lamp.prompt")
    content = (tmp_path / "lamp.prompt").read_bytes()
    http.post("/api/v1/prompts", json=marks(photo))  # waits for the model
    opened = http.post("/api/v1/prompts/file", files={"file": ("../lamp.prompt", content)})
    assert opened.status_code == 200, opened.text
    id_ = opened.json()["id"]
    assert opened.json()["names"] == list(NAMES) and opened.json()["skeleton"] == [list(edge) for edge in EDGES]
    assert save(http, prompt=id_).status_code == 200
    archive = http.get("/api/v1/project/archive").content
    http.post("/api/v1/project/reset")
    assert save(http, prompt=id_).status_code == 422
    assert http.post("/api/v1/project/archive", files={"file": ("a.zip", archive)}).json()["prompt"] == id_
    http.app.state.studio.prompts._prompts.clear()  # as after a restart
    photo = upload_lamps(http, 1)[0]
    assert "pose" in predict(http, id_, [photo])[0]


def test_prompt_files_that_are_none(http, tmp_path):
    photo = upload_lamps(http, 1)[0]
    http.post("/api/v1/prompts", json=marks(photo))
    other = estimator(seed=1)
    other.runtime.fingerprint = "another"
    other.prompt(Support(lamp(0)[0], lamp(0)[1])).save(tmp_path / "other.prompt")
    for content, message in (
        (b"", "not a prompt"),
        (b"PK\3\4 no", "not a prompt"),
        ((tmp_path / "other.prompt").read_bytes(), "another model"),
    ):
        answer = http.post("/api/v1/prompts/file", files={"file": ("my.prompt", content)})
        assert answer.status_code == 422 and message in answer.json()["error"], answer.text
        assert "'my.prompt'" in answer.json()["error"] and str(tmp_path) not in answer.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": []}, "0 keypoints"),
        ({"shots": []}, "no marked photo"),
        ({"names": [*NAMES[:-1], NAMES[0]]}, "names must differ"),
        ({"skeleton": [[0, 99]]}, "does not fit"),
        ({"skeleton": [[1, 1]]}, "to itself"),
        ({"prior": "some"}, "prior"),
        ({"shots": [{"photo": "0" * 16, "points": [{"x": 1, "y": 1}] * len(NAMES)}]}, "no photo"),
        ({"more": 1}, "more"),
    ],
)
def test_marks_that_make_no_prompt(http, changes, message):
    answer = http.post("/api/v1/prompts", json=marks(upload_lamps(http, 1)[0], **changes))
    assert answer.status_code in (404, 422) and message in answer.json()["error"], answer.text


def test_a_keypoint_outside_its_box_is_named(http):
    body = marks(upload_lamps(http, 1)[0])
    body["shots"][0]["box"] = [0, 0, 5, 5]
    answer = http.post("/api/v1/prompts", json=body)
    assert answer.status_code == 422 and "outside the box" in answer.json()["error"]


# --- predictions ---------------------------------------------------------------------------------------------


def test_predictions_are_those_of_the_model_in_order(http):
    photos = upload_lamps(http, 4)
    id_ = http.post("/api/v1/prompts", json=marks(photos[0])).json()["id"]
    asked = [*photos, photos[0]]  # the marked photo is a query as well, twice
    boxes = [None, [10, 20, 150, 180], None, [0, 0, 90, 200], [5, 5, 150, 150]]
    lines = predict(http, id_, asked, boxes)
    assert [line["index"] for line in lines] == list(range(5)) and [line["photo"] for line in lines] == asked
    model = tiny_model()
    prompt = model.prompt(Support(lamp(0)[0], lamp(0)[1], EDGES, names=NAMES))
    wanted = model.predict(prompt, [lamp(n)[0] for n in (0, 1, 2, 3, 0)], boxes)
    for line, pose in zip(lines, wanted, strict=True):
        side = max(lamp(0)[0].shape)
        np.testing.assert_allclose(line["pose"]["keypoints"], pose.keypoints, atol=1e-4 * side)
        np.testing.assert_allclose(line["pose"]["scores"], pose.scores, atol=1e-4)


def test_the_default_model(tmp_path):
    from edgecape import EdgeCape

    model = EdgeCape.from_pretrained()
    example = all_examples()[0]
    wanted = model.predict(model.prompt(example.support), list(example.queries))
    with client(tmp_path / "project", load=lambda: model) as http:
        given = http.post("/api/v1/examples/cat").json()
        body = {name: given[name] for name in ("names", "skeleton", "shots")}
        prompt = http.post("/api/v1/prompts", json=body).json()["id"]
        lines = predict(http, prompt, [query["photo"] for query in given["queries"]])
    for line, pose, photo in zip(lines, wanted, example.queries, strict=True):
        np.testing.assert_allclose(line["pose"]["keypoints"], pose.keypoints, atol=1e-4 * max(photo.shape))


def test_a_photo_that_went_bad_is_one_line_among_others(http):
    photos = upload_lamps(http, 3)
    id_ = http.post("/api/v1/prompts", json=marks(photos[0])).json()["id"]
    http.app.state.studio.store.path(photos[1]).write_bytes(b"no picture any more")
    lines = predict(http, id_, photos)
    assert ["pose" in line for line in lines] == [True, False, True]
    assert "'lamp1.png'" in lines[1]["error"] and "/" not in lines[1]["error"]


def test_an_upright_photo_for_a_turned_file(http):
    """Coordinates are those of the upright photo, whatever way its pixels are stored."""
    picture = lamp(0)[0]
    turned = Image.fromarray(np.rot90(picture)).copy()  # 90° to the left …
    exif = Image.Exif()
    exif[0x0112] = 6  # … and the camera says: turn right
    plain = upload(http, ("plain.png", encoded(picture))).json()["photos"][0]
    photo = upload(http, ("turned.png", encoded(turned, exif=exif))).json()["photos"][0]
    height, width = picture.shape[:2]
    assert (photo["width"], photo["height"]) == (width, height) == (plain["width"], plain["height"])
    prompts = [http.post("/api/v1/prompts", json=marks(one["id"])).json() for one in (plain, photo)]
    np.testing.assert_allclose(prompts[0]["graph"], prompts[1]["graph"], atol=1e-6)
    lines = predict(http, prompts[0]["id"], [plain["id"], photo["id"]])
    np.testing.assert_allclose(lines[0]["pose"]["keypoints"], lines[1]["pose"]["keypoints"], atol=1e-3)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"photos": []}, "at least 1"),
        ({"photos": [{"photo": "0" * 16}]}, "no photo"),
        ({"photos": [{"photo": "../../etc/passwd"}]}, "pattern"),
        ({"photos": [{"photo": "{photo}", "box": [0, 0, 0, 10]}]}, "no area"),
    ],
)
def test_predictions_that_cannot_be_made(http, body, message):
    photo = upload_lamps(http, 1)[0]
    id_ = http.post("/api/v1/prompts", json=marks(photo)).json()["id"]
    text = json.dumps({"prompt": id_, **body}).replace("{photo}", photo)
    answer = http.post("/api/v1/predictions", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code in (404, 422) and message in answer.json()["error"], answer.text


# --- limits --------------------------------------------------------------------------------------------------


def test_each_limit_is_a_clear_answer(strict):
    noise = np.random.default_rng(0).integers(0, 255, (400, 400, 3), dtype=np.uint8)
    large = upload(strict, ("large.png", encoded(noise)))
    assert large.status_code == 413 and "400,000 bytes" in large.json()["error"]
    wide = upload(strict, ("wide.png", encoded(np.zeros((600, 1000, 3), np.uint8))))
    assert wide.status_code == 413 and "1000 × 600" in wide.json()["error"]
    photos = upload_lamps(strict, SMALL.photos)
    more = upload(strict, ("one-more.png", encoded(lamp(9)[0])))
    assert more.status_code == 422 and "6 photos" in more.json()["error"]
    assert upload(strict, ("again.png", encoded(lamp(0)[0]))).json()["photos"][0]["name"] == "lamp0.png"
    many = marks(photos[0], names=[f"k{k}" for k in range(9)])
    for answer in (strict.post("/api/v1/prompts", json=many), save(strict, names=many["names"])):
        assert answer.status_code == 422 and "9 keypoints are too many" in answer.json()["error"]
    shots = strict.post("/api/v1/prompts", json=marks(photos[0], shots=[shot(photos[0], lamp(0)[1])] * 5))
    assert shots.status_code == 422 and "5 marked photos" in shots.json()["error"]
    prompt = strict.post("/api/v1/prompts", json=marks(photos[0])).json()["id"]
    long = {"prompt": prompt, "photos": [{"photo": photos[0]}] * 8}
    assert "8 photos are too many" in strict.post("/api/v1/predictions", json=long).json()["error"]
    body = strict.post(
        "/api/v1/prompts", content=b"[" + b" " * 300_000 + b"]", headers={"Content-Type": "application/json"}
    )
    assert body.status_code == 413 and "200,000" in body.json()["error"]
    chunked = strict.post("/api/v1/prompts", content=(b" " * 50_000 for _ in range(6)))
    assert chunked.status_code == 413 and "200,000" in chunked.json()["error"]
    whole = upload(strict, *((f"{n}.png", bytes(300_000)) for n in range(14)))
    assert whole.status_code == 413


def test_the_queue_is_bounded(tmp_path):
    model = FakeModel(closed=True)
    with client(tmp_path / "project", SMALL, load=lambda: model) as http:
        photos = upload_lamps(http, 6)
        studio = http.app.state.studio
        studio.prompts.keep("0" * 16, object())
        studio.engine.predict(object(), [Job(studio.store.path(photos[0]))] * 18, lambda outcome: None)
        model.begun.acquire()  # one of them runs, 17 wait
        studio.engine.predict(object(), [Job(studio.store.path(photos[0]))] * 2, lambda outcome: None)
        full = http.post("/api/v1/predictions", json={"prompt": "0" * 16, "photos": [{"photo": photos[0]}] * 2})
        assert full.status_code == 429 and int(full.headers["Retry-After"]) > 0
        assert "19 photos wait already and 20 may" in full.json()["error"]
        assert http.get("/api/v1/status").json()["queue"] == {"waiting": 19, "prompts": 0, "running": 1}
        model.let_through(20)


# --- examples and the rest -----------------------------------------------------------------------------------


def test_examples(http):
    names = [example["name"] for example in http.get("/api/v1/examples").json()]
    assert names == ["cat", "lamp"]
    for name in names:
        given = http.post(f"/api/v1/examples/{name}").json()
        again = http.post(f"/api/v1/examples/{name}").json()
        assert given == again and len(given["photos"]) == 3 and len(given["queries"]) == 2
        saved = save(http, **{key: given[key] for key in ("names", "skeleton", "shots", "queries")})
        assert saved.status_code == 200, saved.text
    missing = http.post("/api/v1/examples/..%2F..%2Fdog")
    assert missing.status_code == 404


def test_unknown_addresses_and_methods_are_problems_too(http):
    assert http.get("/api/v1/nothing").json()["error"]
    assert http.delete("/api/v1/status").status_code == 405 and http.delete("/api/v1/status").json()["error"]
    assert http.post("/api/v1/prompts", content=b"{", headers={"Content-Type": "application/json"}).json()["error"]
    deep = b"[" * 100_000
    assert http.post("/api/v1/prompts", content=deep, headers={"Content-Type": "application/json"}).status_code in (
        400,
        422,
    )


def test_the_description_and_its_page(http):
    api = http.get("/openapi.json").json()
    operations = [what for item in api["paths"].values() for what in item.values()]
    assert len(operations) >= 19
    assert all(what["summary"] and what["description"] and "4XX" in what["responses"] for what in operations)
    page = http.get("/docs")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    for path in api["paths"]:
        assert path in page.text
    for name in api["components"]["schemas"]:
        assert f'id="{name}"' in page.text
    assert not re.search(r"(src|href)=\"(?![/#])", page.text) and "<script" not in page.text
    assert http.get("/docs.css").headers["content-type"].startswith("text/css")
    assert "<html" in http.get("/").text.lower()


def test_a_model_that_cannot_be_loaded_is_told(tmp_path):
    from edgecape.errors import WeightsError

    def fail():
        raise WeightsError("there is no model at 'x'")

    with client(tmp_path / "project", load=fail) as http:
        http.app.state.studio.engine.loaded.wait()
        assert http.get("/api/v1/status").json()["model"]["state"] == "failed"
        answer = http.post("/api/v1/prompts", json=marks(upload_lamps(http, 1)[0]))
        assert answer.status_code == 503 and "no model at 'x'" in answer.json()["error"]
