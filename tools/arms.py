"""Does the graph help? Decoders trained alike on one frozen encoder: told nothing, the skeleton, the predicted graph.

    python tools/arms.py runs/small/graph --data train.json --val val.json --test test.json --images images

All arms share the encoder, the proposals and the predicted graph of the model given, so that they differ in nothing but
what is done with the graph; each starts from the same random decoder and sees the same episodes. Prints mPCK@5 on
validation and test categories and the paired differences between arms with their 95 % intervals.

In the default model keypoints vote along the graph before the decoder sees it. With --as-published there are no votes
and one view, so the decoder starts from the proposals, as in the paper: there, nobody but the decoder can make use of
the graph. Matching (centre, layout, direct cosine, LoRA) stays, as the encoder was trained with it.
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
from edgecape.evaluation.methods import ModelMethod, final
from edgecape.evaluation.results import Result, Row, difference, summarise
from edgecape.io.files import write_json
from edgecape.matching.network import build_network, lora_of
from edgecape.matching.settings import ViewSettings
from edgecape.model.network import Network
from edgecape.training.initialise import start_new_parts
from edgecape.training.loop import train
from edgecape.training.settings import TrainSettings, recipe
from edgecape.weights.backbones import load_backbone
from edgecape.weights.config import ModelConfig
from edgecape.weights.store import find_model, load_model

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
PUBLISHED = ("image_proj.", "keypoint_proj.", "encoder.", "proposal_generator.", "pose_graph.")
SHARED = (*PUBLISHED, "lora.", "layout_proj.", "direct")  # with what we add to the published network


def arm_settings(
    name: str, base: ModelConfig, epochs: int, shots: tuple[int, ...], as_published: bool, seed: int
) -> TrainSettings:
    """The last phase of the recipe, for the model whose encoder is used; distance and batch are those of the paper."""
    settings, matching = recipe("small"), base.matching
    if as_published and matching is not None:
        matching = replace(matching, voting=replace(matching.voting, rounds=0), views=ViewSettings())
    phase = replace(
        next(phase for phase in settings.phases if phase.name == "bias"),
        name=name.replace(" + ", "_"),
        epochs=epochs,
        shots=shots,
        freeze=SHARED if matching else PUBLISHED,
        distance="l1",
        structure_loss_weight=0.0,  # of votes, in which nothing learns here, and as published there are none
        **ARMS[name],
    )
    return replace(settings, network=base.network, matching=matching, phases=(phase,), batch=16, seed=seed)


def fresh_decoder(settings: TrainSettings, trained: dict[str, Tensor]) -> dict[str, Tensor]:
    """All of a trained head but its decoder, which is as at the start and, as far as arms have it, the same in all."""
    torch.manual_seed(settings.seed)
    whole = build_network(replace(settings.network, graph="predicted", bias="markov"), settings.matching)
    start_new_parts(whole)
    state, phase = whole.state_dict(), settings.phases[0]
    arm = build_network(replace(settings.network, graph=phase.graph, bias=phase.bias), settings.matching)
    return {name: (trained if name.startswith(SHARED) else state)[name] for name in arm.state_dict()}


def measure(
    networks: dict[str, Network], data: Dataset, store: FeatureStore, shots: int, episodes: int
) -> dict[str, Result]:
    drawn, _ = protocol_episodes(data, shots, episodes)
    seen = store.with_lora(lora_of(next(iter(networks.values()))))  # all arms share it
    return evaluate(data, drawn, {name: final(ModelMethod(network)) for name, network in networks.items()}, seen)


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

    base = load_model(find_model(options.base))
    if base.config.network.graph != "predicted":
        parser.error(f"{options.base} predicts no graph; give a model of the phase 'graph' or 'bias'")
    data = {name: read_coco(getattr(options, name), options.images) for name in ("data", "val", "test")}
    backbone, fingerprint = load_backbone(base.config.network.backbone, base.backbone)
    blocks = base.config.matching.lora.blocks if base.config.matching else 0
    store = FeatureStore(backbone, fingerprint, options.cache, blocks=blocks)
    networks = {}
    for name in ARMS:
        settings = arm_settings(
            name, base.config, options.epochs, tuple(options.shots), options.as_published, options.seed
        )
        start = fresh_decoder(settings, base.head)
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
            print(f"\n{part}, {shots}-shot, mPCK@5 (95 % interval): {', '.join(next(iter(rows.values())))}")
            for name, row in rows.items():
                print(f"  {name:32s}", *(f"{mean:6.2f} ({low:.2f} … {high:.2f})" for mean, low, high in row.values()))
    write_json(options.out / f"arms-{options.seed}.json", table, indent=1)


if __name__ == "__main__":
    main()
