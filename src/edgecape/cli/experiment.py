"""edgecape experiment robustness | compare | mean: what an evaluation alone does not tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from tyro.conf import Positional, arg

from edgecape.cli.printing import (
    FOR_PEOPLE,
    Output,
    group_table,
    half_interval,
    measure,
    narrow_table,
    print_average,
    print_notes,
)
from edgecape.data.objects import read_coco
from edgecape.errors import DataError, SettingsError
from edgecape.evaluation.averages import average
from edgecape.evaluation.benchmark import Benchmark, BenchmarkOptions, load
from edgecape.evaluation.groups import CATEGORY, SUPERCATEGORY, each_category, each_supercategory, overview
from edgecape.evaluation.results import Report, Result, Row, difference, save_results, summarise
from edgecape.io.files import write_json

if TYPE_CHECKING:
    from edgecape.experiments.robustness import Robustness

ABOUT = """Experiments on top of the evaluation protocol.

Example: edgecape experiment robustness default mydata --split test --out robustness"""

FEW = BenchmarkOptions(tyro.MISSING, episodes=20)  # each is run once per variant


def robustness(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    options: Annotated[BenchmarkOptions, arg(name="")] = FEW,
    train_annotations: Path | None = None,
    cache: Path | None = None,
    out: Path | None = None,
    output: Output = FOR_PEOPLE,
) -> int:
    """Change the skeleton of the supports and see what that costs: wrong edges, dropped edges, all, none.

    Example: edgecape experiment robustness default mydata --split test --out robustness

    All variants are run on the same pairs, and the same supports get the same wrong edges whatever the model. Each
    variant's difference to the skeleton as it is given is paired, so its interval is much narrower than that of the
    values.

    Args:
        model: Model folder, hub id or official checkpoint; or "default".
        train_annotations: File the model was trained on: reports categories whose keypoints it has met in training
            apart from the others.
        cache: Folder for cached features.
        out: Folder for robustness.json, robustness.csv, robustness.png and the distances of every variant (.npz).
    """
    from edgecape.data.features import FeatureStore
    from edgecape.evaluation.evaluate import processes
    from edgecape.experiments.robustness import AS_GIVEN, Recorder, draw_robustness, summary

    state = processes()
    console = output.console(state.is_main_process)
    benchmark = Benchmark.read(options)
    groups = overview(benchmark.dataset, train_annotations)
    loaded = load(model)
    recorder = Recorder(loaded.network)
    results = measure(benchmark, {FeatureStore.of(loaded, cache): recorder.methods()}, console)
    found = summary(results, recorder.all_shares(), groups)

    bare = [category.name for category in benchmark.dataset.categories if not category.edges]
    notes = (*benchmark.notes, *([f"without a skeleton of their own: {', '.join(bare)}"] if bare else []))
    _print_robustness(found, benchmark.title, console)
    print_notes(notes, console, benchmark.coverage)
    differences = {f"{name} − {AS_GIVEN}": rows for name, rows in found.differences.items()}
    rows = {**found.values, **differences}
    report = Report(benchmark.dataset.name, benchmark.shots, benchmark.coverage, notes, rows, {})
    content = report.to_dict() | {"given_share": found.given_share}
    output.print_results(content, state.is_main_process)
    if out and state.is_main_process:
        write_json(out / "robustness.json", content, indent=1)
        report.write_csv(out / "robustness.csv")
        draw_robustness(found, list(groups), benchmark.title, out / "robustness.png")
        save_results(results, out)
        console.print(f"numbers, figure and distances: {out}", soft_wrap=True)
    return 0


def compare(
    first: Positional[Annotated[Path, arg(metavar="FIRST.npz")]],
    second: Positional[Annotated[Path, arg(metavar="SECOND.npz")]],
    /,
    annotations: Path | None = None,
    train_annotations: Path | None = None,
    output: Output = FOR_PEOPLE,
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
    """
    from edgecape.experiments.robustness import METRICS

    if train_annotations and not annotations:
        raise SettingsError("--train-annotations tells known from new definitions only together with --annotations")
    ours, theirs = Result.load(first), Result.load(second)
    groups: dict[str, list[int]] = {"all": list(range(len(ours.categories)))}
    if annotations:
        dataset = read_coco(annotations, annotations.parent)
        if dataset.labels != ours.categories:
            raise DataError(f"{first} was not measured on {annotations}: they have different categories")
        groups |= overview(dataset, train_annotations) | each_supercategory(dataset)
    groups |= each_category(ours.categories)
    differences = difference(ours, theirs, groups, thresholds=(0.2,))
    sides = [summarise(one, groups, thresholds=(0.2,)) for one in (ours, theirs)]
    console = output.console()
    console.print(f"{first} minus {second} on {ours.dataset}", style="bold", markup=False, soft_wrap=True)
    score, other = METRICS
    table = narrow_table()
    table.add_column("", no_wrap=True)
    for heading in (score, "difference", f"difference of {other}"):
        table.add_column(heading, justify="right", min_width=len("-10.0 (-10.0 +10.0)") if "diff" in heading else None)
    for row, one, two in zip(differences, *sides, strict=True):
        name = row.group.removeprefix(CATEGORY).removeprefix(SUPERCATEGORY)
        values = f"{100 * one.mean[score]:.1f}, {100 * two.mean[score]:.1f}"
        table.add_row(name, values, _difference(row, score), _difference(row, other))
    console.print(table)
    console.print("  per cent, first and second, and their paired difference with its 95 % interval", markup=False)
    content = {"first": str(first), "second": str(second), "dataset": ours.dataset}
    output.print_results(content | {"differences": [asdict(row) for row in differences]})
    return 0


def mean(
    results: Positional[Annotated[tuple[Path, ...], arg(metavar="RESULTS")]],
    /,
    output: Output = FOR_PEOPLE,
) -> int:
    """The mean of results on several splits, as MP-100's are published, beside the published numbers.

    Example: edgecape experiment mean results/split1 results/split2 results/split3 results/split4 results/split5

    Published methods are trained anew for each split: a model that was trained on one split's categories has seen the
    test categories of the others.

    Args:
        results: Folders written by `edgecape evaluate --out`, or their evaluation.json, one per split.
    """
    found = average([Report.load(path) for path in results])
    print_average(found, output.console())
    output.print_results(found.to_dict())
    return 0


def _print_robustness(found: Robustness, title: str, console: Console) -> None:
    from edgecape.experiments.robustness import AS_GIVEN, METRICS

    console.print(title, style="bold")
    for place, first in enumerate(found.values[AS_GIVEN]):
        table = group_table(first, width=15)
        for column in ("mPCK@5", "difference", "PCK @.2", "difference", "given"):
            table.add_column(column, justify="right", no_wrap=" " not in column)
        for name, rows in found.values.items():
            row, cells = rows[place], list[str]()
            for metric in METRICS:
                cells.append(f"{100 * row.mean[metric]:.1f}" if cells else half_interval(row, metric))
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


SUBCOMMANDS: dict[str, Callable[..., int]] = {"robustness": robustness, "compare": compare, "mean": mean}


def main(arguments: list[str]) -> int:
    return tyro.extras.subcommand_cli_from_dict(
        SUBCOMMANDS, prog="edgecape experiment", description=ABOUT, args=arguments
    )
