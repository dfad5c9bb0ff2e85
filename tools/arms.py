"""Does the graph help? Decoders trained alike on one frozen encoder: told nothing, the skeleton, the predicted graph.

    python tools/arms.py runs/small/graph --data train.json --val val.json --test test.json --images images

All arms share the encoder, the proposals and the predicted graph of the model given, so that they differ in nothing but
what is done with the graph; each starts from the same random decoder and sees the same episodes. Prints mPCK@5 on
validation and test categories and the paired differences between arms with their 95 % intervals.

The default model asks neighbours (consistency) before its decoder does. With --as-published the decoder starts from the
proposals, as in the paper: there, nobody but the decoder can make use of the graph.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgecape.data.dataset import Dataset
from edgecape.data.features import FeatureStore
from edgecape.data.objects import read_coco
from edgecape.evaluation.episodes import protocol_episodes
from edgecape.evaluation.evaluate import evaluate
from edgecape.evaluation.groups import everything, known_and_new
from edgecape.evaluation.methods import Runner, refined
from edgecape.evaluation.results import Result, Row, difference, summarise
from edgecape.io.files import write_json
from edgecape.model.network import Network
from edgecape.model.settings import NetworkSettings
from edgecape.training.initialise import start_new_parts
from edgecape.training.loop import train
from edgecape.training.settings import TrainSettings, recipe
from edgecape.weights.backbones import load_backbone
from edgecape.weights.store import load_model

ARMS: dict[str, dict[str, Any]] = {
    "none": {"graph": "none", "bias": "off"},
    "fixed": {"graph": "fixed", "bias": "off"},
    "predicted": {"graph": "predicted", "bias": "off"},
    "fixed + bias": {"graph": "fixed", "bias": "markov"},
    "predicted + bias": {"graph": "predicted", "bias": "markov"},
}
PAIRS = (
    ("fixed", "none"),
    ("predicted", "fixed"),
    ("fixed + bias", "fixed"),
    ("predicted + bias", "predicted"),
    ("predicted + bias", "fixed"),
    ("predicted + bias", "none"),
)
SHARED = ("adapter.", "image_proj.", "keypoint_proj.", "layout_proj.", "encoder.", "proposal_generator.", "pose_graph.")


def arm_settings(name: str, epochs: int, shots: tuple[int, ...], as_published: bool, seed: int) -> TrainSettings:
    settings = recipe("small")
    network = settings.network
    if as_published:
        network = replace(network, consistency=False, mirror=False, mirror_query=False, looks=(1.0,))
    bias = next(phase for phase in settings.phases if phase.name == "bias")
    named = name.replace(" + ", "_")
    phase = replace(bias, name=named, epochs=epochs, shots=shots, freeze=SHARED, distance="l1", **ARMS[name])
    return replace(settings, network=network, phases=(phase,), batch=16, seed=seed)  # distance and batch of the paper


def fresh_decoder(settings: NetworkSettings, trained: dict[str, Tensor], seed: int) -> dict[str, Tensor]:
    """All of a trained head but its decoder, which is as at the start."""
    torch.manual_seed(seed)
    network = Network(settings)
    start_new_parts(network)
    state = network.state_dict()
    return {name: trained[name] if name.startswith(SHARED) else value for name, value in state.items()}


def measure(
    networks: dict[str, Network], data: Dataset, store: FeatureStore, shots: int, episodes: int
) -> dict[str, Result]:
    drawn, _ = protocol_episodes(data, shots, episodes)
    seen = store.adapted(next(iter(networks.values())).adapter)  # all arms share it
    return evaluate(data, drawn, {name: refined(Runner(network)) for name, network in networks.items()}, seen)


def interval(row: Row) -> tuple[float, float, float]:
    """Mean, low and high of mPCK@5 in per cent."""
    mean, low, high = (100 * values["mPCK@5"] for values in (row.mean, row.low, row.high))
    return mean, low, high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path)
    for name in ("data", "val", "test", "images"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/arms"))
    parser.add_argument("--as-published", action="store_true")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--shots", type=int, nargs="+", default=(1, 5))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=10)
    options = parser.parse_args()

    trained = load_model(options.base)
    data = {name: read_coco(getattr(options, name), options.images) for name in ("data", "val", "test")}
    backbone, fingerprint = load_backbone(trained.settings.backbone)
    store = FeatureStore(backbone, fingerprint, options.cache)
    networks = {}
    for name, arm in ARMS.items():
        settings = arm_settings(name, options.epochs, tuple(options.shots), options.as_published, options.seed)
        network = replace(settings.network, graph=arm["graph"], bias=arm["bias"])
        start = fresh_decoder(network, trained.head, options.seed)
        folder = options.out / f"{settings.phases[0].name}-{options.seed}"
        networks[name] = train(settings, data["data"], store, folder, start=start)  # as far as it gets: the same budget

    table: dict[str, Any] = {}
    for part in ("val", "test"):
        groups = {**everything(data[part]), **known_and_new(data[part], data["data"])}
        for shots in options.shots:
            results = measure(networks, data[part], store, shots, options.episodes)
            found = {name: summarise(result, groups) for name, result in results.items()}
            found |= {f"{a} − {b}": difference(results[a], results[b], groups) for a, b in PAIRS}
            rows = {name: {row.group: interval(row) for row in members} for name, members in found.items()}
            table[f"{part}, {shots}-shot"] = rows
            print(f"\n{part}, {shots}-shot, mPCK@5 (95 % interval): {', '.join(groups)}")
            for name, row in rows.items():
                print(f"  {name:32s}", *(f"{mean:6.2f} ({low:.2f} … {high:.2f})" for mean, low, high in row.values()))
    write_json(options.out / f"arms-{options.seed}.json", table, indent=1)


if __name__ == "__main__":
    main()
