"""edgecape experiment robustness | compare: what an evaluation alone does not tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, UseAppendAction, arg

from edgecape.io.edge_base import EdgeBase

if TYPE_CHECKING:
    from rich.console import Console

    from edgecape.data.dataset import Dataset
    from edgecape.evaluation.results import Row
    from edgecape.experiments.robustness import Robustness

ABOUT = """Experiments on top of the evaluation protocol.

Example: edgecape experiment robustness default mydata --split test --out robustness"""


def robustness(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    data: Positional[Annotated[Path, arg(metavar="DATA")]],
    /,
    images: Path | None = None,
    split: str | None = None,
    shots: int = 1,
    episodes: int = 20,
    categories: UseAppendAction[tuple[str, ...]] = (),
    skip_missing: bool = False,
    edge_base: EdgeBase = "auto",
    train_annotations: Path | None = None,
    cache: Path | None = None,
    out: Path | None = None,
) -> int:
    """Change the skeleton of the supports and see what that costs: wrong edges, dropped edges, all, none.

    Example: edgecape experiment robustness default mydata --split test --out robustness

    All variants are run on the same pairs, and the same supports get the same wrong edges whatever the model. Each
    variant's difference to the skeleton as it is given is paired, so its interval is much narrower than that of the
    values.

    Args:
        model: Model folder, hub id or official checkpoint; or "default".
        data: COCO-keypoints file, or folder with annotations/ and images/.
        images: Folder that the file names are relative to; found by itself in such a folder.
        split: Which file of a folder: its name or the end of it, such as test or split1_test.
        shots: Supports per episode; 1 and 5 are usual.
        episodes: Per category; each is run once per variant.
        categories: Only this category, by name or id; repeat it for more.
        skip_missing: Leave out objects whose image is missing.
        edge_base: What edges are counted from; auto decides from the edges and says when it cannot.
        train_annotations: File the model was trained on: reports categories whose keypoints it has met in training
            apart from the others.
        cache: Folder for cached features.
        out: Folder for robustness.json, robustness.csv, robustness.png and the distances of every variant (.npz).
    """
    from rich.console import Console

    from edgecape.cli.evaluate import measure, read_task
    from edgecape.data.features import FeatureStore
    from edgecape.evaluation.evaluate import processes
    from edgecape.evaluation.results import Report
    from edgecape.experiments.robustness import AS_GIVEN, Recorder, draw_robustness, summary
    from edgecape.io.files import write_json
    from edgecape.predictor import EdgeCape

    state = processes()
    console = Console(quiet=not state.is_main_process)
    task = read_task(data, images, split, shots, episodes, categories, skip_missing, edge_base)
    groups = _groups(task.dataset, train_annotations)
    loaded = EdgeCape.from_pretrained(None if model == "default" else model, device=state.device)
    recorder = Recorder(loaded.network)
    store = FeatureStore.of(loaded, cache)
    results = measure(task, {store: recorder.methods()}, console)
    found = summary(results, recorder.all_shares(), groups)

    bare = [category.name for category in task.dataset.categories if not category.edges]
    notes = (*task.notes, f"without a skeleton of their own: {', '.join(bare)}") if bare else task.notes
    _print_robustness(found, f"{task.dataset.name}, {shots}-shot", console)
    for note in notes:
        console.print(f"  {note}", style="yellow" if note.startswith("warning") else "", markup=False, soft_wrap=True)
    console.print(f"these numbers stand on {task.coverage}", markup=False, soft_wrap=True)
    if out and state.is_main_process:
        differences = {f"{name} − {AS_GIVEN}": rows for name, rows in found.differences.items()}
        report = Report(task.dataset.name, shots, task.coverage, notes, {**found.values, **differences}, {})
        write_json(out / "robustness.json", report.to_dict() | {"given_share": found.given_share}, indent=1)
        report.write_csv(out / "robustness.csv")
        draw_robustness(found, list(groups), f"{task.dataset.name}, {shots}-shot", out / "robustness.png")
        for name, result in results.items():
            result.save(out / f"{name.replace(' %', '').replace(' ', '_')}.npz")
        console.print(f"numbers, figure and distances: {out}", soft_wrap=True)
    return 0


def compare(
    first: Positional[Annotated[Path, arg(metavar="FIRST.npz")]],
    second: Positional[Annotated[Path, arg(metavar="SECOND.npz")]],
    /,
    annotations: Path | None = None,
    train_annotations: Path | None = None,
    json: Path | None = None,
) -> int:
    """First minus second of two saved results on the same pairs, with the 95 % interval of the difference.

    Example: edgecape experiment compare a/model_graph_predicted.npz b/model_graph_fixed.npz

    Where the interval leaves out 0 (bold), other photos of these categories would show the difference too.

    Args:
        first: A result saved by `edgecape evaluate --out` or `edgecape experiment robustness --out`.
        second: The result to compare it with.
        annotations: File the results were measured on: also reports its super-categories.
        train_annotations: File the models were trained on: reports known and new definitions apart; needs
            --annotations.
        json: Also write everything to this file.
    """
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from edgecape.data.objects import read_coco
    from edgecape.errors import DataError, SettingsError
    from edgecape.evaluation import results
    from edgecape.evaluation.groups import CATEGORY, SUPERCATEGORY, each_supercategory
    from edgecape.experiments.robustness import METRICS
    from edgecape.io.files import write_json

    if train_annotations and not annotations:
        raise SettingsError("--train-annotations tells known from new definitions only together with --annotations")
    ours, theirs = results.Result.load(first), results.Result.load(second)
    groups: dict[str, list[int]] = {"all": list(range(len(ours.categories)))}
    if annotations:
        dataset = read_coco(annotations, annotations.parent)
        if tuple(category.name for category in dataset.categories) != ours.categories:
            raise DataError(f"{first} was not measured on {annotations}: they have different categories")
        groups |= _groups(dataset, train_annotations) | each_supercategory(dataset)
    for index, name in enumerate(ours.categories):
        groups.setdefault(CATEGORY + name, []).append(index)  # MP-100 has two called face

    differences = results.difference(ours, theirs, groups, thresholds=(0.2,))
    sides = [results.summarise(one, groups, thresholds=(0.2,)) for one in (ours, theirs)]
    console = Console()
    console.print(f"{first} minus {second} on {ours.dataset}", style="bold", markup=False, soft_wrap=True)
    score, other = METRICS
    table = Table(box=None, padding=(0, 1, 0, 0))  # fits 80 columns
    table.add_column("", no_wrap=True)
    for heading in (score, "difference", f"difference of {other}"):
        table.add_column(heading, justify="right", min_width=len("-10.0 (-10.0 +10.0)") if "diff" in heading else None)
    for row, one, two in zip(differences, *sides, strict=True):
        name = row.group.removeprefix(CATEGORY).removeprefix(SUPERCATEGORY)
        values = f"{100 * one.mean[score]:.1f}, {100 * two.mean[score]:.1f}"
        table.add_row(name, values, _difference(row, score), _difference(row, other))
    console.print(table)
    console.print("  per cent, first and second, and their paired difference with its 95 % interval", markup=False)
    if json:
        content = {"first": str(first), "second": str(second), "dataset": ours.dataset}
        write_json(json, content | {"differences": [asdict(row) for row in differences]}, indent=1)
    return 0


def _groups(dataset: Dataset, train: Path | None) -> dict[str, list[int]]:
    from edgecape.data.objects import read_coco
    from edgecape.evaluation.groups import everything, known_and_new

    return everything(dataset) | (known_and_new(dataset, read_coco(train, train.parent)) if train else {})


def _print_robustness(found: Robustness, title: str, console: Console) -> None:
    from rich.table import Table

    from edgecape.experiments.robustness import AS_GIVEN, METRICS

    console.print(title, style="bold")
    for place, first in enumerate(found.values[AS_GIVEN]):
        kinds = "category" if first.categories == 1 else "categories"
        heading = f"{first.group}: {first.categories} {kinds}, {first.pairs} pairs"
        table = Table(title=heading, title_justify="left", box=None, padding=(0, 1, 0, 0))  # fits 80 columns
        table.add_column("", no_wrap=True, min_width=15)
        for column in ("mPCK@5", "difference", "PCK @.2", "difference", "given"):
            table.add_column(column, justify="right", no_wrap=" " not in column)
        for name, rows in found.values.items():
            row, cells = rows[place], list[str]()
            for metric in METRICS:
                half = 50 * (row.high[metric] - row.low[metric])
                cells.append(f"{100 * row.mean[metric]:.1f}" + (f" [dim]±{half:.1f}[/dim]" if not cells else ""))
                cells.append(_difference(found.differences[name][place], metric) if name != AS_GIVEN else "")
            share = found.given_share[name][place] if name in found.given_share else None
            table.add_row(name, *cells, "" if share is None else f"{100 * share:.0f}")
        console.print(table)
    console.print(
        "  per cent; ± half of the 95 % interval for other photos of these categories; difference to the skeleton as "
        "given, paired, with its 95 % interval, bold where that leaves out 0; given: share of the weight of the "
        "network's graph that lies on edges of the given skeleton",
        markup=False,
        soft_wrap=True,
    )


def _difference(row: Row, metric: str) -> str:
    mean, low, high = (100 * values[metric] for values in (row.mean, row.low, row.high))
    text = f"{mean:+.1f} ({low:+.1f} {high:+.1f})"
    return f"[bold]{text}[/bold]" if low > 0 or high < 0 else text


def main(arguments: list[str]) -> int:
    import tyro

    commands: dict[str, Callable[..., int]] = {"robustness": robustness, "compare": compare}
    return tyro.extras.subcommand_cli_from_dict(commands, prog="edgecape experiment", description=ABOUT, args=arguments)
