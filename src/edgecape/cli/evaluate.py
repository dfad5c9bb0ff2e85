"""edgecape evaluate: a model beside its baselines, with the protocol of the published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from tyro.conf import Positional, UseAppendAction, arg

from edgecape.cli.printing import FOR_PEOPLE, Output, group_table, half_interval, measure, print_average, print_notes
from edgecape.evaluation.averages import average
from edgecape.evaluation.benchmark import Benchmark, BenchmarkOptions, choose_methods, each_split, of_split
from edgecape.evaluation.groups import CATEGORY, breakdown
from edgecape.evaluation.published import NOTE, published_metrics
from edgecape.evaluation.results import Report, Result, Row, save_results, summarise
from edgecape.io.files import write_json


def evaluate(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    options: Annotated[BenchmarkOptions, arg(name="")],
    groups: UseAppendAction[tuple[str, ...]] = (),
    train_annotations: Path | None = None,
    thresholds: tuple[float, ...] = (0.05, 0.1, 0.2),
    baselines: bool = True,
    layers: tuple[int, ...] = (-2, -1),
    method: str | None = None,
    propagate: int = 0,
    cache: Path | None = None,
    out: Path | None = None,
    output: Output = FOR_PEOPLE,
) -> int:
    """Measure a model and its baselines on the same pairs, with the evaluation protocol of MP-100.

    Example: edgecape evaluate default mydata --split test --shots 5 --out results

    Example: edgecape evaluate "runs/split{split}/bias" mp100 --split "split*_test" --out results

    On several splits it also prints their mean. In the paths of models and training files, {split} is the number of the
    split: published methods are trained anew for each.

    Runs on several processes or GPUs with: accelerate launch -m edgecape.cli.main evaluate …

    Args:
        model: Model folder, hub id or official checkpoint; "default", or "none" for the baselines alone.
        groups: Report a group of super-categories apart from the rest, as NAME=SUPERCATEGORY,SUPERCATEGORY or just
            SUPERCATEGORY; repeat it for more.
        train_annotations: File the model was trained on: reports categories whose keypoints it has met in training
            apart from the others.
        thresholds: Of PCK.
        baselines: Also measure copying the support and training-free matching, and the model with less of the graph.
        layers: Of the backbone, for the matching.
        method: Measure the model as this method of the family, such as graphcape: told as much of the graph as it is.
        propagate: Also measure the model with so many poses of other queries of an episode, those that it is surest
            of, as further supports; published methods see one query at a time.
        cache: Folder for cached features.
        out: Folder for evaluation.json, evaluation.csv and the distances of every method (.npz); of several splits, a
            folder each, and mean.json.
    """
    from edgecape.evaluation.evaluate import processes

    leader = processes().is_main_process
    console = output.console(leader)
    parts = each_split(options)
    reports = []
    for part in parts:
        benchmark = Benchmark.read(part)
        name = benchmark.dataset.name
        train = None if train_annotations is None else Path(of_split(str(train_annotations), name))
        members = breakdown(benchmark.dataset, groups, train)
        methods, more_notes = choose_methods(of_split(model, name), layers, baselines, cache, method, propagate)
        results = measure(benchmark, methods, console)
        report = Report(
            dataset=name,
            shots=options.shots,
            coverage=benchmark.coverage,
            notes=(*benchmark.notes, *more_notes),
            rows={name: summarise(result, members, thresholds) for name, result in results.items()},
            published=published_metrics(name, options.shots),
        )
        reports.append(report)
        _print(report, console)
        if out and leader:
            _write(report, results, out if len(parts) == 1 else out / name)
    if out:
        console.print(f"numbers and distances: {out}", soft_wrap=True)
    if len(reports) == 1:
        output.print_results(reports[0].to_dict(), leader)
        return 0
    found = average(reports)
    print_average(found, console)
    output.print_results(found.to_dict(), leader)
    if out and leader:
        write_json(out / "mean.json", found.to_dict(), indent=1)
    return 0


def _write(report: Report, results: Mapping[str, Result], folder: Path) -> None:
    report.write_json(folder / "evaluation.json")
    report.write_csv(folder / "evaluation.csv")
    save_results(results, folder)


def _print(report: Report, console: Console) -> None:
    console.print(f"{report.dataset}, {report.shots}-shot", style="bold")
    metrics = [name for name in next(iter(report.rows.values()))[0].mean if name != "EPE"]
    for rows in zip(*report.rows.values(), strict=True):  # of one group, by every method
        if rows[0].group.startswith(CATEGORY):
            continue  # in the files only
        table = group_table(rows[0], width=25)
        for metric in metrics:
            table.add_column(metric.replace("PCK@0.", "PCK @."), justify="right", no_wrap=metric == "mPCK@5")
        for method, row in zip(report.rows, rows, strict=True):
            table.add_row(method, *(_number(row, metric) for metric in metrics))
        if rows[0].group == "all":
            for method, values in report.published.items():
                shown = (f"{100 * values[metric]:.1f}" if metric in values else "" for metric in metrics)
                table.add_row(f"{method} (published)", *shown, style="dim")
        console.print(table)
    notes = [
        "PCK, mPCK and AUC in per cent, half of the 95 % interval behind mPCK@5 (for other photos of these categories)"
    ]
    if report.published:
        notes.append(NOTE)
    print_notes((*notes, *report.notes), console, report.coverage)


def _number(row: Row, metric: str) -> str:
    if metric == "mPCK@5":
        return half_interval(row, metric)
    return f"{row.mean[metric]:.3f}" if metric == "NME" else f"{100 * row.mean[metric]:.1f}"


def main(arguments: list[str]) -> int:
    return tyro.cli(evaluate, prog="edgecape evaluate", args=arguments)
