"""A studio in this process, with a small model and small limits, and pictures of every kind to give it."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi.testclient import TestClient
from PIL import Image

from edgecape import EdgeCape
from edgecape.examples.lamps import EDGES, NAMES, draw_lamp
from edgecape.studio.app import create_app
from edgecape.studio.engine import Engine
from edgecape.studio.limits import Limits
from edgecape.studio.project import ProjectStore
from edgecape.studio.security import Access
from edgecape.types import Pose

from toy import estimator

ADDRESS = "http://127.0.0.1:7860"
USUAL = Limits()
SMALL = Limits(
    upload_bytes=400_000, request_bytes=4_000_000, json_bytes=200_000, pixels=500_000, keypoints=8, shots=4, photos=6,
    objects=7, queue=20, prompts=3,
)  # fmt: skip


@cache
def tiny_model() -> EdgeCape:
    """One for all tests."""
    return estimator()


def client(
    folder: Path, limits: Limits = USUAL, access: Access | None = None, load: Callable[[], Any] | None = None
) -> TestClient:
    """To be used in a `with`; a 5xx is raised as what caused it. The model is a tiny one if none is given."""
    store = ProjectStore(folder, limits)
    return TestClient(create_app(store, Engine(load or tiny_model, limits.queue), access), base_url=ADDRESS)


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Over real connections; the address."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(30)


def lamp(number: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A picture and its keypoints."""
    pose = (100.0 - 7 * number, -20.0 + 5 * number, 40.0)
    return draw_lamp(pose, hue=20 * number % 180, ground=220, seed=number)


def encoded(picture: np.ndarray | Image.Image, format: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    (picture if isinstance(picture, Image.Image) else Image.fromarray(picture)).save(file, format, **options)
    return file.getvalue()


def upload(http: TestClient, *files: tuple[str, bytes]) -> Any:
    return http.post("/api/v1/photos", files=[("files", file) for file in files])


def upload_lamps(http: TestClient, number: int) -> list[str]:
    """Ids of that many photos."""
    answer = upload(http, *((f"lamp{n}.png", encoded(lamp(n)[0])) for n in range(number)))
    assert answer.status_code == 200, answer.text
    return [photo["id"] for photo in answer.json()["photos"]]


def shot(photo: str, keypoints: Any, hidden: Sequence[int] = (), without: Sequence[int] = ()) -> dict[str, Any]:
    points = [
        None if k in without else {"x": float(x), "y": float(y), "hidden": k in hidden}
        for k, (x, y) in enumerate(keypoints)
    ]
    return {"photo": photo, "points": points, "box": None}


def marks(photo: str, number: int = 0, **changes: Any) -> dict[str, Any]:
    """The body of POST /api/v1/prompts for a lamp."""
    edges = [list(edge) for edge in EDGES]
    return {"names": list(NAMES), "skeleton": edges, "shots": [shot(photo, lamp(number)[1])], **changes}


def save(http: TestClient, **changes: Any) -> Any:
    """The project with these changes."""
    return http.put("/api/v1/project", json=http.get("/api/v1/project").json() | changes)


def found(keypoints: Any, moved: Sequence[int] = (), score: float = 0.5, lost: Sequence[int] = ()) -> dict[str, Any]:
    points = [None if k in lost else [float(x), float(y)] for k, (x, y) in enumerate(keypoints)]
    return {
        "keypoints": points,
        "scores": [0 if k in lost else score for k in range(len(points))],
        "moved": [k in moved for k in range(len(points))],
    }


def predict(http: TestClient, prompt: str, photos: Sequence[str], boxes: Sequence[Any] | None = None) -> list[Any]:
    wanted = [{"photo": photo, "box": box} for photo, box in zip(photos, boxes or [None] * len(photos), strict=True)]
    answer = http.post("/api/v1/predictions", json={"prompt": prompt, "photos": wanted})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def asgi(
    app: Any, path: str, body: bytes, disconnect: threading.Event, sent: list[Any], name: str | None = None
) -> threading.Thread:
    """POST to a path of the API, from a client of that name that goes away when the event is set."""
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    headers += [(b"x-edgecape-client", name.encode())] if name else []
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "POST",
        "path": f"/api/v1/{path}", "raw_path": f"/api/v1/{path}".encode(), "query_string": b"", "root_path": "",
        "scheme": "http", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 7860),
    }  # fmt: skip

    async def run() -> None:
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Any:
            for message in messages:
                return message
            while not disconnect.is_set():
                await asyncio.sleep(0.01)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await app(scope, receive, send)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    return thread


class FakeModel:
    """Takes part in nothing but the order of things: each batch waits until it is let through."""

    fingerprint, facts = "fake", {"kind": "fake"}

    def __init__(self, closed: bool = False) -> None:
        self.batches: list[list[Any]] = []
        self.gate = threading.Semaphore(0) if closed else None
        self.begun = threading.Semaphore(0)

    def let_through(self, batches: int = 1) -> None:
        assert self.gate is not None
        for _ in range(batches):
            self.gate.release()

    def predict(self, prompt: Any, images: list[Any], boxes: list[Any], **options: Any) -> list[Any]:
        self.batches.append(images)
        self.begun.release()
        if self.gate is not None:
            self.gate.acquire()
        return [pose() for _ in images]

    def prompt(self, supports: Any) -> Any:
        self.batches.append(["prompt"])
        self.begun.release()
        if self.gate is not None:
            self.gate.acquire()
        return supports


def pose() -> Pose:
    points = np.zeros((2, 2), np.float32)
    return Pose(points, np.ones(2, np.float32), (0.0, 0.0, 1.0, 1.0), points)
