"""What a query costs at each effort on the photos of a data set, one photo at a time, as multiples of one plain forward
of the backbone in the same process, timed before and after each.

python benchmarks/effort.py DATA [--split val] [--queries 15] [--exported FOLDER] [--processor-time]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from edgecape import EdgeCape, Support
from edgecape.evaluation.cost import stock


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data", type=Path)
    options.add_argument("--split", default="val")
    options.add_argument("--queries", type=int, default=15)
    options.add_argument("--exported", type=Path)
    options.add_argument("--processor-time", action="store_true", help="on one thread, for a busy machine")
    given = options.parse_args()
    clock = time.perf_counter
    if given.processor_time:
        clock = time.process_time
        torch.set_num_threads(1)
        os.environ["OMP_NUM_THREADS"] = "1"
    plain = EdgeCape.from_pretrained()
    model = plain if given.exported is None else EdgeCape.from_pretrained(given.exported)
    passing = stock(plain.torch_runtime.backbone)
    pixels = torch.zeros(1, 3, *plain.torch_runtime.size)

    pause = 0.0 if given.exported is None else 0.1  # until the other runtime's threads no longer wait for work

    def backbone() -> float:
        time.sleep(pause)
        start = clock()
        with torch.inference_mode():
            passing(pixels)
        return clock() - start

    data = json.loads((given.data / f"annotations/{given.split}.json").read_text())
    files = {image["id"]: given.data / "images" / image["file_name"] for image in data["images"]}
    ratios: dict[str, list[float]] = {"fast": [], "auto": [], "best": []}
    thorough = 0
    for category in data["categories"]:
        members = [entry for entry in data["annotations"] if entry["category_id"] == category["id"]]
        first, *others = sorted(members, key=lambda entry: (-entry["num_keypoints"], entry["id"]))
        points = np.array(first["keypoints"], dtype=np.float32).reshape(-1, 3)
        marks = (points[:, :2], category["skeleton"] or None, points[:, 2] > 0, first["bbox"], category["keypoints"])
        prompt = model.prompt(Support(files[first["image_id"]], *marks))
        model.predict(prompt, files[first["image_id"]], first["bbox"], effort="best")  # turned views are encoded once
        for query in others[:: max(1, len(others) // given.queries)][: given.queries]:
            for effort, found in ratios.items():
                before = backbone()
                time.sleep(pause)
                start = clock()
                (pose,) = model.predict(prompt, files[query["image_id"]], query["bbox"], effort=effort)
                took = clock() - start
                found.append(took / ((before + backbone()) / 2))
                thorough += effort == "auto" and pose.effort == "best"
    for effort, found in ratios.items():
        mean, median = statistics.mean(found), statistics.median(found)
        print(f"{effort:5} mean {mean:.2f}  median {median:.2f} t_b, {len(found)} photos")
    print(f"auto looked the best way at {100 * thorough / len(ratios['auto']):.0f} % of them")


if __name__ == "__main__":
    main()
