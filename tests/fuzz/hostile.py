"""What an unfriendly user hands in: values of every kind, files with a few bytes or entries changed.

A seed decides everything, so that whatever is found can be found again. `answered` is the one question: a result, or an
EdgeCapeError of one line, soon; anything else that is raised fails the test.
"""

from __future__ import annotations

import copy
import json
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from edgecape.errors import EdgeCapeError

SOON = 120  # seconds, on a busy machine
seeds = st.integers(0, 2**32 - 1)

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 7, 0.5, -0.0, 1e-9, 1e9, 1e39, 1e300, 10**30, -(10**30), 2**62),
    *(float("nan"), float("inf"), float("-inf"), "", "x", "0", "1.5", "nan", "true", "../..", "/", "a\0b", "é" * 300),
    *("\ud800", [], {}, [None], [[]], [[1, 2], [3]], {"x": 1}, [1, 2, 3, 4], [0, 0, 0, 0], [[0, 0]], ["a", "b"]),
]
OBJECTS: list[Any] = [
    *(b"", b"bytes", 1j, object(), int, {1, 2}, range(3), (1, 2), np.zeros(0), np.zeros((2, 2)), np.array("x")),
    *(np.array([[1, 2]]), np.array([[None, 1]], dtype=object), np.datetime64("2020-01-01"), Path("gone.jpg"), np.nan),
    *(np.ones((3, 4, 3), np.uint8), np.full((2, 2, 3), np.nan), 10**5000, [[[[[[[[1]]]]]]]]),
]


def thorough(share: float = 1.0) -> settings:
    """As many cases as the profile says, or a share of them where one takes long."""
    number = max(round(settings.default.max_examples * share), 1)
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    return settings(max_examples=number, suppress_health_check=quiet)


def answered(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What the call returns, or its EdgeCapeError."""
    with _soon():
        try:
            return call(*arguments, **options)
        except EdgeCapeError as error:
            return error


@contextmanager
def _soon() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"no answer after {SOON} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SOON)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def value(chance: random.Random) -> Any:
    """Anything."""
    kind = chance.random()
    if kind < 0.5:
        return copy.deepcopy(chance.choice(VALUES))
    if kind < 0.8:
        return chance.choice(OBJECTS)
    if kind < 0.9:
        return [value(chance) for _ in range(chance.randrange(5))]
    return chance.uniform(-500, 500)


def changed(content: Any, chance: random.Random, values: list[Any] = VALUES) -> Any:
    """JSON-like content with one to three entries replaced, dropped, doubled, renamed or moved."""
    content = copy.deepcopy(content)
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = list(_places(content))
        if not places:
            return copy.deepcopy(chance.choice(values))
        holder, key = chance.choice(places)
        match chance.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 1:
                holder[f"{key}x"] = holder.pop(key)
            case 2:
                other, place = chance.choice(places)
                holder[key] = copy.deepcopy(other[place])
            case _:
                holder[key] = copy.deepcopy(chance.choice(values))
    return content


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    members = list(content.items()) if isinstance(content, dict) else list(enumerate(content))
    for key, member in members:
        yield content, key
        if isinstance(member, (dict, list)):
            yield from _places(member)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Bytes with some flipped, cut off, doubled or put in."""
    found = bytearray(data)
    match chance.randrange(5):
        case 0:
            return data[: chance.randrange(len(data) + 1)]
        case 1:
            start = chance.randrange(len(data))
            length = chance.choice((1, 4, 64))
            return data[:start] + chance.randbytes(length) + data[start + chance.choice((0, length)) :]
        case 2:
            start = chance.randrange(len(data))
            return data[:start] + data[start : start + 200] + data[start:]
        case _:
            for _ in range(chance.choice((1, 2, 8, 64))):
                found[chance.randrange(min(len(found), chance.choice((64, 1024, len(found)))))] = chance.randrange(256)
    return bytes(found)


def as_json(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=True).encode()
