"""One model, one worker thread, and the line before it.

Requests take turns: a batch is filled with one photo after the other of all requests that have the prompt of the
first in the line, and who was served goes to the end of the line when the batch is done. So a request for one photo
never waits for somebody's five hundred. A request begins with a small batch: its first pose is soon there.

Prompts go before photos, because somebody waits for the graph of what they just marked. A client that had its prompt
lets a batch of photos pass before its next one, so that nobody who marks on and on keeps the others waiting.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgecape.errors import EdgeCapeError
from edgecape.runtime.base import Effort
from edgecape.studio.limits import RefusedError
from edgecape.types import Box, Pose, Prompt, Support

if TYPE_CHECKING:
    from edgecape.predictor import EdgeCape

STOPPED = "the studio was stopped; start it again"
log = logging.getLogger("edgecape.studio")


@dataclass(frozen=True)
class Job:
    """A photo to find keypoints on."""

    image: Path
    box: Box | None = None


Work = Job | list[Support]
Outcome = Pose | Prompt | EdgeCapeError


@dataclass(eq=False)
class Ticket:
    """A request in the line. Its outcomes are delivered in order, from the worker's thread."""

    prompt: Prompt | None  # None: the work is to make one
    waiting: deque[Work]
    deliver: Callable[[Outcome], None]
    effort: Effort = "auto"
    client: str | None = None
    begun: int = 0  # photos


class Engine:
    def __init__(self, load: Callable[[], EdgeCape], queue: int, batch: int = 8):
        self._load, self._queue, self._batch = load, queue, batch
        self._prompts: list[Ticket] = []  # to be made
        self._prompted: set[str | None] = set()  # clients that had a prompt since the last photos
        self._line: list[Ticket] = []
        self._served: list[Ticket] = []  # of the batch at hand, with more to do
        self.running = 0
        self._stopped = False
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self.estimator: EdgeCape | None = None
        self.error: EdgeCapeError | None = None  # why there is no model
        self.loaded = threading.Event()  # or failed to

    def start(self) -> None:
        """Also after a stop; the model is loaded once."""
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="edgecape-engine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """What still waits gets an error; the batch at hand is finished, a model that still loads is not waited for."""
        with self._change:
            self._stopped = True
            self._change.notify()
        if self._thread is not None and self.loaded.is_set():
            self._thread.join(timeout=60)  # seconds
        self._give_up(EdgeCapeError(STOPPED))

    @property
    def waiting(self) -> int:
        with self._change:
            return sum(len(ticket.waiting) for ticket in (*self._prompts, *self._line, *self._served))

    @property
    def waiting_prompts(self) -> int:
        with self._change:
            return len(self._prompts)

    def predict(
        self, prompt: Prompt, jobs: Sequence[Job], deliver: Callable[[Outcome], None], effort: Effort = "auto"
    ) -> Ticket:
        """Line up; each photo delivers a Pose or an error."""
        return self._submit(Ticket(prompt, deque(jobs), deliver, effort), self._line)

    def encode(self, supports: list[Support], deliver: Callable[[Outcome], None], client: str | None = None) -> Ticket:
        """Line up; delivers a Prompt or an error."""
        return self._submit(Ticket(None, deque([supports]), deliver, client=client), self._prompts)

    def _submit(self, ticket: Ticket, line: list[Ticket]) -> Ticket:
        wanted = len(ticket.waiting)
        if wanted > self._queue:
            raise RefusedError(422, f"{wanted} photos are too many for one request; give at most {self._queue}")
        with self._change:
            if self.error is not None or self._stopped:
                raise RefusedError(503, f"there is no model: {self.error or STOPPED}")
            if self.waiting + wanted > self._queue:
                told = f"{self.waiting} photos wait already and {self._queue} may; try again in a moment"
                raise RefusedError(429, told, retry_after=2)
            line.append(ticket)
            self._change.notify()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Leave the line; nothing more is begun for it."""
        with self._change:
            ticket.waiting.clear()
            for line in (self._prompts, self._line):
                if ticket in line:
                    line.remove(ticket)

    # --- the worker's thread -----------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self.estimator = self.estimator or self._load()
        except Exception as error:  # whatever it is, the page has to say so
            self.error = error if isinstance(error, EdgeCapeError) else EdgeCapeError(f"it cannot be loaded: {error}")
            self._give_up(self.error)
            self.loaded.set()
            return
        self.loaded.set()
        while batch := self._next_batch():
            tickets, works = zip(*batch, strict=True)
            for ticket, outcome in zip(tickets, self._outcomes(tickets[0], works), strict=True):
                self._deliver(ticket, outcome)

    def _next_batch(self) -> list[tuple[Ticket, Work]]:
        """Waits for work; empty when stopped."""
        with self._change:
            self._line += [ticket for ticket in self._served if ticket.waiting]
            self._served, self.running = [], 0
            self._change.wait_for(lambda: self._prompts or self._line or self._stopped)
            if self._stopped:
                return []
            prompt = self._next_prompt()
            batch = [(prompt, prompt.waiting.popleft())] if prompt else self._next_photos()
            self.running = len(batch)
            return batch

    def _next_prompt(self) -> Ticket | None:
        for ticket in self._prompts:
            if not self._line or ticket.client not in self._prompted:
                self._prompts.remove(ticket)
                self._prompted.add(ticket.client)
                return ticket
        return None

    def _next_photos(self) -> list[tuple[Ticket, Work]]:
        self._prompted.clear()
        first = self._line[0]
        alike = [t for t in self._line if t.prompt is first.prompt and t.effort == first.effort]
        size = min(self._batch, sum(max(1, 2 * ticket.begun) for ticket in alike))
        turns = deque(alike)  # goes round; where it stops, the next batch goes on
        batch: list[tuple[Ticket, Work]] = []
        while turns and len(batch) < size:
            ticket = turns.popleft()
            batch.append((ticket, ticket.waiting.popleft()))
            ticket.begun += 1
            if ticket.waiting:
                turns.append(ticket)
        served = {ticket for ticket, _ in batch}
        self._line[:] = [ticket for ticket in self._line if ticket not in served]
        self._served = [ticket for ticket in turns if ticket in served]
        return batch

    def _outcomes(self, ticket: Ticket, works: Sequence[Any]) -> list[Any]:
        """Of photos that are looked for as the ticket says, or of supports."""
        assert self.estimator is not None
        try:
            if ticket.prompt is None:
                return [self.estimator.prompt(works[0])]
            images, boxes = [job.image for job in works], [job.box for job in works]
            options: Any = {"batch_size": self._batch, "errors": "return", "effort": ticket.effort}
            return self.estimator.predict(ticket.prompt, images, boxes, **options)
        except EdgeCapeError as error:
            return [error] * len(works)
        except Exception as error:  # out of memory, say: the others in the line are still to be served
            log.exception("the model failed")
            return [EdgeCapeError(f"the model failed: {error}")] * len(works)

    def _deliver(self, ticket: Ticket, outcome: Outcome) -> None:
        try:
            ticket.deliver(outcome)
        except Exception:  # nobody is there any more
            self.cancel(ticket)

    def _give_up(self, error: EdgeCapeError) -> None:
        with self._change:
            tickets = [*self._prompts, *self._line, *self._served]
            for line in (self._prompts, self._line, self._served):
                line.clear()
        for ticket in tickets:
            for _ in range(len(ticket.waiting)):
                self._deliver(ticket, error)
