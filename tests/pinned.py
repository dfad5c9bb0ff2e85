"""Predictions of the shipped model at effort "best", as they were when its supports were first seen in two crop sizes.

    python tests/pinned.py FOLDER   # makes them anew, from the photos of MP-Mini's validation categories

Where MP-Mini is not at hand, the bundled examples are compared alone. The file holds coordinates, no photos.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgecape import EdgeCape, Pose, Support
from edgecape.examples import all_examples

FILE = Path(__file__).parent / "reference/pinned.npz"
Found = dict[str, NDArray[np.float32]]


def of_examples(model: EdgeCape) -> Iterator[tuple[str, Found]]:
    for example in all_examples():
        prompt = model.prompt(example.support)
        yield (
            f"example {example.name}",
            _found(model.predict(prompt, list(example.queries), effort="best"), prompt.graph),
        )


def of_data(model: EdgeCape, folder: Path, wanted: tuple[str, ...] = ()) -> Iterator[tuple[str, Found]]:
    """1 and 5 shots of each category, or of those wanted, with and without names, on four other photos."""
    data = json.loads((folder / "annotations/val.json").read_text())
    files = {image["id"]: folder / "images" / image["file_name"] for image in data["images"]}
    for category in data["categories"]:
        if wanted and category["name"] not in wanted:
            continue
        members = [entry for entry in data["annotations"] if entry["category_id"] == category["id"]]
        members.sort(key=lambda entry: (-entry["num_keypoints"], entry["id"]))
        complete = [entry for entry in members if entry["num_keypoints"] == len(category["keypoints"])]
        shots = (complete or members)[:5]
        others = [entry for entry in members if entry not in shots]
        queries = others[:: max(1, len(others) // 4)][:4]
        for number in (1, 5):
            for names in (category["keypoints"], None):
                prompt = model.prompt([_support(shot, category, files, names) for shot in shots[:number]])
                photos = [files[query["image_id"]] for query in queries]
                poses = model.predict(prompt, photos, [query["bbox"] for query in queries], effort="best")
                yield f"{category['name']}|{number}|{'named' if names else 'unnamed'}", _found(poses, prompt.graph)


def _support(entry, category, files, names) -> Support:
    points = np.array(entry["keypoints"], dtype=np.float32).reshape(-1, 3)
    skeleton = category["skeleton"] or None
    return Support(files[entry["image_id"]], points[:, :2], skeleton, points[:, 2] > 0, entry["bbox"], names)


def _found(poses: list[Pose], graph: NDArray[np.float32]) -> Found:
    keypoints, sides = np.stack([pose.keypoints for pose in poses]), [max(pose.box[2:]) for pose in poses]
    scores = np.stack([pose.scores for pose in poses])
    return {"keypoints": keypoints, "scores": scores, "graph": graph, "sides": np.array(sides, dtype=np.float32)}


if __name__ == "__main__":
    shipped = EdgeCape.from_pretrained(device="cpu")
    cases = [*of_examples(shipped), *of_data(shipped, Path(sys.argv[1]))]
    np.savez_compressed(FILE, **{f"{case}|{name}": array for case, found in cases for name, array in found.items()})
