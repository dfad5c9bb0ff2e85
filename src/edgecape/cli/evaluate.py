"""edgecape evaluate: a model beside its baselines, with the protocol of the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from tyro.conf import Positional, UseAppendAction, arg

from edgecape.cli.printing import FOR_PEOPLE, Output, group_table, half_interval, measure, print_notes
from edgecape.evaluation.benchmark import Benchmark, BenchmarkOptions, choose_methods
from edgecape.evaluation.groups import CATEGORY, breakdown
from edgecape.evaluation.published import NOTE, published_metrics
from edgecape.evaluation.results import Report, Row, save_results, summarise


def evaluate(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    options: Annotated[BenchmarkOptions, arg(name="")],
    groups: UseAppendAction[tuple[str, ...]] = (),
    train_annotations: Path | None = None,
    thresholds: tuple[float, ...] = (0.05, 0.1, 0.2),
    baselines: bool = True,
    layers: tuple[int, ...] = (-2, -1),
    cache: Path | None = None,
    out: Path | None = None,
    output: Output = FOR_PEOPLE,
) -> int:
    """Measure a model and its baselines on the same pairs, with the evaluation protocol of MP-100.

    Example: edgecape evaluate default mydata --split test --shots 5 --out results

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
        cache: Folder for cached features.
        out: Folder for evaluation.json, evaluation.csv and the distances of every method (.npz).
    """
    from edgecape.evaluation.evaluate import processes

    state = processes()
    console = output.console(state.is_main_process)
    benchmark = Benchmark.read(options)
    members = breakdown(benchmark.dataset, groups, train_annotations)
    methods, more_notes = choose_methods(model, layers, baselines, cache)
    results = measure(benchmark, methods, console)
    report = Report(
        dataset=benchmark.dataset.name,
        shots=options.shots,
        coverage=benchmark.coverage,
        notes=(*benchmark.notes, *more_notes),
        rows={name: summarise(result, members, thresholds) for name, result in results.items()},
        published=published_metrics(benchmark.dataset.name, options.shots),
    )
    _print(report, console)
    output.print_results(report.to_dict(), state.is_main_process)
    if out and state.is_main_process:
        report.write_json(out / "evaluation.json")
        report.write_csv(out / "evaluation.csv")
        save_results(results, out)
        console.print(f"numbers and distances: {out}", soft_wrap=True)
    return 0


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
