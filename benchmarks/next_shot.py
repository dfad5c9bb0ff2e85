"""Which photo to mark next: ways to choose a second shot, by what it brings on the photos that nobody marked.

    python benchmarks/next_shot.py --annotations FILE --images FOLDER --out FILE.jsonl [--starts 6]

The file is one of COCO keypoints. In every category, some objects in turn are the one shot there is; each way then
chooses the second among the others. Measured on the objects that no way chose: mPCK@5 over all keypoints that can be
seen there, those that no shot shows counting as missed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from numpy.typing import NDArray

from edgecape import EdgeCape, Support
from edgecape.data.dataset import Dataset, Instance
from edgecape.data.objects import read_coco
from edgecape.evaluation.metrics import THRESHOLDS, pck
from edgecape.studio.shots import unlike
from edgecape.types import Pose

Floats = NDArray[np.float64]
ONE = "one shot"
RANDOM = 1  # choices by chance, whose mean counts


def remembering(model: EdgeCape) -> dict[bytes, Floats]:
    """Let each frame through the backbone once; what a frame looks like as a whole, by its bytes."""
    import torch

    runtime = model.torch_runtime
    compute, kept, looks = type(runtime).features, {}, {}

    def features(frames: NDArray[np.uint8]) -> torch.Tensor:
        keys = [frame.tobytes() for frame in frames]
        new = [n for n, key in enumerate(keys) if key not in kept]
        for n, found in zip(new, compute(runtime, frames[new]) if new else (), strict=True):
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


def main(
    annotations: Path, images: Path, out: Path, starts: int = 6, photos: int = 40, trials: int | None = None
) -> None:
    """What is in `out` is not measured again; at most so many `trials` are added to it."""
    dataset = read_coco(annotations, images)
    model = EdgeCape.from_pretrained()
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {(row["category"], row["start"]) for row in rows}
    todo = [
        (turn, number, label)
        for turn in range(starts)
        for number, label in enumerate(dataset.labels)
        if (label, turn) not in done
    ]
    for turn, number, label in todo[:trials]:
        things = [
            dataset.instances[n]
            for n in np.random.default_rng(number).permutation(dataset.by_category[number])[:photos]
        ]
        good = [n for n, thing in enumerate(things) if thing.visible.mean() >= 0.6]
        rows.append({"category": label, "start": turn} | trial(model, dataset, things, good[turn], turn))
        with out.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    summarise(rows)


def summarise(rows: list[dict[str, Any]]) -> None:
    """Means over categories of means over trials, with 95 % intervals from drawing categories."""
    labels = list(dict.fromkeys(row["category"] for row in rows))
    by_category = [[row for row in rows if row["category"] == label] for label in labels]
    drawn = np.random.default_rng(0).integers(0, len(labels), (5000, len(labels)))

    def gain(way: str, other: str) -> Floats:
        return np.array([100 * np.mean([row[way] - row[other] for row in some]) for some in by_category])

    ways = [way for way in rows[0] if way not in ("category", "start", ONE)]
    first = [100 * np.mean([row[ONE] for row in some]) for some in by_category]
    for place, label in enumerate(labels):
        told = ", ".join(f"{way} {gain(way, ONE)[place]:+.1f}" for way in ways)
        print(f"{label:24} {first[place]:.1f}: {told}")
    print(f"{len(rows)} trials in {len(labels)} categories; with one shot {np.mean(first):.1f}")
    for way in ways:
        apart = gain(way, "chance")
        low, high = np.percentile(apart[drawn].mean(axis=1), [2.5, 97.5])
        worse = 100 * np.mean([row[way] < row[ONE] for row in rows])
        print(
            f"{way:26} {gain(way, ONE).mean():+.1f}; {apart.mean():+.1f} beside chance ({low:+.1f} … {high:+.1f}); "
            f"worse than one shot in {worse:.0f} % of trials"
        )


def trial(model: EdgeCape, dataset: Dataset, things: list[Instance], start: int, seed: int) -> dict[str, float]:
    """mPCK@5 with one shot, and with the second shot that each way chooses."""
    rng, looks = np.random.default_rng(seed), remembering(model)

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
    shape = unlike(marked, np.stack(layouts))
    layouts[start] = marked
    apart = np.stack([unlike(one, np.stack(layouts)) for one in layouts])
    nearest = far[start]

    def nearer(distances: Floats) -> Floats:
        """How much nearer all photos would come to a shot, by which is added."""
        return np.maximum(distances[start][None] - distances, 0).sum(axis=1)

    others = [n for n in range(len(things)) if n != start]

    def most(values: Floats) -> int:
        return max(others, key=lambda n: values[n])

    choices: dict[str, Callable[[], int]] = {
        "lowest score": lambda: most(-score),
        "looks most unlike": lambda: most(nearest),
        "layout most unlike": lambda: most(shape),
        "covers most by looks": lambda: most(nearer(far)),
        "covers most by layout": lambda: most(nearer(apart)),
    }
    chosen = {way: choose() for way, choose in choices.items()}
    by_chance = [int(n) for n in rng.choice(others, RANDOM, replace=False)]
    rest = [n for n in others if n not in (*chosen.values(), *by_chance)]
    held = [things[n] for n in rest]
    second = {n: find([start, n]) for n in {*chosen.values(), *by_chance}}
    values = {n: float(quality([found[m] for m in rest], held).mean()) for n, found in second.items()}
    return {
        ONE: float(quality([poses[m] for m in rest], held).mean()),
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
