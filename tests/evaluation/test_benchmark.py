"""What is measured: the pairs that options ask for, by which methods; through commands in tests/cli."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from edgecape.evaluation.benchmark import Benchmark, BenchmarkOptions
from edgecape.evaluation.episodes import pairs, protocol_episodes
from edgecape.evaluation.methods import copy_support

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
