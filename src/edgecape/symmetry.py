"""Left and right: which keypoints change places in a mirror, as far as their names tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

OTHER_SIDE = {"left": "right", "right": "left", "l": "r", "r": "l"}
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")  # of L_EarBase, left-eye, hindPawR, "Base of left ear"

Pairs = tuple[tuple[int, int], ...]


def pairs_of(names: Sequence[str] | None) -> Pairs:
    """Pairs (i, j), i < j, of keypoints whose names differ in nothing but the side."""
    if not names:
        return ()
    keys = ["_".join(WORDS.findall(name)).lower() for name in names]
    place = {key: index for index, key in enumerate(keys) if keys.count(key) == 1}
    pairs = []
    for i, key in enumerate(keys):
        j = next((place[other] for other in _other_sides(key) if other in place), None)
        if j is not None and i < j and keys[i] in _other_sides(keys[j]):
            pairs.append((i, j))
    once = [index for pair in pairs for index in pair]
    return tuple(pair for pair in pairs if all(once.count(index) == 1 for index in pair))


def _other_sides(key: str) -> list[str]:
    """What a name of the other side may be, best guess first: words, then parts of words as in leftear and lwrist."""
    words = key.split("_")
    guesses = ["_".join(OTHER_SIDE.get(word, word) for word in words)]
    guesses.append(re.sub("left|right", lambda side: OTHER_SIDE[side[0]], key))
    if key[:1] in ("l", "r"):
        guesses.append(OTHER_SIDE[key[0]] + key[1:])
    return [guess for guess in guesses if guess != key]


def mirrored_order(K: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Which keypoint is seen in the place of each one when the object is mirrored."""
    order = list(range(K))
    for left, right in pairs:
        order[left], order[right] = right, left
    return order
