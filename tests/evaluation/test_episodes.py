"""Episodes: the official ones to the digit, and what becomes of small or incomplete data."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import numpy as np
import pytest

from edgecape.data.dataset import Category, Dataset, Instance
from edgecape.data.objects import read_coco
from edgecape.errors import DataError
from edgecape.evaluation.episodes import Episode, pairs, protocol_episodes, restrict

# Objects per category of MP-100's test files, which list one category after the other, and the first digits of the
# sha1 of the official pairs.
MP100_TEST = {3: [100] * 20, 5: [100] * 17 + [98, 100, 100]}
OFFICIAL = [(3, 1, "f63642c2b397"), (3, 5, "2ff531772dc4"), (5, 1, "3ac4473016d3"), (5, 5, "c73fe378e121")]


def dataset(*sizes: int, mixed: bool = True) -> Dataset:
    """Categories of these sizes, their objects taking turns or one category after the other."""
    categories = tuple(Category(index, f"c{index}", 2, ()) for index in range(len(sizes)))
    owners = [category for turn in range(max(sizes)) for category, size in enumerate(sizes) if turn < size]
    owners = owners if mixed else sorted(owners)
    points, seen = np.ones((2, 2), np.float32), np.ones(2, bool)
    return Dataset(
        "small", categories, tuple(Instance(i, c, Path("x"), (0, 0, 9, 9), points, seen) for i, c in enumerate(owners))
    )


def check_official(data: Dataset, shots: int, expected: str) -> None:
    episodes, notes = protocol_episodes(data, shots)
    official = pairs(episodes)
    assert len(official) == 60_000
    assert notes == []
    assert hashlib.sha1(json.dumps(official).encode()).hexdigest()[:12] == expected


@pytest.mark.parametrize(("split", "shots", "expected"), OFFICIAL)
def test_official_episodes_of_as_many_objects(split: int, shots: int, expected: str) -> None:
    """Episodes depend on nothing but which object is of which category."""
    check_official(dataset(*MP100_TEST[split], mixed=False), shots, expected)


@pytest.mark.parametrize(("split", "shots", "expected"), OFFICIAL)
def test_episodes_of_mp100_are_the_official_ones(shared: Path, split: int, shots: int, expected: str) -> None:
    check_official(
        read_coco(shared / f"data/mp100_annotations/mp100_split{split}_test.json.gz", shared), shots, expected
    )


@pytest.mark.parametrize("shots", [1, 5])
def test_pairs_of_the_reference_set(shared: Path, shots: int) -> None:
    folder = shared / "golden/dataset"
    episodes, _ = protocol_episodes(read_coco(folder / "ann.json", folder), shots, episodes=4)
    np.testing.assert_array_equal(pairs(episodes), np.load(folder / "dataset_golden.npz")[f"paired_{shots}"])


@pytest.mark.parametrize("shots", [1, 5])
def test_draws_are_those_of_the_global_generator(shots: int) -> None:
    data = dataset(30, 25)
    random.seed(1)
    expected = [random.sample(members.tolist(), shots + 15) for members in data.by_category for _ in range(7)]
    random.seed(99)
    before = random.getstate()
    episodes, notes = protocol_episodes(data, shots, episodes=7)
    assert [[*episode.supports, *episode.queries] for episode in episodes] == expected
    assert all(len(episode.supports) == shots for episode in episodes)
    assert random.getstate() == before
    assert notes == []


def test_small_categories_get_fewer_queries_or_are_left_out() -> None:
    data = dataset(20, 6, 5, 0)
    episodes, notes = protocol_episodes(data, shots=5, episodes=3)
    sizes = {
        category: {len(e.queries) for e in episodes if data.instances[e.supports[0]].category == category}
        for category in range(4)
    }
    assert sizes == {0: {15}, 1: {1}, 2: set(), 3: set()}
    assert [note.split(":")[0] for note in notes] == ["c1", "c2", "c3"]
    assert "1 instead of 15" in notes[0]
    assert "5 objects are too few" in notes[1]


def test_no_category_large_enough() -> None:
    with pytest.raises(DataError, match="6 objects a 5-shot episode needs"):
        protocol_episodes(dataset(5, 3), shots=5)


@pytest.mark.parametrize("bad", [{"shots": 0}, {"shots": 1, "episodes": 0}, {"shots": 1, "queries": 0}])
def test_impossible_numbers(bad: dict[str, int]) -> None:
    with pytest.raises(DataError, match="at least 1"):
        protocol_episodes(dataset(20), **bad)


def test_restricting_keeps_official_pairs_only() -> None:
    data = dataset(20, 20)
    episodes, _ = protocol_episodes(data, shots=2, episodes=10)
    allowed = set(data.by_category[1].tolist()) - {1, 3}
    kept = restrict(episodes, allowed)
    official = {tuple(pair) for pair in pairs(episodes)}
    expected = [pair for pair in pairs(episodes) if set(pair) <= allowed]
    assert pairs(kept) == expected
    assert {tuple(pair) for pair in pairs(kept)} < official
    assert restrict(episodes, range(40)) == episodes
    assert restrict([Episode((0,), (1, 2))], {1, 2}) == []
    assert restrict([Episode((0,), (1, 2))], {0}) == []
