"""What is measured: the pairs that options ask for, by which methods; through commands in tests/cli."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgecape.data.objects import read_coco
from edgecape.errors import DataError, SettingsError
from edgecape.evaluation.benchmark import Benchmark, BenchmarkOptions, choose_methods, each_split, of_split
from edgecape.evaluation.episodes import pairs, protocol_episodes
from edgecape.evaluation.methods import copy_support
from edgecape.evaluation.published import TEST_SPLITS

from toy import store, write_lamps


def test_a_part_has_official_pairs_and_says_how_much_it_is(tmp_path: Path) -> None:
    file = write_lamps(tmp_path, 6, ("lamp", "light"))
    whole = Benchmark.read(BenchmarkOptions(file, shots=2, episodes=3))
    part = Benchmark.read(BenchmarkOptions(file, shots=2, episodes=3, categories=("light",)))
    assert pairs(whole.episodes) == pairs(protocol_episodes(whole.dataset, 2, 3)[0])
    assert pairs(part.episodes) == pairs(whole.episodes)[whole.pairs // 2 :]
    assert (whole.pairs, part.pairs) == (24, 12)
    assert part.coverage.startswith("12 of 24 pairs (3 episodes per category), 1 of 2 categories")
    assert part.title == f"{file.stem}, 2-shot"


def test_methods_on_all_features_see_the_same_pairs(tmp_path: Path) -> None:
    benchmark = Benchmark.read(BenchmarkOptions(write_lamps(tmp_path, 4), episodes=2))
    done: list[int] = []
    found = benchmark.measure({store(): {"one": copy_support}, store(): {"other": copy_support}}, done.append)
    assert list(found) == ["one", "other"] and sum(done) == 2 * benchmark.pairs
    assert np.array_equal(found["one"].pairs, found["other"].pairs)
    np.testing.assert_array_equal(found["one"].distance, found["other"].distance)


def test_options_are_read_without_torch() -> None:
    script = "import sys, edgecape.cli.evaluate, edgecape.cli.experiment; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_number_of_a_split_in_a_path() -> None:
    assert of_split("runs/{split}/bias", "mp100_split3_test") == "runs/3/bias"
    assert of_split("default", "lamps") == "default"
    with pytest.raises(DataError, match="lamps is not named after a split"):
        of_split("runs/{split}", "lamps")


@pytest.mark.shared
def test_the_five_test_splits_of_mp100_share_no_category(shared: Path) -> None:
    """So that errors of their results are independent, and no two categories are mixed up in any."""
    parts = each_split(BenchmarkOptions(shared / "data/mp100_annotations", split="split*_test"))
    datasets = [read_coco(part.data, part.images) for part in parts]
    assert tuple(dataset.name for dataset in datasets) == TEST_SPLITS
    assert len({category.id for dataset in datasets for category in dataset.categories}) == 100
    assert all(len(set(dataset.labels)) == 20 for dataset in datasets)


@pytest.mark.parametrize(("model", "number"), [("default", -1), ("none", 8)])
def test_propagation_needs_a_model_and_a_number(model: str, number: int) -> None:
    with pytest.raises(SettingsError, match="give a number of poses of a model"):
        choose_methods(model, (-1,), True, None, propagate=number)
