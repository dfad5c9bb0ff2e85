"""What several commands print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from edgecape.evaluation.benchmark import Benchmark
from edgecape.evaluation.results import Result, Row

if TYPE_CHECKING:
    from edgecape.evaluation.benchmark import Methods


def measure(benchmark: Benchmark, methods: Methods, console: Console) -> dict[str, Result]:
    """The results of methods, with a progress bar."""
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
    return Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))


def group_table(row: Row, width: int) -> Table:
    """With the group's name and size as its title, and a first column for names."""
    kinds = "category" if row.categories == 1 else "categories"
    table = narrow_table(f"{row.group}: {row.categories} {kinds}, {row.pairs} pairs")
    table.add_column("", no_wrap=True, min_width=width)
    return table


def half_interval(row: Row, metric: str) -> str:
    """A mean in per cent with half of its 95 % interval."""
    return f"{100 * row.mean[metric]:.1f} [dim]±{50 * (row.high[metric] - row.low[metric]):.1f}[/dim]"
