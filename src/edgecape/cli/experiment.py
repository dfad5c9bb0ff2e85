"""edgecape experiment NAME | all | report: the paper's tables and figures; compare | mean: of saved results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.markup import escape
from tyro.conf import Positional, arg

from edgecape.cli.printing import FOR_PEOPLE, Output, narrow_table, print_average
from edgecape.data.objects import read_coco
from edgecape.errors import DataError, SettingsError
from edgecape.evaluation.averages import average
from edgecape.evaluation.groups import CATEGORY, SUPERCATEGORY, each_category, each_supercategory, overview
from edgecape.evaluation.results import Report, Result, Row, difference, summarise
from edgecape.experiments.options import NAMES, Options, command
from edgecape.experiments.report import write_report
from edgecape.experiments.section import FOLDER, Cell, Section, Table, Value
from edgecape.io.files import read_json

if TYPE_CHECKING:
    from edgecape.experiments.experiment import Experiment
    from edgecape.experiments.lab import Lab

ABOUT = """The tables and figures of the paper, on whatever data there is.

Example: edgecape experiment all mydata --budget smoke --report report.html

Models are trained as an experiment needs them; what was trained or measured before is used again, so a command that was
stopped goes on where it was."""
METRICS = ("mPCK@5", "PCK@0.2")
MOST_COLUMNS = 5  # of a table that shows intervals on a terminal


def experiment(name: str) -> Callable[..., int]:
    """The command of one experiment."""

    def run(options: Annotated[Options, arg(name="")], output: Output = FOR_PEOPLE) -> int:
        return run_experiments([name], options, output)

    run.__doc__ = f"{NAMES[name].capitalize()}.\n\nExample: edgecape experiment {name} mydata --regime told"
    return run


def everything(options: Annotated[Options, arg(name="")], output: Output = FOR_PEOPLE) -> int:
    """All experiments of a regime, and one report of them.

    Example: edgecape experiment all mydata --regime told --report report.html
    """
    return run_experiments(list(NAMES), options, output)


def run_experiments(names: Sequence[str], options: Options, output: Output) -> int:
    """Everything is checked before anything is computed; the report is written anew after each."""
    from edgecape.experiments.catalogue import EXPERIMENTS
    from edgecape.experiments.experiment import section_of
    from edgecape.experiments.lab import Lab

    console = output.console()
    lab = Lab(options, lambda text: console.print(text, style="dim", markup=False, soft_wrap=True))
    chosen = [EXPERIMENTS[name] for name in names]
    able = [one for one in chosen if options.regime in one.regimes]
    if not able:
        regimes = " or ".join(chosen[0].regimes)
        raise SettingsError(f"experiment {names[0]} cannot be done in the regime '{options.regime}'; take {regimes}")
    check(able, lab)
    left_out = [one.name for one in chosen if one not in able]
    notes = [f"Not done in the regime {options.regime}: {', '.join(left_out)}."] if left_out else []
    path, sections = options.report or options.out / "report.html", list[Section]()
    for one in able:
        section = section_of(one, lab, command(one.name, options))
        sections.append(section)
        print_section(section, console)
        write_report(
            path,
            sections,
            f"Experiments on {', '.join(folder.name for folder in options.data)}, {options.split}",
            notes,
        )
    console.print(f"report: {path}", soft_wrap=True)
    output.print_results([section.to_dict() for section in sections])
    return 0


def check(experiments: Sequence[Experiment], lab: Lab) -> None:
    """What is wrong with data, models or settings is said before hours are spent."""
    for one in experiments:
        lab.check(one.arms(lab.options))
        one.check(lab)


def report(
    folders: Positional[Annotated[tuple[Path, ...], arg(metavar="RUNS")]],
    /,
    report: Path = Path("report.html"),
    title: str = "Experiments",
    output: Output = FOR_PEOPLE,
) -> int:
    """One report of all that several runs of experiments have left, such as those of several regimes.

    Example: edgecape experiment report runs/published runs/told --report report.html

    Args:
        folders: What --out was.
        report: HTML file to write.
        title: Of the report.
    """
    names = list(NAMES)
    files = [path for folder in folders for path in sorted((folder / FOLDER).glob("*.json"))]
    if not files:
        raise DataError(f"there is no section in {', '.join(map(str, folders))}; run experiments with that --out first")
    sections = sorted((Section.from_dict(read_json(path)) for path in files), key=lambda one: names.index(one.name))
    write_report(report, sections, title)
    output.console().print(f"report of {len(sections)} sections: {report}", soft_wrap=True)
    return 0


def print_section(section: Section, console: Console) -> None:
    console.print(f"\n{section.name}: {section.title}", style="bold", markup=False)
    console.print(f"  the paper: {section.claim}", style="dim", markup=False, soft_wrap=True)
    for table in section.tables:
        console.print(shown(table))
    for line in section.findings:
        console.print(f"  {line}", markup=False, soft_wrap=True)


def shown(table: Table) -> object:
    """Intervals only where there is room for them; the report has all."""
    out, narrow = narrow_table(table.title), len(table.columns) > MOST_COLUMNS
    for index, column in enumerate(table.columns):
        out.add_column(column, justify="right" if index else "left", min_width=None if index else 12)
    for row in table.rows:
        out.add_row(*(written(cell, narrow) for cell in row))
    return out


def written(cell: Cell, narrow: bool) -> str:
    if not isinstance(cell, Value):
        return escape(cell)
    text = cell.number if narrow else str(cell)
    return f"[bold]{text}[/bold]" if cell.is_clear else text


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
        first: A result saved by `edgecape evaluate --out`.
        second: The result to compare it with.
        annotations: File the results were measured on: also reports its super-categories.
        train_annotations: File the models were trained on: reports known and new definitions apart; needs
            --annotations.
    """
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


def _difference(row: Row, metric: str) -> str:
    mean, low, high = (100 * values[metric] for values in (row.mean, row.low, row.high))
    text = f"{mean:+.1f} ({low:+.1f} {high:+.1f})"
    return f"[bold]{text}[/bold]" if low > 0 or high < 0 else text


SUBCOMMANDS: dict[str, Callable[..., int]] = {
    **{name: experiment(name) for name in NAMES},
    "all": everything,
    "report": report,
    "compare": compare,
    "mean": mean,
}


def main(arguments: list[str]) -> int:
    return tyro.extras.subcommand_cli_from_dict(
        SUBCOMMANDS, prog="edgecape experiment", description=ABOUT, args=arguments
    )
