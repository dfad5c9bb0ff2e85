"""From training runs to the model that ships: average their weights if there are several (a model soup), fit scores on
validation categories, check them, write half precision.

    python tools/release.py runs/small/reread --val val.json --test test.json --images images --cache CACHE
    python tools/release.py runs/one/adapt runs/two/adapt --val one/val.json two/val.json --images one two …

Scores are fitted on the categories of --val and only checked on those of --test, whose photos are in the first folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from edgecape.cli.train import read_all
from edgecape.data.features import FeatureStore
from edgecape.errors import DataError
from edgecape.evaluation.calibration import Reliability, Samples, both_ways, fit_balanced, reliability
from edgecape.matching.network import build_network
from edgecape.matching.scores import Calibration
from edgecape.runtime.torch_runtime import TorchRuntime
from edgecape.weights.backbones import load_backbone
from edgecape.weights.store import DEFAULT_MODEL, load_model


def draw(checked: Reliability, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4), layout="constrained")
    axis = figure.subplots()
    axis.plot((0, 1), (0, 1), color="0.7", linewidth=1)
    score, share, number = zip(*checked.bins, strict=True)
    sizes = [300 * n / max(number) + 8 for n in number]
    axis.scatter(score, share, s=sizes, color="tab:blue", alpha=0.7)
    axis.set(xlabel="score", ylabel="share of keypoints within 10 %", xlim=(0, 1), ylim=(0, 1))
    axis.set_title(str(checked), fontsize=10)
    figure.savefig(path, dpi=110)


def check(name: str, samples: Samples, calibration: Calibration) -> Reliability:
    found = reliability(calibration.probability(samples.features), samples.right)
    share, number = float(samples.right.float().mean()), len(samples.right)
    print(f"{name}: {number} keypoints, {share:.3f} right, {found}")
    return found


def averaged(folders: list[Path]) -> TorchRuntime:
    """The mean of several models, or the one."""
    first, *others = (load_model(folder) for folder in folders)
    config = first.config
    network = build_network(config.network, config.matching)
    heads = [first.head, *(other.head for other in others)]
    network.load_state_dict(
        {name: torch.stack([head[name].float() for head in heads]).mean(dim=0) for name in heads[0]}
    )
    backbone, found = load_backbone(config.network.backbone)
    return TorchRuntime(network, backbone, found, training=config.training, device="cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", help="of one kind, from one start")
    parser.add_argument("--val", type=Path, nargs="+", required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--images", type=Path, nargs="+", required=True)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path, default=DEFAULT_MODEL)
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--bfloat16", action="store_true", help="features: two and a half times as fast")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    runtime = averaged(options.models)
    precision = torch.bfloat16 if options.bfloat16 else torch.float32
    store = FeatureStore.of(runtime, options.cache, precision)
    collected = {}
    for name, files in (("val", options.val), ("test", [options.test])):
        data = read_all(files, options.images[: len(files)])
        ways = both_ways(runtime.network, data, store, options.episodes)
        collected[name] = ways | {"together": Samples.together(ways.values())}
    runtime.calibration = fit_balanced(collected["val"]["together"])
    if runtime.calibration is None:
        raise DataError("all keypoints of the validation data are right, or all wrong: scores cannot be fitted to them")
    for name, ways in collected.items():
        checked = {way: check(f"{name}, {way}", samples, runtime.calibration) for way, samples in ways.items()}
        if name == "test" and options.figure:
            draw(checked["together"], options.figure)
    runtime.save(options.out, dtype=torch.float16)
    size = (options.out / "model.safetensors").stat().st_size / 1e6
    print(f"{options.out}: {size:.1f} MB")


if __name__ == "__main__":
    main()
