"""Prompts on their way: the same marks are encoded once however many ask, and of each client only the newest waits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from edgecape.errors import EdgeCapeError
from edgecape.studio.engine import Engine, Outcome, Ticket
from edgecape.studio.limits import RefusedError
from edgecape.studio.prompts import PromptCache
from edgecape.types import Pose, Prompt, Support

REPLACED = "replaced by a newer request"
Asker = asyncio.Future[Prompt]


@dataclass(eq=False)
class Making:
    """Of one prompt, for all who asked for it."""

    ticket: Ticket
    askers: dict[Asker, str | None] = field(default_factory=dict)  # and which client each of them is


class Encoder:
    """Used in the event loop only, so that nothing happens between two lines."""

    def __init__(self, engine: Engine, cache: PromptCache):
        self._engine, self._cache = engine, cache
        self._making: dict[str, Making] = {}  # by the prompt's id

    async def encode(self, id_: str, supports: list[Support], client: str | None = None) -> Prompt:
        """Cancelling this takes the request out of the line, unless another waits for the same."""
        if client is not None:
            self._replace(client, id_)
        loop = asyncio.get_running_loop()
        making = self._making.get(id_)
        if making is None:

            def deliver(outcome: Outcome) -> None:
                loop.call_soon_threadsafe(self._arrived, id_, outcome)

            making = self._making[id_] = Making(self._engine.encode(supports, deliver, client))
        asker: Asker = loop.create_future()
        making.askers[asker] = client
        try:
            return await asker
        finally:
            self._leave(id_, making, asker)

    def _replace(self, client: str, id_: str) -> None:
        """Whatever else waits for this client has become pointless."""
        for other, making in list(self._making.items()):
            if other != id_ and making.ticket.waiting:
                for asker in [asker for asker, whose in making.askers.items() if whose == client]:
                    asker.set_exception(RefusedError(409, REPLACED))
                    self._leave(other, making, asker)

    def _leave(self, id_: str, making: Making, asker: Asker) -> None:
        making.askers.pop(asker, None)
        if not making.askers and making.ticket.waiting:  # what has begun is finished and kept
            self._engine.cancel(making.ticket)
            self._making.pop(id_, None)

    def _arrived(self, id_: str, outcome: Outcome) -> None:
        making = self._making.pop(id_, None)
        askers = [] if making is None else [asker for asker in making.askers if not asker.done()]
        if isinstance(outcome, EdgeCapeError):
            for asker in askers:
                asker.set_exception(outcome)
            return
        assert not isinstance(outcome, Pose)
        self._cache.keep(id_, outcome)
        for asker in askers:
            asker.set_result(outcome)
