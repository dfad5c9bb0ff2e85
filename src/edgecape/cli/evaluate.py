"""edgecape evaluate: a model beside its baselines, with the protocol of the published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import tyro
from tyro.conf import Positional, UseAppendAction, arg

from edgecape.io.edge_base import EdgeBase

if TYPE_CHECKING:
    from rich.console import Console

    from edgecape.data.dataset import Dataset
    from edgecape.data.features import FeatureStore
    from edgecape.evaluation.episodes import Episode
    from edgecape.evaluation.evaluate import Localiser
    from edgecape.evaluation.results import Report, Result, Row
    from edgecape.model.backbone import Backbone
    from edgecape.predictor import EdgeCape


def evaluate(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    data: Positional[Annotated[Path, arg(metavar="DATA")]],
    /,
    images: Path | None = None,
    split: str | None = None,
    shots: int = 1,
    episodes: int = 200,
    categories: UseAppendAction[tuple[str, ...]] = (),
    skip_missing: bool = False,
    edge_base: EdgeBase = "auto",
    groups: UseAppendAction[tuple[str, ...]] = (),
    train_annotations: Path | None = None,
    thresholds: tuple[float, ...] = (0.05, 0.1, 0.2),
    baselines: bool = True,
    layers: tuple[int, ...] = (-2, -1),
    cache: Path | None = None,
    out: Path | None = None,
) -> int:
    """Measure a model and its baselines on the same pairs, with the evaluation protocol of MP-100.

    Example: edgecape evaluate default mydata --split test --shots 5 --out results

    Runs on several processes or GPUs with: accelerate launch -m edgecape.cli.main evaluate …

    Args:
        model: Model folder, hub id or official checkpoint; "default", or "none" for the baselines alone.
        data: COCO-keypoints file, or folder with annotations/ and images/.
        images: Folder that the file names are relative to; found by itself in such a folder.
        split: Which file of a folder: its name or the end of it, such as test or split1_test.
        shots: Supports per episode; 1 and 5 are usual.
        episodes: Per category; published numbers have 200, validation 100.
        categories: Only this category, by name or id; repeat it for more.
        skip_missing: Leave out objects whose image is missing.
        edge_base: What edges are counted from; auto decides from the edges and says when it cannot.
        groups: Report a group of super-categories apart from the rest, as NAME=SUPERCATEGORY,SUPERCATEGORY or just
            SUPERCATEGORY; repeat it for more.
        train_annotations: File the model was trained on: reports categories whose keypoints it has met in training
            apart from the others.
        thresholds: Of PCK.
        baselines: Also measure copying the support and training-free matching, and the model with less of the graph.
        layers: Of the backbone, for the matching.
        cache: Folder for cached features.
        out: Folder for evaluation.json, evaluation.csv and the distances of every method (.npz).
    """
    from rich.console import Console

    from edgecape.evaluation.evaluate import processes
    from edgecape.evaluation.published import published_metrics
    from edgecape.evaluation.results import Report, summarise

    state = processes()
    console = Console(quiet=not state.is_main_process)
    task = read_task(data, images, split, shots, episodes, categories, skip_missing, edge_base)
    dataset = task.dataset
    members = _groups(dataset, groups, train_annotations)
    methods, more_notes = _methods(model, layers, baselines, cache)
    results = measure(task, methods, console)
    report = Report(
        dataset=dataset.name,
        shots=shots,
        coverage=task.coverage,
        notes=(*task.notes, *more_notes),
        rows={name: summarise(result, members, thresholds) for name, result in results.items()},
        published=published_metrics(dataset.name, shots),
    )
    _print(report, console)
    if out and state.is_main_process:
        report.write_json(out / "evaluation.json")
        report.write_csv(out / "evaluation.csv")
        for name, result in results.items():
            result.save(out / f"{name.replace(', ', '_').replace(' ', '_')}.npz")
        console.print(f"numbers and distances: {out}", soft_wrap=True)
    return 0


class Task(NamedTuple):
    """What methods are measured on."""

    dataset: Dataset
    episodes: Sequence[Episode]
    coverage: str  # how much of the data set
    notes: tuple[str, ...]


def read_task(
    data: Path,
    images: Path | None,
    split: str | None,
    shots: int,
    episodes: int,
    categories: tuple[str, ...],
    skip_missing: bool,
    edge_base: EdgeBase,
) -> Task:
    """The protocol's pairs of the objects that are meant."""
    from edgecape.data.dataset import coverage as part_of
    from edgecape.data.dataset import usable
    from edgecape.data.objects import read_coco
    from edgecape.errors import DataError
    from edgecape.evaluation.episodes import pairs, protocol_episodes, restrict

    annotations, root = _find(data, images, split)
    dataset = read_coco(annotations, root, edge_base)
    allowed = usable(dataset, categories, skip_missing)
    if not skip_missing:
        _check_images(dataset, allowed)
    official, notes = protocol_episodes(dataset, shots, episodes)
    chosen = restrict(official, allowed)  # some of the official pairs, never others
    part = f"{len(pairs(chosen))} of {len(pairs(official))} pairs ({episodes} episodes per category)"
    coverage = f"{part}, {part_of(dataset, allowed)} of {dataset.name}"
    if not chosen:
        raise DataError(f"nothing can be evaluated: {coverage}")
    return Task(dataset, chosen, coverage, (*dataset.notes, *notes))


def _find(data: Path, images: Path | None, split: str | None) -> tuple[Path, Path]:
    """The one annotation file that is meant, and its image folder."""
    from edgecape.errors import DataError
    from edgecape.io.paths import find_annotations

    files, root = find_annotations(data, images)
    stems = {file.name.removesuffix(".gz").removesuffix(".json"): file for file in files}
    matching = [stem for stem in stems if split is None or stem == split or stem.endswith(f"_{split}")]
    if len(matching) != 1:
        found = "none fits" if not matching else f"{len(matching)} fit"
        raise DataError(f"{data} has the files {', '.join(stems)}; {found}, say which one with --split")
    return stems[matching[0]], root


def _check_images(dataset: Dataset, allowed: frozenset[int]) -> None:
    from edgecape.errors import DataError

    paths = sorted({dataset.instances[index].image for index in allowed})
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(paths)} images of {dataset.name} are missing, for example {missing[0]}; "
            "--skip-missing evaluates on those that are there"
        )


def _groups(dataset: Dataset, chosen: tuple[str, ...], train: Path | None) -> dict[str, list[int]]:
    from edgecape.data.objects import read_coco
    from edgecape.evaluation import groups

    found = groups.everything(dataset)
    if chosen:
        found |= groups.chosen_supercategories(dataset, chosen)
    if train:
        found |= groups.known_and_new(dataset, read_coco(train, train.parent))
    by_super = groups.each_supercategory(dataset)
    if len(by_super) > 1:
        found |= by_super
    return found | groups.each_category(dataset)


def _methods(
    model: str, layers: tuple[int, ...], with_baselines: bool, cache: Path | None
) -> tuple[dict[FeatureStore, dict[str, Localiser]], list[str]]:
    """What to run on which features, and notes."""
    from edgecape.data.features import FeatureStore
    from edgecape.errors import SettingsError
    from edgecape.evaluation.evaluate import processes
    from edgecape.evaluation.methods import Runner, baselines, refined, variants, whitened_matching
    from edgecape.model.settings import BackboneSettings
    from edgecape.weights.backbones import load_backbone

    if not layers:
        raise SettingsError("matching needs at least one layer of the backbone; --layers -1 is the last")
    if model == "none":
        if not with_baselines:
            raise SettingsError("there is nothing to measure: neither a model nor baselines")
        backbone, fingerprint = load_backbone(BackboneSettings(layers=layers))
        return {FeatureStore(backbone.to(processes().device), fingerprint, cache): baselines(backbone)}, []

    from edgecape.predictor import EdgeCape

    loaded = EdgeCape.from_pretrained(None if model == "default" else model, device=processes().device)
    own = FeatureStore.of(loaded, cache)
    if not with_baselines:
        return {own: {"model": refined(Runner(loaded.network))}}, []
    untouched = own if loaded.network.adapter is None else own.adapted(None)  # what nobody trained
    backbone, notes = _with_layers(loaded, layers)
    other = FeatureStore(backbone, loaded.backbone_fingerprint, cache)
    methods = {untouched if backbone is loaded.backbone else other: baselines(backbone)}
    if loaded.network.settings.direct_match:
        methods.setdefault(untouched, {})["whitened matching"] = whitened_matching(loaded.network)
    methods.setdefault(own, {}).update(variants(loaded.network))
    return methods, notes


def _with_layers(model: EdgeCape, layers: tuple[int, ...]) -> tuple[Backbone, list[str]]:
    """The model's backbone with other output layers; the one it has if that is all there is of it."""
    from dataclasses import replace

    from edgecape.errors import WeightsError
    from edgecape.evaluation.methods import layer_channels
    from edgecape.weights.backbones import load_backbone

    try:
        other, fingerprint = load_backbone(replace(model.backbone.settings, layers=layers, trainable=False, adapted=0))
        if fingerprint != model.backbone_fingerprint:
            raise WeightsError("it has weights of its own")
    except WeightsError as error:
        return model.backbone, [
            f"matching with the layers that the model uses; its backbone has no others here: {error}"
        ]
    if layer_channels(other) == layer_channels(model.backbone):
        return model.backbone, []
    return other.to(model.device), []


def measure(task: Task, methods: Mapping[FeatureStore, Mapping[str, Localiser]], console: Console) -> dict[str, Result]:
    """The results of methods on features, with a progress bar."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from edgecape.evaluation.evaluate import evaluate as run

    columns = (TextColumn("pairs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    results: dict[str, Result] = {}
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(methods) * sum(len(episode.queries) for episode in task.episodes))
        for store, localisers in methods.items():
            results |= run(task.dataset, task.episodes, localisers, store, lambda done: progress.advance(bar, done))
    return results


def _print(report: Report, console: Console) -> None:
    from rich.table import Table

    from edgecape.evaluation.groups import CATEGORY
    from edgecape.evaluation.published import NOTE

    console.print(f"{report.dataset}, {report.shots}-shot", style="bold")
    metrics = [name for name in next(iter(report.rows.values()))[0].mean if name != "EPE"]
    for rows in zip(*report.rows.values(), strict=True):  # of one group, by every method
        group, number = rows[0].group, rows[0].categories
        if group.startswith(CATEGORY):
            continue  # in the files only
        kinds = "category" if number == 1 else "categories"
        title = f"{group}: {number} {kinds}, {rows[0].pairs} pairs"
        table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))  # fits 80 columns
        table.add_column("", no_wrap=True, min_width=25)
        for metric in metrics:
            table.add_column(metric.replace("PCK@0.", "PCK @."), justify="right", no_wrap=metric == "mPCK@5")
        for method, row in zip(report.rows, rows, strict=True):
            table.add_row(method, *(_number(row, metric) for metric in metrics))
        if group == "all":
            for method, values in report.published.items():
                shown = (f"{100 * values[metric]:.1f}" if metric in values else "" for metric in metrics)
                table.add_row(f"{method} (published)", *shown, style="dim")
        console.print(table)
    notes = [
        "PCK, mPCK and AUC in per cent, half of the 95 % interval behind mPCK@5 (for other photos of these categories)"
    ]
    if report.published:
        notes.append(NOTE)
    for note in (*notes, *report.notes):
        console.print(f"  {note}", style="yellow" if note.startswith("warning") else "", markup=False, soft_wrap=True)
    console.print(f"these numbers stand on {report.coverage}", markup=False, soft_wrap=True)


def _number(row: Row, metric: str) -> str:
    if metric == "NME":
        return f"{row.mean[metric]:.3f}"
    text = f"{100 * row.mean[metric]:.1f}"
    if metric == "mPCK@5":
        text += f" [dim]±{50 * (row.high[metric] - row.low[metric]):.1f}[/dim]"
    return text


def main(arguments: list[str]) -> int:
    return tyro.cli(evaluate, prog="edgecape evaluate", args=arguments)
