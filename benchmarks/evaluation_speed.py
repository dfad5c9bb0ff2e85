"""Evaluating n pairs: one backbone pass per distinct crop against the pairwise way of two passes per pair.

The pairwise way is what the released CAPE code does: each pair is a sample with a support and a query image, and both
go through the backbone. Run with: python benchmarks/evaluation_speed.py [--help]
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from edgecape.data.dataset import Category, Dataset, Instance
from edgecape.data.features import FeatureStore
from edgecape.data.objects import read_coco
from edgecape.evaluation.episodes import Episode, protocol_episodes
from edgecape.evaluation.evaluate import evaluate
from edgecape.evaluation.methods import ModelMethod, final
from edgecape.evaluation.results import Result
from edgecape.model.network import Network
from edgecape.model.settings import BackboneSettings
from edgecape.weights.backbones import load_backbone


def noise(folder: Path, objects: int) -> Dataset:
    """Pictures of nothing: speed does not depend on what they show."""
    rng = np.random.default_rng(0)
    seen = np.ones(10, dtype=bool)
    instances = []
    for index in range(objects):
        path = folder / f"{index}.jpg"
        cv2.imwrite(str(path), rng.integers(0, 255, (240, 320, 3), dtype=np.uint8))
        points = rng.uniform((60, 40), (260, 200), (10, 2)).astype(np.float32)
        instances.append(Instance(index, 0, path, (40, 20, 240, 200), points, seen))
    return Dataset("noise", (Category(1, "noise", 10, tuple((k, k + 1) for k in range(9))),), tuple(instances))


def timed(run: Callable[[], list[Result]]) -> tuple[list[Result], float]:
    start = time.perf_counter()
    return run(), time.perf_counter() - start


def main(
    annotations: Path | None = None, images: Path | None = None, episodes: int = 6, shots: int = 1, objects: int = 24
) -> None:
    """Compare both ways on one category.

    Args:
        annotations: COCO-keypoints file, whose first category is used; noise if not given.
        images: Folder its file names are relative to.
        episodes: Of 15 pairs each; the protocol has 200 per category.
        shots: Supports per pair.
        objects: How many pictures of noise.
    """
    backbone, fingerprint = load_backbone(BackboneSettings())
    methods = {"network": final(ModelMethod(Network()))}
    with tempfile.TemporaryDirectory() as folder:
        if annotations is None:
            data = noise(Path(folder), objects)
        else:
            data = read_coco(annotations, images or annotations.parent).subset([0])
        together, _ = protocol_episodes(data, shots, episodes)
        apart = [Episode(one.supports, (query,)) for one in together for query in one.queries]

        stores = [FeatureStore(backbone, fingerprint) for _ in range(2)]
        once, once_time = timed(lambda: [evaluate(data, together, methods, stores[0])["network"]])
        pairwise, pairwise_time = timed(
            lambda: [evaluate(data, [pair], methods, stores[1])["network"] for pair in apart]
        )
    n = len(apart)
    crops = len(np.unique(once[0].pairs))
    table = Table(title=f"{n} pairs, {shots}-shot, {crops} distinct crops", title_justify="left")
    for heading in ("", "backbone passes", "seconds", "pairs per second"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, store, seconds in (("one pass per crop", stores[0], once_time), ("pairwise", stores[1], pairwise_time)):
        table.add_row(name, str(store.computed), f"{seconds:.1f}", f"{n / seconds:.2f}")
    first, second = (np.concatenate([result.distance for result in results]) for results in (once, pairwise))
    console = Console()
    console.print(table)
    console.print(f"{pairwise_time / once_time:.1f} times as fast")
    console.print(f"largest difference of any keypoint's distance: {np.nanmax(np.abs(first - second)):.1e} box sides")


if __name__ == "__main__":
    tyro.cli(main)
