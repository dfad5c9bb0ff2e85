"""`edgecape studio` as people start it: a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from edgecape.cli.main import main

COMMAND = [sys.executable, "-m", "edgecape.cli.main", "studio"]


class Running:
    """A studio that is stopped when the block ends."""

    def __init__(self, *arguments: str, cwd: Path):
        environment = os.environ | {"TMPDIR": str(cwd / "elsewhere")}
        (cwd / "elsewhere").mkdir()
        self.process = subprocess.Popen(
            [*COMMAND, *arguments, "--port", "0", "--no-browser"],
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.line = self.process.stdout.readline()
        self.address = re.search(r"http://\S+?/", self.line)[0] if "http" in self.line else ""

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def get(self, path: str, **headers: str) -> Any:
        return urllib.request.urlopen(urllib.request.Request(self.address + path, headers=headers))

    def post(self, path: str, body: Any, method: str = "POST") -> Any:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(), headers, method=method)
        return urllib.request.urlopen(request)


def test_start_use_stop(tmp_path):
    with Running("cows", cwd=tmp_path) as studio:
        assert re.fullmatch(
            r"edgecape studio: http://127\.0\.0\.1:\d+/  \(project: cows, stop with Ctrl-C\)\n", studio.line
        )
        assert "<html" in studio.get("").read().decode().lower()
        assert json.load(studio.get("api/v1/status"))["version"]
        assert json.load(studio.post("api/v1/project", {"name": "cow", "revision": 0}, "PUT")) == {"revision": 1}
        large = b'--b\r\nContent-Disposition: form-data; name="files"; filename="x"\r\n\r\n' + bytes(3_000_000)
        request = urllib.request.Request(
            studio.address + "api/v1/photos",
            large + b"\r\n--b--\r\n",
            {"Content-Type": "multipart/form-data; boundary=b"},
        )
        with pytest.raises(urllib.error.HTTPError, match="415"):
            urllib.request.urlopen(request)
        studio.process.send_signal(signal.SIGINT)
        _, errors = studio.process.communicate(timeout=60)
        assert studio.process.returncode == 0 and errors == ""
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert left == {"cows", "cows/project.json", "elsewhere"}  # nothing else, not even for a moment's spool


def test_stopping_ends_what_is_going_on(tmp_path):
    with Running("cows", cwd=tmp_path) as studio:
        example = json.load(studio.post("api/v1/examples/cat", {}))
        marks = {name: example[name] for name in ("names", "skeleton", "shots")}
        prompt = json.load(studio.post("api/v1/prompts", marks))["id"]
        photos = [{"photo": example["photos"][0]["id"]}] * 300
        with studio.post("api/v1/predictions", {"prompt": prompt, "photos": photos}) as lines:
            assert "pose" in json.loads(lines.readline())
            studio.process.send_signal(signal.SIGINT)
            rest = [json.loads(line) for line in lines]
        _, errors = studio.process.communicate(timeout=60)
        assert studio.process.returncode == 0 and errors == ""
    assert [line["index"] for line in rest] == list(range(1, 300)) and "stopped" in rest[-1]["error"]


def test_stopping_at_once_leaves_nothing(tmp_path):
    with Running(cwd=tmp_path) as studio:
        assert "edgecape-project" in studio.line
        studio.get("api/v1/status")
        studio.process.send_signal(signal.SIGINT)
        studio.process.communicate(timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]


def test_a_token(tmp_path):
    with Running("--token", "open-sesame", cwd=tmp_path) as studio:
        assert "/?token=open-sesame " in studio.line
        with pytest.raises(urllib.error.HTTPError, match="401"):
            studio.get("api/v1/status")
        assert studio.get("api/v1/status", Authorization="Bearer open-sesame").status == 200


@pytest.mark.parametrize("place", ["file", "variable"])
def test_a_token_that_is_a_secret_is_not_printed(tmp_path, monkeypatch, place):
    """The line says where it is, and the page asks for it."""
    (tmp_path / "secret").write_text("open-sesame\n")
    if place == "variable":
        monkeypatch.setenv("EDGECAPE_TOKEN", "open-sesame")
    with Running(*(["--token-file", "secret"] if place == "file" else []), cwd=tmp_path) as studio:
        told = {"file": "token: in secret, ", "variable": "token: in the variable EDGECAPE_TOKEN, "}[place]
        assert "sesame" not in studio.line and f"/  ({told}project: " in studio.line
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            studio.get("")
        assert "<form" in refused.value.read().decode()
        assert studio.get("api/v1/status", Authorization="Bearer open-sesame").status == 200


def test_a_model_that_is_not_there(tmp_path):
    with Running("--model", "./nowhere", cwd=tmp_path) as studio:
        _, errors = studio.process.communicate(timeout=60)
        assert studio.process.returncode == 2
        assert errors.startswith("error: there is no model at './nowhere'") and errors.count("\n") == 1


def refused(capsys, *arguments: str) -> str:
    assert main(["studio", *arguments, "--no-browser"]) == 2
    return capsys.readouterr().err


def test_what_cannot_be_started(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"127.0.0.1:{port} cannot be used" in refused(capsys, "--port", port)
    assert "set a --token" in refused(capsys, "--host", "0.0.0.0")
    assert "at least 8" in refused(capsys, "--host", "0.0.0.0", "--token", "a b")
    assert "port 70000 does not exist" in refused(capsys, "--port", "70000")
    assert "cannot be used" in refused(capsys, "--host", "no.such.host.invalid", "--token", "open-sesame")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"")
    assert "holds other things" in refused(capsys, "photos")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos"]


@pytest.mark.parametrize("package", ["fastapi", "uvicorn", "python_multipart"])
def test_without_its_packages_it_says_what_to_install(package, tmp_path):
    code = f"""
import sys
sys.modules[{package!r}] = None
from edgecape.cli.main import main
sys.exit(main(["studio", "--no-browser"]))
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr == f"error: the studio needs {package}: pip install 'edgecape[studio]'\n"
    assert list(tmp_path.iterdir()) == []
