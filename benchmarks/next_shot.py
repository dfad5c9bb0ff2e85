"""Which photo to mark next: ways to choose a second shot, by what it brings on the photos that nobody marked.

    python benchmarks/next_shot.py --annotations FILE --images FOLDER [--starts 6] [--photos 60]

The file is one of COCO keypoints. In every category, some objects in turn are the one shot there is; each way then
chooses the second among the others. Measured on the objects that no way chose: mPCK@5 over all keypoints that can be
seen there, those that no shot shows counting as missed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import tyro
from numpy.typing import NDArray

from edgecape import EdgeCape, Support
from edgecape.data.dataset import Dataset, Instance
from edgecape.data.objects import read_coco
from edgecape.evaluation.metrics import THRESHOLDS, pck
from edgecape.types import Pose

Floats = NDArray[np.float64]
RANDOM = 3  # choices of chance, whose mean counts


def remembering(model: EdgeCape) -> dict[bytes, Floats]:
    """Let each frame through the backbone once; what a frame looks like as a whole, by its bytes."""
    import torch

    runtime = model.torch_runtime
    compute, kept, looks = runtime.features, {}, {}

    def features(frames: NDArray[np.uint8]) -> torch.Tensor:
        keys = [frame.tobytes() for frame in frames]
        new = [n for n, key in enumerate(keys) if key not in kept]
        for n, found in zip(new, compute(frames[new]) if new else (), strict=True):
            kept[keys[n]] = found.half()
            whole = found.mean(dim=(1, 2)).double().numpy()
            looks[keys[n]] = whole / np.linalg.norm(whole)
        return torch.stack([kept[key] for key in keys]).float()

    runtime.features = features  # type: ignore[method-assign]
    return looks


def support(dataset: Dataset, thing: Instance) -> Support:
    category = dataset.category_of(thing)
    return Support(
        thing.image, thing.keypoints, category.edges, thing.visible, thing.box, symmetry=category.symmetry or None
    )


def quality(poses: list[Pose], things: list[Instance]) -> Floats:
    """mPCK@5 of each."""
    K = len(things[0].visible)
    distance = np.full((len(things), K), np.nan)
    for row, (pose, thing) in enumerate(zip(poses, things, strict=True)):
        away = np.linalg.norm(pose.keypoints - thing.keypoints, axis=1) / max(thing.box[2:])
        distance[row] = np.where(thing.visible, np.nan_to_num(away, nan=np.inf), np.nan)
    return pck(distance, THRESHOLDS).mean(axis=1)


def layout(points: NDArray[np.float32], box: tuple[float, ...]) -> Floats:
    """Keypoints in the box, whatever its size; nan where unknown."""
    return (points - np.array(box[:2])) / max(box[2:])


def unlike(one: Floats, other: Floats) -> float:
    """Mean distance of two layouts after the best move and scale, seen as they are or in a mirror."""
    both = np.isfinite(one).all(axis=1) & np.isfinite(other).all(axis=1)
    if both.sum() < 3:
        return 1.0
    a, b = (points[both] - points[both].mean(axis=0) for points in (one, other))
    a, b = a / max(np.linalg.norm(a), 1e-6), b / max(np.linalg.norm(b), 1e-6)
    return min(float(np.linalg.norm(a - b * side, axis=1).mean()) for side in ((1, 1), (-1, 1)))


def main(annotations: Path, images: Path, starts: int = 6, photos: int = 60, seed: int = 0) -> None:
    dataset = read_coco(annotations, images)
    model = EdgeCape.from_pretrained()
    looks = remembering(model)
    rng = np.random.default_rng(seed)
    gains: dict[str, list[list[float]]] = {}
    first: list[list[float]] = []
    for category, members in enumerate(dataset.by_category):
        things = [dataset.instances[n] for n in rng.permutation(members)[:photos]]
        good = [n for n, thing in enumerate(things) if thing.visible.mean() >= 0.6][:starts]
        rows: dict[str, list[float]] = {}
        before: list[float] = []
        for start in good:
            found = trial(model, dataset, things, start, looks, rng)
            before.append(found.pop("one shot"))
            for way, value in found.items():
                rows.setdefault(way, []).append(value - before[-1])
        first.append(before)
        for way, values in rows.items():
            gains.setdefault(way, []).append(values)
        told = ", ".join(f"{way} {100 * np.mean(values):+.1f}" for way, values in rows.items())
        print(f"{dataset.labels[category]:24} {100 * np.mean(before):.1f}: {told}", flush=True)
    print(f"one shot {100 * np.mean([np.mean(row) for row in first]):.1f}")
    chance = [np.array(row) for row in gains["chance"]]
    for way, by_category in gains.items():
        means = np.array([np.mean(row) for row in by_category])
        apart = np.array([np.mean(np.array(row) - other) for row, other in zip(by_category, chance, strict=True)])
        worse = np.mean([value < 0 for row in by_category for value in row])
        drawn = apart[rng.integers(0, len(apart), (2000, len(apart)))].mean(axis=1)
        low, high = np.percentile(100 * drawn, [2.5, 97.5])
        told = f"{100 * apart.mean():+.1f} than by chance ({low:+.1f} … {high:+.1f})"
        print(f"{way:28} {100 * means.mean():+.1f}, {told}; worse than one shot in {100 * worse:.0f} % of trials")


def trial(
    model: EdgeCape,
    dataset: Dataset,
    things: list[Instance],
    start: int,
    looks: dict[bytes, Floats],
    rng: np.random.Generator,
) -> dict[str, float]:
    """mPCK@5 with one shot, and with the second shot that each way chooses."""

    def find(shots: list[int]) -> list[Pose]:
        prompt = model.prompt([support(dataset, things[n]) for n in shots])
        pictures, boxes = [thing.image for thing in things], [thing.box for thing in things]
        return model.predict(prompt, pictures, boxes, batch_size=16, effort="fast")

    poses = find([start])
    look = np.stack([seen(model, thing, looks) for thing in things])
    far = 1 - look @ look.T  # (N, N)
    layouts = [layout(pose.keypoints, thing.box) for pose, thing in zip(poses, things, strict=True)]
    marked = layout(np.where(things[start].visible[:, None], things[start].keypoints, np.nan), things[start].box)
    score = np.array([pose.score for pose in poses])
    shape = np.array([unlike(one, marked) for one in layouts])
    nearest = far[start]
    left = np.maximum(nearest[None] - far, 0).sum(axis=1)  # how much nearer all photos would come
    weighed = (np.maximum(nearest[None] - far, 0) * (1 - score)[None]).sum(axis=1)
    rank = lambda values: np.argsort(np.argsort(values))  # noqa: E731
    others = [n for n in range(len(things)) if n != start]

    def most(values: Floats) -> int:
        return max(others, key=lambda n: values[n])

    choices: dict[str, Callable[[], int]] = {
        "lowest score": lambda: most(-score),
        "looks most unlike": lambda: most(nearest),
        "layout most unlike": lambda: most(shape),
        "score and looks": lambda: most(rank(-score) + rank(nearest)),
        "covers most": lambda: most(left),
        "covers most of the unsure": lambda: most(weighed),
        "middle score": lambda: most(-np.abs(score - np.median(score))),
    }
    chosen = {way: choose() for way, choose in choices.items()}
    by_chance = [int(n) for n in rng.choice(others, RANDOM, replace=False)]
    rest = [n for n in others if n not in (*chosen.values(), *by_chance)]
    held = [things[n] for n in rest]
    second = {n: find([start, n]) for n in {*chosen.values(), *by_chance}}
    values = {n: float(quality([found[m] for m in rest], held).mean()) for n, found in second.items()}
    return {
        "one shot": float(quality([poses[m] for m in rest], held).mean()),
        **{way: values[n] for way, n in chosen.items()},
        "chance": float(np.mean([values[n] for n in by_chance])),
    }


def seen(model: EdgeCape, thing: Instance, looks: dict[bytes, Floats]) -> Floats:
    """What an object looks like as a whole."""
    from edgecape import geometry
    from edgecape.io.images import load_image

    size = model.runtime.size
    frame = geometry.Pyramid(load_image(thing.image)).warp(geometry.crop_transform(thing.box, size), size)
    return looks[frame.tobytes()]


if __name__ == "__main__":
    tyro.cli(main)
