"""Turns before the model: who is served when, told by the order of batches and not by time."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from edgecape.errors import AnnotationError, EdgeCapeError
from edgecape.studio.engine import Engine, Job
from edgecape.studio.limits import RefusedError
from edgecape.types import Pose

from service import FakeModel, asgi, client, pose, upload_lamps


class Inbox:
    """What a request was delivered, and a way to wait for all of it."""

    def __init__(self, number: int):
        self.outcomes: list[Any] = []
        self.done = threading.Event()
        self._number = number

    def put(self, outcome: Any) -> None:
        self.outcomes.append(outcome)
        if len(self.outcomes) == self._number:
            self.done.set()


def jobs(name: str, number: int) -> list[Job]:
    return [Job(Path(f"{name}{n}")) for n in range(number)]


def started(model: Any, queue: int = 1000, batch: int = 8) -> Engine:
    engine = Engine(lambda: model, queue, batch)
    engine.start()
    return engine


def names(batch: list[Any]) -> list[str]:
    return [str(item) for item in batch]


def test_a_small_request_is_not_behind_a_large_one():
    model, prompt = FakeModel(closed=True), object()
    engine = started(model)
    large, small = Inbox(100), Inbox(1)
    engine.predict(prompt, jobs("large", 100), large.put)
    model.begun.acquire()
    engine.predict(prompt, jobs("small", 1), small.put)
    model.let_through(2)
    assert small.done.wait(30) and len(large.outcomes) <= 3
    assert "small0" in names(model.batches[1])  # the very next batch
    model.let_through(20)
    assert large.done.wait(30)
    served = [name for batch in model.batches for name in names(batch) if name.startswith("large")]
    assert served == [f"large{n}" for n in range(100)]  # each once, in order
    engine.stop()


def test_requests_with_the_same_prompt_share_batches_one_photo_each_in_turn():
    model, prompt = FakeModel(closed=True), object()
    engine = started(model)
    first = Inbox(1)
    engine.predict(prompt, jobs("first", 1), first.put)
    model.begun.acquire()  # the others line up meanwhile
    inboxes = [Inbox(10) for _ in range(3)]
    for name, inbox in zip("abc", inboxes, strict=True):
        engine.predict(prompt, jobs(name, 10), inbox.put)
    model.let_through(10)
    assert all(inbox.done.wait(30) for inbox in inboxes)
    order = [name for batch in model.batches[1:] for name in names(batch)]
    assert model.batches[0] == [Path("first0")] and [len(batch) for batch in model.batches[1:]] == [3, 6, 8, 8, 5]
    for n in range(10):  # nobody is ever more than a batch ahead
        places = [order.index(f"{name}{n}") for name in "abc"]
        assert max(places) - min(places) < 8
    engine.stop()


def test_other_prompts_take_turns_by_batches():
    model = FakeModel(closed=True)
    engine = started(model, batch=4)
    inboxes = [Inbox(12) for _ in range(3)]
    for name, inbox in zip("abc", inboxes, strict=True):
        engine.predict(object(), jobs(name, 12), inbox.put)
    model.let_through(15)
    assert all(inbox.done.wait(30) for inbox in inboxes)
    assert [names(batch)[0][0] for batch in model.batches] == list("abcabcabcabcabc")
    assert all(len({name[0] for name in names(batch)}) == 1 for batch in model.batches)
    assert [len(batch) for batch in model.batches[::3]] == [1, 2, 4, 4, 1]  # the first pose is soon there
    engine.stop()


def test_prompts_go_first_but_photos_pass_between_those_of_one_client():
    model = FakeModel(closed=True)
    engine = started(model)
    large, made = Inbox(20), Inbox(5)
    engine.predict(object(), jobs("large", 20), large.put)
    model.begun.acquire()
    for who in ("a", "a", "b", "a", "b"):
        engine.encode([who], made.put, who)
    assert engine.waiting_prompts == 5 and engine.waiting == 24
    model.let_through(20)
    assert made.done.wait(30) and large.done.wait(30)
    order = ["photos" if batch != ["prompt"] else "prompt" for batch in model.batches]
    assert order[:8] == ["photos", "prompt", "prompt", "photos", "prompt", "prompt", "photos", "prompt"]
    assert [supports[0] for supports in made.outcomes] == ["a", "b", "a", "b", "a"]
    engine.stop()


def test_efforts_are_not_mixed_in_a_batch():
    class Keeps(FakeModel):
        def predict(self, prompt: Any, images: list[Any], boxes: list[Any], **options: Any) -> list[Any]:
            efforts.append((options["effort"], len(images)))
            return super().predict(prompt, images, boxes, **options)

    efforts: list[Any] = []
    model, prompt = Keeps(closed=True), object()
    engine = started(model)
    inboxes = [Inbox(1), Inbox(3), Inbox(3)]
    for name, inbox, effort in zip("xfb", inboxes, ("auto", "fast", "best"), strict=True):
        engine.predict(prompt, jobs(name, 1 if name == "x" else 3), inbox.put, effort)
    model.let_through(9)
    assert all(inbox.done.wait(30) for inbox in inboxes)
    assert efforts == [("auto", 1), ("fast", 1), ("best", 1), ("fast", 2), ("best", 2)]
    engine.stop()


def test_a_cancelled_request_leaves_the_line():
    model, prompt = FakeModel(closed=True), object()
    engine = started(model, queue=30)
    gone, next_ = Inbox(1), Inbox(20)
    ticket = engine.predict(prompt, jobs("gone", 30), gone.put)
    model.begun.acquire()
    assert engine.waiting == 29 and engine.running == 1
    with pytest.raises(RefusedError) as full:
        engine.predict(prompt, jobs("next", 20), next_.put)
    assert full.value.status == 429 and full.value.retry_after
    engine.cancel(ticket)
    engine.cancel(ticket)
    assert engine.waiting == 0
    engine.predict(prompt, jobs("next", 20), next_.put)
    model.let_through(10)
    assert next_.done.wait(30)
    assert sum(len(batch) for batch in model.batches) == 21 and len(gone.outcomes) == 1
    engine.stop()


def test_more_than_the_queue_holds_is_never_possible():
    engine = Engine(FakeModel, queue=5)
    with pytest.raises(RefusedError, match="at most 5") as error:
        engine.predict(object(), jobs("x", 6), print)
    assert error.value.status == 422 and engine.waiting == 0


def test_a_model_that_fails_fails_one_batch_only():
    class Moody(FakeModel):
        def predict(self, prompt: Any, images: list[Any], boxes: list[Any], **options: Any) -> list[Any]:
            if prompt == "bad":
                raise RuntimeError("out of memory")
            if prompt == "other":
                raise AnnotationError("another model")
            return super().predict(prompt, images, boxes, **options)

        def prompt(self, supports: Any) -> Any:
            raise MemoryError

    engine = started(Moody())
    inboxes = {prompt: Inbox(3) for prompt in ("bad", "other", "good")}
    for prompt, inbox in inboxes.items():
        engine.predict(prompt, jobs(prompt, 3), inbox.put)
    made = Inbox(1)
    engine.encode([], made.put)
    assert all(inbox.done.wait(30) for inbox in (*inboxes.values(), made))
    assert all("out of memory" in str(outcome) for outcome in inboxes["bad"].outcomes)
    assert all("another model" in str(outcome) for outcome in inboxes["other"].outcomes)
    assert all(isinstance(outcome, Pose) for outcome in inboxes["good"].outcomes)
    assert isinstance(made.outcomes[0], EdgeCapeError)
    engine.stop()


def test_nobody_to_deliver_to_is_no_harm():
    def gone(outcome: Any) -> None:
        raise RuntimeError("the loop is closed")

    model, prompt = FakeModel(), object()
    engine = started(model)
    engine.predict(prompt, jobs("gone", 500), gone)
    there = Inbox(1)
    engine.predict(prompt, jobs("there", 1), there.put)
    assert there.done.wait(30)
    engine.stop()
    assert sum(len(batch) for batch in model.batches) < 500


def test_stopping_answers_everybody():
    model = FakeModel(closed=True)
    engine = started(model)
    inbox = Inbox(20)
    engine.predict(object(), jobs("x", 20), inbox.put)
    model.begun.acquire()
    model.let_through(1)
    engine.stop()
    assert inbox.done.wait(30)
    assert "stopped" in str(inbox.outcomes[-1])
    with pytest.raises(RefusedError, match="stopped"):
        engine.predict(object(), jobs("x", 1), inbox.put)


def test_what_came_before_the_model_waits_for_it():
    ready = threading.Event()

    def load() -> Any:
        ready.wait(30)
        return FakeModel()

    engine = Engine(load, 100)
    engine.start()
    inbox = Inbox(3)
    engine.predict(object(), jobs("x", 3), inbox.put)
    assert engine.waiting == 3 and not engine.loaded.is_set()
    ready.set()
    assert inbox.done.wait(30)
    engine.stop()


@pytest.mark.parametrize("error", [EdgeCapeError("no weights"), ValueError("no weights"), MemoryError("no weights")])
def test_a_model_that_does_not_load_answers_everybody(error):
    ready = threading.Event()

    def load() -> Any:
        ready.wait(30)
        raise error

    engine = Engine(load, 100)
    engine.start()
    inbox = Inbox(3)
    engine.predict(object(), jobs("x", 3), inbox.put)
    ready.set()
    assert inbox.done.wait(30) and all("no weights" in str(outcome) for outcome in inbox.outcomes)
    with pytest.raises(RefusedError, match="no weights"):
        engine.predict(object(), jobs("x", 3), inbox.put)
    engine.stop()


# --- over HTTP -----------------------------------------------------------------------------------------------


def test_a_client_that_goes_away_frees_its_place(tmp_path):
    model = FakeModel(closed=True)
    with client(tmp_path / "project", load=lambda: model) as http:
        studio = http.app.state.studio
        photo = upload_lamps(http, 1)[0]
        studio.prompts.keep("0" * 16, object())
        body = json.dumps({"prompt": "0" * 16, "photos": [{"photo": photo}] * 100}).encode()
        gone, sent = threading.Event(), []
        thread = asgi(http.app, "predictions", body, gone, sent)
        model.begun.acquire()
        model.let_through(1)
        model.begun.acquire()  # the first batch was delivered, the second is at hand
        assert http.get("/api/v1/status").json()["queue"] == {"waiting": 97, "prompts": 0, "running": 2}
        gone.set()
        thread.join(30)
        assert not thread.is_alive() and http.get("/api/v1/status").json()["queue"]["waiting"] == 0
        model.let_through(5)
        assert http.get("/api/v1/status").status_code == 200
    assert sum(len(batch) for batch in model.batches) == 3
    assert sent[0]["status"] == 200 and len(b"".join(m.get("body", b"") for m in sent).splitlines()) <= 1


def test_lines_come_as_they_are_known(tmp_path):
    """The first batch is with the client while the second has not been let through."""
    model = FakeModel(closed=True)
    with client(tmp_path / "project", load=lambda: model) as http:
        photo = upload_lamps(http, 1)[0]
        http.app.state.studio.prompts.keep("0" * 16, object())
        body = json.dumps({"prompt": "0" * 16, "photos": [{"photo": photo}] * 10}).encode()
        gone, sent = threading.Event(), []
        thread = asgi(http.app, "predictions", body, gone, sent)
        model.let_through(1)
        model.begun.acquire()
        model.begun.acquire()
        while len(sent) < 2:  # the start and a line
            assert thread.is_alive()
            gone.wait(0.01)
        assert [json.loads(message["body"])["index"] for message in sent[1:]] == [0]
        model.let_through(3)
        thread.join(30)
        assert sent[-1]["more_body"] is False and len(sent) == 12
        gone.set()


def test_keypoints_that_were_not_found_are_null(tmp_path):
    """A pose without any is an error of its photo and does not end the stream."""

    class Odd(FakeModel):
        def predict(self, prompt: Any, images: list[Any], boxes: list[Any], **options: Any) -> list[Any]:
            return [next(poses) for _ in images]

    nothing, some = pose(), pose()
    nothing.keypoints[:] = float("nan")
    some.keypoints[1], some.scores[1] = float("nan"), 0
    poses = iter([nothing, some, pose()])
    with client(tmp_path / "project", load=Odd) as http:
        photo = upload_lamps(http, 1)[0]
        http.app.state.studio.prompts.keep("0" * 16, object())
        answer = http.post("/api/v1/predictions", json={"prompt": "0" * 16, "photos": [{"photo": photo}] * 3})
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert "nothing that is a place" in lines[0]["error"] and "pose" not in lines[0]
        assert lines[1]["pose"] == {"keypoints": [[0, 0], None], "scores": [1, 0], "effort": "best"}
        assert lines[2]["pose"] == {"keypoints": [[0, 0], [0, 0]], "scores": [1, 1], "effort": "best"}
