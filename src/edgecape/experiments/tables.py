"""From results to tables: means with intervals and deviation over seeds, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgecape.evaluation.results import Result, Row, difference, summarise
from edgecape.experiments.section import Cell, Table, Value

MAIN = "mPCK@5"
METRICS = ("PCK@0.05", "PCK@0.1", "PCK@0.2", "mPCK@4", "mPCK@5", "AUC", "NME")
NOTE = (
    "Per cent, NME as a share of the box; with each number its 95 % interval for other photos of these categories; ± "
    "is the standard deviation over seeds."
)
DIFFERENCES = (
    "Paired on the same pairs, mean of all seeds; 95 % intervals for other photos of these categories, and for other "
    "categories too (two-way bootstrap of supports and queries, then of categories); bold where it leaves out 0."
)
Seeds = Sequence[Result]


def everything(seeds: Seeds) -> dict[str, list[int]]:
    return {"all": list(range(len(seeds[0].categories)))}


def value(seeds: Seeds, metric: str = MAIN) -> Value:
    return values(seeds, (metric,))[metric]


def values(seeds: Seeds, metrics: Sequence[str] = METRICS) -> dict[str, Value]:
    """Of all pairs."""
    (row,) = summarise(seeds, everything(seeds))
    each = [one.metrics() for one in seeds]
    return {metric: _value(row, metric, [one[metric] for one in each]) for metric in metrics}


def gap(first: Seeds, second: Seeds, metric: str = MAIN, over_categories: bool = False) -> Value:
    """First minus second."""
    (row,) = difference(first, second, everything(first), over_categories=over_categories)
    return _value(row, metric, [], is_difference=True)


def _value(row: Row, metric: str, each: Sequence[float], is_difference: bool = False) -> Value:
    scale, digits = (1, 3) if metric == "NME" else (100, 1)
    spread = float(np.std(each, ddof=1)) * scale if len(each) > 1 else None
    mean, low, high = (scale * side[metric] for side in (row.mean, row.low, row.high))
    return Value(mean, low, high, spread=spread, difference=is_difference, digits=digits)


def value_table(title: str, results: Mapping[str, Seeds], metrics: Sequence[str] = METRICS, note: str = NOTE) -> Table:
    """A row per arm."""
    rows: list[tuple[Cell, ...]] = [(name, *values(seeds, metrics).values()) for name, seeds in results.items()]
    return Table(title, ("arm", *metrics), tuple(rows), note)


def beside(table: Table, column: str, shown: Mapping[str, str]) -> Table:
    """The table with one more column: what was published, by the names of its rows."""
    rows = tuple((*row, shown.get(str(row[0]), "")) for row in table.rows)
    return replace(table, columns=(*table.columns, column), rows=rows)


def difference_table(
    title: str,
    results: Mapping[str, Seeds],
    pairs: Sequence[tuple[str, str]],
    published: Mapping[tuple[str, str], str] | None = None,
    metric: str = MAIN,
) -> Table:
    """A row per pair of arms: first minus second."""
    rows: list[tuple[Cell, ...]] = []
    for first, second in pairs:
        ours, theirs = results[first], results[second]
        cells: list[Cell] = [gap(ours, theirs, metric), gap(ours, theirs, metric, over_categories=True)]
        cells.append(str(len(ours)))
        if published is not None:
            cells.append(published.get((first, second), ""))
        rows.append((f"{first} − {second}", *cells))
    columns = ("difference", f"{metric}, other photos", "other categories too", "seeds")
    return Table(title, (*columns, *(("published",) if published is not None else ())), tuple(rows), DIFFERENCES)


def finding(table: Table) -> list[str]:
    """What a table of differences says, in words."""
    said = []
    for name, photos, categories, *_ in table.rows:
        assert isinstance(photos, Value)
        assert isinstance(categories, Value)
        if not photos.is_clear:
            verdict = "not told apart"
        elif not categories.is_clear:
            verdict = "holds for other photos of these categories; other categories may differ"
        else:
            verdict = "holds for other photos and for other categories like these"
        said.append(f"{name}: {photos.number} ({photos.interval}): {verdict}.")
    return said
