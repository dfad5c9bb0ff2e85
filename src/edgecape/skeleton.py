"""Skeletons: edges → adjacency, and which keypoints are left and right of each other.

An adjacency is (K, K), symmetric, without self-loops. Edges and pairs are of 0-based keypoint numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

OTHER_SIDE = {"left": "right", "right": "left", "l": "r", "r": "l"}
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")  # of L_EarBase, left-eye, hindPawR, "Base of left ear"

Pairs = tuple[tuple[int, int], ...]
Adjacency = NDArray[np.float32]


def adjacency(edges: Iterable[Sequence[int]], K: int) -> Adjacency:
    """Symmetric 0/1 adjacency (K, K) of an edge list."""
    A = np.zeros((K, K), dtype=np.float32)
    for i, j in edges:
        if not (0 <= i < K and 0 <= j < K):
            raise IndexError(f"edge ({i}, {j}) does not fit {K} keypoints numbered from 0")
        A[i, j] = A[j, i] = 1.0
    return A


def fully_connected(K: int) -> Adjacency:
    """The prior of a user who gives no skeleton: every pair is connected."""
    return np.ones((K, K), dtype=np.float32) - np.eye(K, dtype=np.float32)


def flip_pairs(names: Sequence[str] | None) -> Pairs:
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


def flip_index(K: int, pairs: Iterable[tuple[int, int]]) -> NDArray[np.int64]:
    """Which keypoint is seen in the place of each one when the object is mirrored."""
    index = np.arange(K)
    for left, right in pairs:
        index[left], index[right] = right, left
    return index
