"""The examples in the API's description, typed as they stand there: all work, and the answers look as promised."""

from __future__ import annotations

import io
import json
import shlex
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgecape.io.video import write_video
from edgecape.studio import samples

from browser import ground
from service import client

NAMED_BY_USERS = ("photos", "facts")  # objects whose keys are no part of the shape


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A studio with the story's project, and a folder with its files."""
    monkeypatch.chdir(tmp_path)
    for name, size, seed in (("cow.jpg", (640, 480), 0), ("calf.jpg", (600, 800), 1)):
        ground(size, seed).save(name)
    write_video("herd.mp4", [np.asarray(ground((64, 48), seed)) for seed in range(3)], 5.0)
    Path("labels.json").write_text('{"image": "cow.jpg", "keypoints": [[1, 1], [2, 2], [3, 3]]}')
    with client(tmp_path / "project") as http:
        sent = [("files", (name, Path(name).read_bytes())) for name in ("cow.jpg", "calf.jpg")]
        cow, calf = (photo["id"] for photo in http.post("/api/v1/photos", files=sent).json()["photos"])
        known = {samples.COW: cow, samples.CALF: calf}
        marks = json.loads(renamed(json.dumps(samples.MARKS), known))
        two = marks | {"shots": [*marks["shots"], marks["shots"][0] | {"photo": calf}]}
        known[samples.PROMPT] = http.post("/api/v1/prompts", json=two).json()["id"]
        Path("cow.prompt").write_bytes(http.get(f"/api/v1/prompts/{known[samples.PROMPT]}/file").content)
        http.put("/api/v1/project", json=marks | {"revision": 0, "name": "cow"})
        Path("cow.edgecape.zip").write_bytes(http.get("/api/v1/project/archive").content)
        yield http, known | {'"revision": 4': '"revision": 1'}


def renamed(text: str, known: dict[str, str]) -> str:
    for old, new in known.items():
        text = text.replace(old, new)
    return text


def typed(http: Any, line: str) -> Any:
    """What curl would do."""
    words = shlex.split(line)[1:]
    *options, address = words
    method, files, form, body = "GET", [], {}, None
    for option, value in zip(options[::2], options[1::2], strict=True):
        if option == "-X":
            method = value
        elif option == "-F":
            field, _, what = value.partition("=")
            if what.startswith("@"):
                files.append((field, (what[1:], Path(what[1:]).read_bytes())))
            else:
                form[field] = what
        elif option == "-d":
            body = value
    method = "POST" if method == "GET" and (files or body) else method
    headers = {"Content-Type": "application/json"} if body else {}
    path = address.removeprefix(samples.ADDRESS)
    return http.request(method, path, content=body, data=form or None, files=files or None, headers=headers)


def shape(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        if name in NAMED_BY_USERS:
            return sorted({json.dumps(shape(one), sort_keys=True) for one in value.values()})
        return {key: shape(one, key) for key, one in value.items()}
    if isinstance(value, list):
        kinds = [json.dumps(shape(one), sort_keys=True) for one in value if one is not None]
        return sorted({kind for kind in kinds if "{" in kind})
    return None if isinstance(value, (int, float, str, bool, type(None))) else type(value).__name__


def test_every_call_has_one(desk):
    http, _ = desk
    api = http.get("/openapi.json").json()
    operations = {what["operationId"]: what for item in api["paths"].values() for what in item.values()}
    assert operations.keys() == samples.SAMPLES.keys()
    page = http.get("/docs").text
    for what in operations.values():
        assert what["x-codeSamples"][0]["source"].startswith("curl ")
        body = what.get("requestBody", {}).get("content", {}).get("application/json")
        assert body is None or "example" in body
    assert page.count("<pre>curl") == len(operations)


@pytest.mark.parametrize("operation", samples.SAMPLES)
def test_examples_work_as_they_stand(desk, operation):
    http, known = desk
    api = http.get("/openapi.json").json()
    what = next(one for item in api["paths"].values() for one in item.values() if one["operationId"] == operation)
    answer = typed(http, renamed(what["x-codeSamples"][0]["source"], known))
    assert answer.status_code in (200, 204), answer.text
    sample = samples.SAMPLES[operation]
    if sample.answer is None:
        assert answer.status_code == 204 or len(answer.content) > 100
        if sample.to.endswith(".zip"):
            assert zipfile.ZipFile(io.BytesIO(answer.content)).testzip() is None
        return
    got = json.loads(answer.text.splitlines()[0])
    promised = json.loads(json.dumps(sample.answer))
    hollow = ("queries", "shots", "photos", "names", "notes", "missing", "failed", "facts", "pose", "fingerprint")
    for key in [key for key in hollow if isinstance(got, dict) and not got.get(key)]:
        got.pop(key, None), promised.pop(key, None)
    assert shape(got) == shape(promised)


def test_how_to_prove_who_asks(tmp_path):
    from edgecape.studio.security import Access

    for access in (Access(), Access(token="open-sesame")):
        with client(tmp_path / "project", access=access) as http:
            api = http.get("/openapi.json").json()
        schemes = api["components"]["securitySchemes"]
        assert schemes["token"]["scheme"] == "bearer" and schemes["cookie"]["in"] == "cookie"
        assert ({} in api["security"]) == (access.token is None) and {"token": []} in api["security"]


@pytest.mark.parametrize("wanted", ["bytes=99999999-", "bytes=abc", "lines=1-2"])
def test_parts_of_files_are_not_given(desk, wanted):
    """Strange ones were refused in plain text."""
    http, known = desk
    answer = http.get(f"/api/v1/photos/{known[samples.COW]}", headers={"Range": wanted})
    assert answer.status_code == 200 and answer.headers["Accept-Ranges"] == "none"
