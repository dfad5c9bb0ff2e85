"""Which objects show their keypoints to which: the episodes of the evaluation protocol, reproduced to the digit."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgecape.data.dataset import Dataset
from edgecape.errors import DataError


@dataclass(frozen=True)
class Episode:
    """Some objects of a category as supports, others as queries; numbers are Instance.index."""

    supports: tuple[int, ...]
    queries: tuple[int, ...]


def protocol_episodes(
    dataset: Dataset, shots: int, episodes: int = 200, queries: int = 15, seed: int = 1
) -> tuple[list[Episode], list[str]]:
    """The official episodes (100 per category for validation, 200 for test), and notes on what had to be changed.

    The official code fails on a category with fewer than shots + queries objects; here it gets as many queries as it
    has objects for, or is left out.
    """
    if shots < 1 or episodes < 1 or queries < 1:
        raise DataError(f"shots, episodes and queries must be at least 1, got {shots}, {episodes} and {queries}")
    rng = random.Random(seed)  # draws the same numbers as the official random.seed(1)
    drawn: list[Episode] = []
    notes: list[str] = []
    for category, members in zip(dataset.categories, dataset.by_category, strict=True):
        objects: list[int] = members.tolist()
        asked = min(queries, len(objects) - shots)
        if asked < 1:
            notes.append(f"{category.name}: left out, {len(objects)} objects are too few for {shots}-shot episodes")
            continue
        if asked < queries:
            notes.append(
                f"{category.name}: {asked} instead of {queries} queries per episode, it has {len(objects)} objects"
            )
        for _ in range(episodes):
            chosen = tuple(rng.sample(objects, shots + asked))
            drawn.append(Episode(chosen[:shots], chosen[shots:]))
    if not drawn:
        raise DataError(f"no category of {dataset.name} has the {shots + 1} objects a {shots}-shot episode needs")
    return drawn, notes


def pairs(episodes: Sequence[Episode]) -> list[list[int]]:
    """[support…, query] of every pair, in the official order."""
    return [[*episode.supports, query] for episode in episodes for query in episode.queries]


def restrict(episodes: Sequence[Episode], allowed: Collection[int]) -> list[Episode]:
    """What is left of the episodes if only these objects can be used.

    Evaluating on a part of a benchmark thus uses a part of its official pairs, never others.
    """
    kept = []
    for episode in episodes:
        queries = tuple(query for query in episode.queries if query in allowed)
        if queries and all(support in allowed for support in episode.supports):
            kept.append(Episode(episode.supports, queries))
    return kept
