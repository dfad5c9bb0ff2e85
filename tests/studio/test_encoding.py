"""Prompts on their way: encoded once for all who ask, and no more than one of each client waits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from edgecape.studio.context import Studio

from service import FakeModel, client, lamp, marks, serving, shot, upload_lamps


class Prompting(FakeModel):
    """Makes prompts of the one it was given, each when it is let through."""

    def __init__(self, made: Any) -> None:
        super().__init__(closed=True)
        self.made = made

    def prompt(self, supports: Any) -> Any:
        super().prompt(supports)
        return self.made


class Asked:
    """A prompt that a client asked for, over a connection of its own."""

    def __init__(self, address: str, body: Any, name: str | None = None):
        self._connection = HTTPConnection(urlsplit(address).netloc, timeout=60)
        headers = {"Content-Type": "application/json"} | ({"X-EdgeCape-Client": name} if name else {})
        self._connection.request("POST", "/api/v1/prompts", json.dumps(body), headers)

    def answer(self) -> tuple[int, Any]:
        with closing(self._connection):
            answer = self._connection.getresponse()
            return answer.status, json.load(answer)

    def leave(self) -> None:
        self._connection.close()


def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")


@pytest.fixture
def made(tmp_path: Path) -> Any:
    with client(tmp_path / "once") as http:
        id_ = http.post("/api/v1/prompts", json=marks(upload_lamps(http, 1)[0])).json()["id"]
        return http.app.state.studio.prompt(id_)


@pytest.fixture
def studio(tmp_path: Path, made: Any):
    """A running studio, the model behind it, a way to ask it, and different marks."""
    model = Prompting(made)
    http = client(tmp_path / "project", load=lambda: model)
    photo = upload_lamps(http, 1)[0]
    bodies = [marks(photo, shots=[shot(photo, lamp()[1] + n / 4)]) for n in range(24)]
    with serving(http.app) as address:
        yield http.app.state.studio, model, partial(Asked, address), bodies
        model.let_through(100)


def asked(studio: Studio) -> list[int]:
    """How many ask for each prompt that is being made."""
    return [len(making.askers) for making in list(studio.encoder._making.values())]


def test_the_same_marks_are_encoded_once_for_all_who_ask(studio):
    service, model, ask, bodies = studio
    first = ask(bodies[0])
    model.begun.acquire()  # it is at hand
    same = [ask(bodies[0], name) for name in ("a", "b", None)]
    until(lambda: asked(service) == [4])
    model.let_through()
    answers = [request.answer() for request in (first, *same)]
    assert all(answer == answers[0] for answer in answers) and answers[0][0] == 200
    assert model.batches == [["prompt"]] and not asked(service)


def test_a_newer_request_replaces_the_one_that_waits(studio):
    service, model, ask, bodies = studio
    running = ask(bodies[0], "a")
    model.begun.acquire()
    older = ask(bodies[1], "a")
    until(lambda: service.engine.waiting_prompts == 1)
    other = ask(bodies[2], "b")
    nobody = ask(bodies[3])
    until(lambda: service.engine.waiting_prompts == 3)
    newer = ask(bodies[4], "a")
    assert older.answer() == (409, {"error": "replaced by a newer request"})
    until(lambda: service.engine.waiting_prompts == 3)
    model.let_through(4)
    assert [request.answer()[0] for request in (running, other, nobody, newer)] == [200] * 4
    assert len(model.batches) == 4


def test_what_another_client_waits_for_too_stays(studio):
    service, model, ask, bodies = studio
    first = ask(bodies[0])
    model.begun.acquire()
    mine = ask(bodies[1], "a")
    until(lambda: service.engine.waiting_prompts == 1)
    theirs = ask(bodies[1], "b")
    until(lambda: asked(service) == [1, 2])
    newer = ask(bodies[2], "a")
    assert mine.answer()[0] == 409
    model.let_through(3)
    assert first.answer()[0] == theirs.answer()[0] == newer.answer()[0] == 200


def test_a_client_that_goes_away_frees_its_place(studio):
    service, model, ask, bodies = studio
    running = ask(bodies[0])
    model.begun.acquire()
    waiting = ask(bodies[1])
    until(lambda: service.engine.waiting_prompts == 1)
    waiting.leave()
    until(lambda: service.engine.waiting_prompts == 0)
    running.leave()
    until(lambda: asked(service) == [0])
    again = ask(bodies[0])
    until(lambda: asked(service) == [1])
    model.let_through()
    assert again.answer()[0] == 200 and model.batches == [["prompt"]]  # what had begun was not thrown away


def test_an_error_is_told_to_all(studio):
    service, model, ask, bodies = studio

    def fail(supports: Any) -> Any:
        FakeModel.prompt(model, supports)
        raise MemoryError("out of memory")

    model.prompt = fail
    requests = [ask(bodies[0], "a")]
    model.begun.acquire()
    requests.append(ask(bodies[0], "b"))
    until(lambda: asked(service) == [2])
    model.let_through()
    for status, answer in (request.answer() for request in requests):
        assert status == 422 and "out of memory" in answer["error"]


def test_marking_at_speed_leaves_one_prompt_waiting(studio):
    """24 edits while the first prompt is made: what is computed is the first and the last."""
    service, model, ask, bodies = studio
    most, requests = 0, []
    for number, body in enumerate(bodies):
        requests.append(ask(body, "page"))
        if number == 0:
            model.begun.acquire()
        until(lambda: len(asked(service)) == min(len(requests), 2))
        most = max(most, service.engine.waiting_prompts)
        if number > 1:
            assert requests[number - 1].answer()[0] == 409
    model.let_through(2)
    assert requests[0].answer()[0] == requests[-1].answer()[0] == 200
    assert most == 1 and len(model.batches) == 2
