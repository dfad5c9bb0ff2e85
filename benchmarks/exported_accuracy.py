"""Accuracy and speed of exported models: the protocol's pairs through `prompt` and `predict`, as users run them.

    python benchmarks/exported_accuracy.py DATA EXPORTED... [--split val] [--episodes 5] [--effort best]

The first EXPORTED, usually fp32, is what the others are compared with, pair by pair; "default" is the model in torch.
`edgecape evaluate` measures models in torch, on crops of the protocol; here photos are cropped as `predict` does it.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from edgecape import EdgeCape, Pose, Support
from edgecape.data.dataset import Dataset
from edgecape.evaluation.benchmark import Benchmark, BenchmarkOptions
from edgecape.evaluation.episodes import Episode, pairs
from edgecape.evaluation.evaluate import distances
from edgecape.evaluation.metrics import Floats
from edgecape.evaluation.results import Result, difference, summarise
from edgecape.runtime.base import Effort


def measure(model: EdgeCape, benchmark: Benchmark, effort: Effort) -> Result:
    dataset = benchmark.dataset
    widest = max(category.K for category in dataset.categories)
    found = np.concatenate([_run(model, dataset, episode, effort, widest) for episode in benchmark.episodes])
    table = np.array(pairs(benchmark.episodes), dtype=np.int64)
    queries = [dataset.instances[index] for index in table[:, -1]]
    owner = np.array([query.category for query in queries], dtype=np.int64)
    scale = np.array([max(query.box[2:]) for query in queries], dtype=np.float64)
    return Result(dataset.name, dataset.labels, owner, table, found, scale)


def _run(model: EdgeCape, dataset: Dataset, episode: Episode, effort: Effort, widest: int) -> Floats:
    """Distances (Q, widest) of one episode."""
    supports, queries = ([dataset.instances[i] for i in some] for some in (episode.supports, episode.queries))
    category = dataset.category_of(supports[0])
    usable = np.logical_and.reduce([support.visible for support in supports])
    prompt = model.prompt(
        [
            Support(shot.image, shot.keypoints, category.edges, usable, shot.box, symmetry=category.symmetry)
            for shot in supports
        ]
    )
    poses = model.predict(prompt, [query.image for query in queries], [query.box for query in queries], effort=effort)
    rows = []
    for pose, query in zip(poses, queries, strict=True):
        assert isinstance(pose, Pose)
        rows.append(np.pad(distances(pose.keypoints, query, usable), (0, widest - len(usable)), constant_values=np.nan))
    return np.stack(rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path)
    options.add_argument("exported", nargs="+")
    options.add_argument("--split", default="val")
    options.add_argument("--shots", type=int, default=1)
    options.add_argument("--episodes", type=int, default=5)
    options.add_argument("--effort", default="best", choices=("fast", "auto", "best"))
    given = options.parse_args()
    benchmark = Benchmark.read(
        BenchmarkOptions(given.data, split=given.split, shots=given.shots, episodes=given.episodes)
    )
    every = {"all": range(len(benchmark.dataset.categories))}
    print(f"{benchmark.title}, {benchmark.pairs} pairs, effort {given.effort}; mPCK@5 and difference from the first")
    first: Result | None = None
    for name in given.exported:
        model = EdgeCape.from_pretrained(None if name == "default" else name)
        start = time.perf_counter()
        found = measure(model, benchmark, given.effort)
        each = (time.perf_counter() - start) / benchmark.pairs
        first = first or found
        (row,), (less,) = summarise(found, every), difference(found, first, every)
        size = "" if name == "default" else f"{sum(f.stat().st_size for f in Path(name).iterdir()) / 1e6:.0f} MB"
        mean, change, low, high = (100 * part["mPCK@5"] for part in (row.mean, less.mean, less.low, less.high))
        shown = f"{mean:6.2f}  {change:+.2f} ({low:+.2f} … {high:+.2f})  {1000 * each:.0f} ms per pair"
        print(f"{Path(name).name:10} {size:>7} {shown}", flush=True)


if __name__ == "__main__":
    main()
