"""From results to tables: means with intervals and deviation over seeds, and paired differences."""

from __future__ import annotations

import math
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
    "Paired on the same pairs and the same seeds, mean of all seeds; 95 % intervals for other photos of these "
    "categories, for other categories too (two-way bootstrap of supports and queries, then of categories), and for "
    "other trainings of both (Student's t over seeds, on these photos); bold where it leaves out 0."
)
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # 97.5 % quantiles at 1, 2, … degrees of freedom
Seeds = Sequence[Result]


def everything(seeds: Seeds) -> dict[str, list[int]]:
    return {"all": list(range(len(seeds[0].categories)))}


def value(seeds: Seeds, metric: str = MAIN) -> Value:
    return values(seeds, (metric,))[metric]


def values(seeds: Seeds, metrics: Sequence[str] = METRICS) -> dict[str, Value]:
    """Of all pairs."""
    (row,) = summarise(seeds, everything(seeds))
    each = [one.metrics() for one in seeds]
    return {metric: _value(metric, _ends(row, metric), [one[metric] for one in each]) for metric in metrics}


def gap(first: Seeds, second: Seeds, metric: str = MAIN, over_categories: bool = False) -> Value:
    """First minus second."""
    (row,) = difference(first, second, everything(first), over_categories=over_categories)
    return _value(metric, _ends(row, metric), _differences(first, second, metric), is_difference=True)


def over_trainings(first: Seeds, second: Seeds, metric: str = MAIN) -> Cell:
    """First minus second, with the interval for other trainings of both."""
    each = _differences(first, second, metric)
    if len(each) < 2:
        return "not known"
    quantile = STUDENT[min(len(each) - 1, len(STUDENT)) - 1]
    reach = quantile * float(np.std(each, ddof=1)) / math.sqrt(len(each))
    mean = float(np.mean(each))
    return _value(metric, (mean, mean - reach, mean + reach), is_difference=True)


def _differences(first: Seeds, second: Seeds, metric: str) -> list[float]:
    """Seed by seed; none where one side was trained more often."""
    if len(first) != len(second):
        return []
    return [one.metrics()[metric] - other.metrics()[metric] for one, other in zip(first, second, strict=True)]


def _ends(row: Row, metric: str) -> tuple[float, float, float]:
    return row.mean[metric], row.low[metric], row.high[metric]


def _value(
    metric: str, ends: tuple[float, float, float], each: Sequence[float] = (), is_difference: bool = False
) -> Value:
    """ends: mean, low and high. each: of the seeds."""
    scale, digits = (1, 3) if metric == "NME" else (100, 1)
    spread = float(np.std(each, ddof=1)) * scale if len(each) > 1 else None
    mean, low, high = (scale * end for end in ends)
    return Value(mean, low, high, spread, is_difference, digits)


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
        cells.append(over_trainings(ours, theirs, metric))
        if published is not None:
            cells.append(published.get((first, second), ""))
        rows.append((f"{first} − {second}", *cells))
    columns = ("difference", f"{metric}, other photos", "other categories too", "other trainings")
    return Table(title, (*columns, *(("published",) if published is not None else ())), tuple(rows), DIFFERENCES)


def finding(table: Table) -> list[str]:
    """What a table of differences says, in words."""
    said = []
    for name, photos, categories, trainings, *_ in table.rows:
        assert isinstance(photos, Value)
        assert isinstance(categories, Value)
        verdict = "not told apart"
        if photos.is_clear:
            both = {"other categories": categories, "other trainings": trainings}
            known = {other: cell for other, cell in both.items() if isinstance(cell, Value)}
            clear = [other for other, cell in known.items() if cell.is_clear]
            unclear = [other for other in known if other not in clear]
            verdict = f"holds for {' and '.join(['other photos', *clear])}"
            if unclear:
                verdict += f"; {' and '.join(unclear)} may differ"
        said.append(f"{name}: {photos.number} ({photos.interval}): {verdict}.")
    return said
