"""From a training run to the model that ships: fit scores on validation categories, check them, write half precision.

    python tools/release.py runs/small/bias --val val.json --test test.json --images images --cache CACHE

Scores are fitted on the categories of --val and only checked on those of --test.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from edgecape import calibration
from edgecape.data.features import FeatureStore
from edgecape.data.objects import read_coco
from edgecape.evaluation.calibration import Observed, Reliability, observe, reliability
from edgecape.evaluation.episodes import protocol_episodes
from edgecape.predictor import DEFAULT_MODEL, EdgeCape


def draw(checked: Reliability, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4), layout="constrained")
    axis = figure.subplots()
    axis.plot((0, 1), (0, 1), color="0.7", linewidth=1)
    score, share, number = zip(*checked.bins, strict=True)
    sizes = [300 * n / max(number) + 8 for n in number]
    axis.scatter(score, share, s=sizes, color="tab:blue", alpha=0.7)
    axis.set(xlabel="score", ylabel="share of keypoints within 10 %", xlim=(0, 1), ylim=(0, 1))
    axis.set_title(f"ECE {checked.error:.3f}, AUROC {checked.auroc:.3f}", fontsize=10)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--val", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path, default=DEFAULT_MODEL)
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    model = EdgeCape.from_pretrained(options.model, device="cpu")
    store = FeatureStore.of(model, options.cache)
    observed = {}
    for name in ("val", "test"):
        data = read_coco(getattr(options, name), options.images)
        parts = []
        for shots in (1, 5):
            episodes, _ = protocol_episodes(data, shots, episodes=options.episodes)
            parts.append(observe(model.network, data, episodes, store))
        observed[name] = Observed(*map(torch.cat, zip(*parts, strict=True)))
    fitted_on = observed["val"]
    model.calibration = calibration.fit(fitted_on.features, fitted_on.right, fitted_on.balance)
    for name, (features, right, _) in observed.items():
        checked = reliability(model.calibration.probability(features), right)
        share = float(right.float().mean())
        print(f"{name}: {len(right)} keypoints, {share:.3f} right, ECE {checked.error:.3f}, AUROC {checked.auroc:.3f}")
        if name == "test" and options.figure:
            draw(checked, options.figure)
    model.save_pretrained(options.out, dtype=torch.float16)
    size = (options.out / "model.safetensors").stat().st_size / 1e6
    print(f"{options.out}: {size:.1f} MB")


if __name__ == "__main__":
    main()
