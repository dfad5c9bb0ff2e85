"""Decoders that re-read the similarity, trained from what the frozen encoder of a model leaves.

    python tools/decoder.py encode --data mpmini mpmini_more --out encoded
    python tools/decoder.py train encoded --out runs/fixed --graph fixed
    python tools/decoder.py measure encoded runs/none runs/fixed

A folder of data holds annotations/train.json, annotations/val.json and images/. Test files are never read. All
commands go on where they were stopped.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgecape.data.dataset import Dataset, joined
from edgecape.data.features import FeatureStore
from edgecape.data.objects import read_coco
from edgecape.evaluation.episodes import Episode, pairs, protocol_episodes
from edgecape.evaluation.groups import known_definitions
from edgecape.evaluation.results import Result, Row, difference, summarise
from edgecape.io.files import write_json
from edgecape.matching.network import MatchingNetwork
from edgecape.matching.settings import RereadingSettings
from edgecape.runtime.torch_runtime import TorchRuntime
from edgecape.training.decoder import DecoderTrainer
from edgecape.training.decoder_validation import (
    SKELETONS,
    DecoderValidation,
    bend,
    best_of_peaks,
    by_votes,
    collapsed,
    load_parts,
    off_by,
    predictions,
)
from edgecape.training.encoded import PART, SUFFIX, EncodedEpisodes, write_protocol_part, write_training_parts
from edgecape.training.sampler import EpisodeSampler
from edgecape.training.settings import EPISODES, DecoderTraining, HidingSettings
from edgecape.weights.store import find_model, load_model

GROUPS = "groups.json"
EPISODES_OF_VAL = 5  # of each category


def read(root: Path, part: str) -> Dataset:
    return read_coco(root / f"annotations/{part}.json", root / "images")


def definitions(roots: list[Path]) -> dict[str, list[str]]:
    """Names of the validation categories whose keypoints training knows, and of the others."""
    train, val = (joined([read(root, part) for root in roots]) for part in ("train", "val"))
    known = known_definitions(val, train)
    names = np.array([category.name for category in val.categories])
    return {"known": names[known].tolist(), "new": names[~known].tolist()}


def by_category(data: Dataset) -> dict[int, list[Episode]]:
    """Validation episodes of each category, in the protocol's order."""
    episodes, _ = protocol_episodes(data, 1, EPISODES_OF_VAL)
    found: dict[int, list[Episode]] = {}
    for one in episodes:
        found.setdefault(data.instances[one.supports[0]].category, []).append(one)
    return found


def encode(options: argparse.Namespace) -> None:
    runtime = TorchRuntime.load(options.model, device="cpu")
    network = runtime.network
    store = FeatureStore.of(runtime, options.cache or options.out / "features", precision=torch.bfloat16)
    write_json(options.out / GROUPS, definitions(options.data), indent=1)
    for root in options.data:
        data = read(root, "val")
        for index, drawn in by_category(data).items():
            for part, cover in (("val", 0.0), ("covered", EPISODES.cover)):
                path = options.out / part / f"{data.categories[index].name}{SUFFIX}"
                write_protocol_part(network, store, data, drawn, path, cover)
                print(path, flush=True)
    train = joined([read(root, "train") for root in options.data])
    sampler = EpisodeSampler(train, store, EPISODES, options.seed)
    write_training_parts(network, sampler, options.out / "train", options.parts, options.part_size)


def train(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    default = DecoderTraining()
    settings = replace(
        default,
        graph=options.graph,
        bias=options.bias,
        rereading=RereadingSettings(
            places=not options.without_places,
            votes=not (options.without_places or options.without_votes),
            rivals=options.rivals,
            neighbours=options.neighbours,
        ),
        voting=not (options.without_places or options.without_votes),
        hiding=replace(default.hiding, episodes=options.hiding),
        learns=options.learns,
        steps=options.steps,
        learning_rate=options.learning_rate,
        dropout=options.dropout,
        validate_every=options.validate_every,
        seed=options.seed,
    )
    start = None if options.start is None else load_model(options.start / "model").head
    validate = DecoderValidation(options.encoded, json.loads((options.encoded / GROUPS).read_text()))
    options.out.mkdir(parents=True, exist_ok=True)
    trainer = DecoderTrainer(load_model(find_model(options.model)), settings, options.out, start)
    trainer.train(EncodedEpisodes(options.encoded / "train", options.parts), validate)


def measure(options: argparse.Namespace) -> None:
    """Arms beside each other on the same pairs, and the differences between them and between skeletons. Runs whose
    names differ in a number at the end are seeds of one arm."""
    torch.set_num_threads(1)
    val = joined([read(root, "val") for root in options.data])
    names, table = [category.name for category in val.categories], pair_table(options.data, val)
    groups = {"all": names} | json.loads((options.encoded / GROUPS).read_text())
    chosen = {group: [names.index(name) for name in members] for group, members in groups.items()}
    arms: dict[str, list[MatchingNetwork | None]] = {"start": [None]}
    for folder in options.runs:
        network = load_model(folder / "model").network().eval()
        assert isinstance(network, MatchingNetwork)
        arms.setdefault(folder.name.rstrip("0123456789").rstrip("-"), []).append(network)
    report: dict[str, Any] = {}
    for condition in ("val", "covered"):
        parts = {names.index(name): part for name, part in load_parts(options.encoded / condition).items()}
        results: dict[tuple[str, str], list[Result]] = {}
        for name, seeds in arms.items():
            told = seeds[0] is not None and seeds[0].settings.graph != "none"
            for skeleton, change in {"as given": None, **(SKELETONS if told else {})}.items():
                met: list[float] = []
                for network in seeds:
                    points = {index: predictions(network, parts[index], change) for index in table}
                    off = {index: off_by(points[index], parts[index]) for index in table}
                    results.setdefault((name, skeleton), []).append(result(val, table, off))
                    met += [100 * float(np.nanmean(collapsed(points[index], parts[index]))) for index in table]
                found = results[name, skeleton]
                rows = report[f"{condition}, {name}, {skeleton}"] = in_groups(summarise(found, chosen))
                rows["collapsed"] = [round(float(np.mean(met)), 2)]
                rows["seeds"] = [round(100 * one.metrics()["mPCK@5"], 2) for one in found]
                print(condition, name, skeleton, *rows.values(), flush=True)
        bent = np.concatenate([bend(parts[index]) for index in table])
        voted = result(val, table, {index: off_by(by_votes(parts[index]), parts[index]) for index in table})
        report[f"{condition}, votes without training"] = in_groups(summarise(voted, chosen))
        results["votes without training", "as given"] = [voted]
        for number in (2, 3):
            best = result(val, table, {index: best_of_peaks(parts[index], number) for index in table})
            report[f"{condition}, best of {number} peaks"] = in_groups(summarise(best, chosen))
        for a, b in combinations(results, 2):
            if a[0] == b[0] or a[1] == b[1] == "as given":
                rows = in_groups(difference(results[b], results[a], chosen))
                wider = in_groups(difference(results[b], results[a], {"all": chosen["all"]}, over_categories=True))
                rows["other categories too"] = wider["all"]
                rows |= by_bend(results[b], results[a], bent, chosen["all"])
                report[f"{condition}, {', '.join(b)} − {', '.join(a)}"] = rows
    write_json(options.out, report, indent=1)
    for name, rows in report.items():
        print(f"{name:64s}", *(f"{group} {' '.join(f'{value:6.2f}' for value in row)}" for group, row in rows.items()))


def by_bend(first: list[Result], second: list[Result], bent: np.ndarray, every: list[int]) -> dict[str, list[float]]:
    """First minus second on the third of the pairs that one affine map joins best, and so on."""
    low, high = np.nanquantile(bent, (1 / 3, 2 / 3))
    thirds = {"stiff": bent < low, "between": (low <= bent) & (bent < high), "bent": bent >= high}
    return {
        name: in_groups(difference(*([one.subset(pairs) for one in side] for side in (first, second)), {name: every}))[
            name
        ]
        for name, pairs in thirds.items()
    }


def pair_table(roots: list[Path], val: Dataset) -> dict[int, list[list[int]]]:
    """The encoded pairs of each category, numbered as in the joined data: the protocol's, data set by data set."""
    table: dict[int, list[list[int]]] = {}
    offset = 0
    for root in roots:
        data = read(root, "val")
        for episodes in by_category(data).values():
            moved = [[index + offset for index in pair] for pair in pairs(episodes)]
            table[val.instances[moved[0][0]].category] = moved
        offset += len(data.instances)
    return table


def result(val: Dataset, table: dict[int, list[list[int]]], found: dict[int, np.ndarray]) -> Result:
    widest = max(values.shape[1] for values in found.values())
    padded = [
        np.pad(found[index], ((0, 0), (0, widest - found[index].shape[1])), constant_values=np.nan) for index in table
    ]
    every = np.array([pair for members in table.values() for pair in members])
    owner = np.repeat(list(table), [len(members) for members in table.values()])
    scale = np.array([max(val.instances[query].box[2:]) for query in every[:, -1]])
    return Result(val.name, tuple(c.name for c in val.categories), owner, every, np.concatenate(padded), scale)


def in_groups(rows: list[Row]) -> dict[str, list[float]]:
    """mPCK@5 of groups of categories in per cent: mean, low, high."""
    return {row.group: [round(100 * part["mPCK@5"], 2) for part in (row.mean, row.low, row.high)] for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("encode")
    made.add_argument("--data", type=Path, nargs="+", required=True)
    made.add_argument("--out", type=Path, required=True)
    made.add_argument("--model", type=Path)
    made.add_argument("--cache", type=Path, help="features below LoRA, shared by all models; else in --out")
    made.add_argument("--parts", type=int, default=32)
    made.add_argument("--part-size", type=int, default=PART)
    made.add_argument("--seed", type=int, default=0)
    made.set_defaults(run=encode)
    arm = commands.add_parser("train")
    arm.add_argument("encoded", type=Path)
    arm.add_argument("--out", type=Path, required=True)
    arm.add_argument("--model", type=Path)
    arm.add_argument("--start", type=Path, help="folder of another run to go on from")
    arm.add_argument("--graph", choices=("none", "fixed", "predicted"), default="fixed")
    arm.add_argument("--bias", choices=("off", "markov"), default="off")
    arm.add_argument("--learns", choices=("decoder", "graph", "both"), default="decoder")
    arm.add_argument("--without-places", action="store_true")
    arm.add_argument("--without-votes", action="store_true")
    arm.add_argument("--rivals", action="store_true")
    arm.add_argument("--neighbours", action="store_true")
    arm.add_argument("--hiding", type=float, default=HidingSettings.episodes, help="share of episodes that hide some")
    arm.add_argument("--parts", type=int, default=0, help="learn from the first so many parts; 0: all that are there")
    arm.add_argument("--steps", type=int, default=20000)
    arm.add_argument("--learning-rate", type=float, default=DecoderTraining.learning_rate)
    arm.add_argument("--dropout", type=float, default=DecoderTraining.dropout)
    arm.add_argument("--validate-every", type=int, default=1000)
    arm.add_argument("--seed", type=int, default=0)
    arm.set_defaults(run=train)
    compared = commands.add_parser("measure")
    compared.add_argument("encoded", type=Path)
    compared.add_argument("runs", type=Path, nargs="+")
    compared.add_argument("--data", type=Path, nargs="+", required=True)
    compared.add_argument("--out", type=Path, default=Path("decoders.json"))
    compared.set_defaults(run=measure)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
