"""What several commands print, and whether they do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from tyro.conf import FlagCreatePairsOff, arg

if TYPE_CHECKING:
    from rich.table import Table

    from edgecape.evaluation.averages import Average
    from edgecape.evaluation.benchmark import Benchmark, Methods
    from edgecape.evaluation.results import Result, Row


class Terminal(Console):
    """A console that leaves a broken pipe to the command line, which ends all commands alike."""

    def on_broken_pipe(self) -> None:
        raise


@dataclass(frozen=True)
class OutputOptions:
    """What a command that has results prints."""

    quiet: Annotated[bool, FlagCreatePairsOff] = False
    """Print nothing but errors."""
    json: Annotated[bool, FlagCreatePairsOff] = False
    """Print the results as JSON and nothing else."""

    def console(self, leader: bool = True) -> Console:
        """For people; leader: of several processes only one prints."""
        return Terminal(quiet=self.quiet or self.json or not leader)

    def print_results(self, content: Any, leader: bool = True) -> None:
        """For programs, if they are asked for."""
        if self.json and leader:
            print(json.dumps(content, allow_nan=False, indent=1))


Output = Annotated[OutputOptions, arg(name="")]
FOR_PEOPLE = OutputOptions()


def measure(benchmark: Benchmark, methods: Methods, console: Console) -> dict[str, Result]:
    """The results of methods, with a progress bar."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("pairs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(methods) * benchmark.pairs)
        return benchmark.measure(methods, lambda done: progress.advance(bar, done))


def print_notes(notes: Iterable[str], console: Console, coverage: str | None = None) -> None:
    for note in notes:
        console.print(f"  {note}", style="yellow" if note.startswith("warning") else "", markup=False, soft_wrap=True)
    if coverage:
        console.print(f"these numbers stand on {coverage}", markup=False, soft_wrap=True)


def narrow_table(title: str | None = None) -> Table:
    """One that fits 80 columns."""
    from rich.table import Table

    return Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))


def group_table(row: Row, width: int) -> Table:
    """With the group's name and size as its title, and a first column for names."""
    kinds = "category" if row.categories == 1 else "categories"
    table = narrow_table(f"{row.group}: {row.categories} {kinds}, {row.pairs} pairs")
    table.add_column("", no_wrap=True, min_width=width)
    return table


def print_average(found: Average, console: Console) -> None:
    """A line per method: what it reaches on each split, and the mean, beside published ones."""
    from edgecape.evaluation.published import NOTE

    console.print(f"mean of {len(found.splits)} splits, {found.shots}-shot", style="bold")
    for metric in ("PCK@0.2", "mPCK@5"):
        if any(metric not in row.mean for row in found.mean.values()):
            continue  # other thresholds were asked for
        table = narrow_table(metric)
        table.add_column("", no_wrap=True, min_width=25)
        for split in found.splits:
            table.add_column(split.removeprefix("mp100_").removesuffix("_test"), justify="right")
        table.add_column("mean", justify="right", no_wrap=True)
        for method, row in found.mean.items():
            each = (f"{100 * one.mean[metric]:.1f}" for one in found.each[method])
            table.add_row(method, *each, half_interval(row, metric))
        blank = [""] * len(found.splits)
        for method, values in found.published.items():
            if metric in values:
                table.add_row(f"{method} (published)", *blank, f"{100 * values[metric]:.1f}", style="dim")
        console.print(table)
    notes = ["per cent; ± half of the 95 % interval, for other photos of these categories"]
    print_notes((*notes, *([NOTE] if found.published else []), *found.notes), console)


def half_interval(row: Row, metric: str) -> str:
    """A mean in per cent with half of its 95 % interval."""
    return f"{100 * row.mean[metric]:.1f} [dim]±{50 * (row.high[metric] - row.low[metric]):.1f}[/dim]"
