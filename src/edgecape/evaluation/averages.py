"""The mean over the splits of a benchmark, as MP-100's results are published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from edgecape.errors import DataError
from edgecape.evaluation.published import TEST_SPLITS, published_metrics
from edgecape.evaluation.results import Report, Row


@dataclass(frozen=True)
class Average:
    """What methods reach on each split, and the mean."""

    shots: int
    splits: tuple[str, ...]
    each: Mapping[str, list[Row]]  # method → a row per split
    mean: Mapping[str, Row]
    published: Mapping[str, Mapping[str, float]]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def average(reports: Sequence[Report]) -> Average:
    """Of the methods that were measured on every split; each split counts the same, whatever its size."""
    splits, shots = tuple(report.dataset for report in reports), {report.shots for report in reports}
    if len(reports) < 2 or len(set(splits)) < len(splits):
        raise DataError(f"a mean needs the results on two or more different splits, got {', '.join(splits) or 'none'}")
    if len(shots) > 1:
        raise DataError(f"results with {', '.join(map(str, sorted(shots)))} shots have no common mean")
    common = [method for method in reports[0].rows if all(method in report.rows for report in reports)]
    if not common:
        raise DataError("no method was measured on all of these splits; evaluate the same methods on each")
    each = {method: [_whole(report, method) for report in reports] for method in common}
    notes = [f"{report.dataset} stands on {report.coverage}" for report in reports]
    left_out = sorted({method for report in reports for method in report.rows} - set(common))
    if left_out:
        notes.append(f"not measured on every split: {', '.join(left_out)}")
    published = published_metrics(splits[0], reports[0].shots) if set(splits) <= set(TEST_SPLITS) else {}
    if published and len(splits) < len(TEST_SPLITS):
        notes.append(f"warning: published means are over {len(TEST_SPLITS)} splits, these over {len(splits)}")
    means = {method: _mean(rows) for method, rows in each.items()}
    return Average(reports[0].shots, splits, each, means, published, tuple(notes))


def _whole(report: Report, method: str) -> Row:
    """The row of all categories."""
    found = [row for row in report.rows[method] if row.group == "all"]
    if len(found) != 1:
        raise DataError(f"the results of {method} on {report.dataset} have no row of all categories")
    return found[0]


def _mean(rows: Sequence[Row]) -> Row:
    """Test splits share no category, so their errors are independent: squares of half-intervals add up."""
    metrics = [metric for metric in rows[0].mean if all(metric in row.mean for row in rows)]
    mean = {metric: float(np.mean([row.mean[metric] for row in rows])) for metric in metrics}
    half = {
        metric: float(np.linalg.norm([(row.high[metric] - row.low[metric]) / 2 for row in rows])) / len(rows)
        for metric in metrics
    }
    return Row(
        f"mean of {len(rows)} splits",
        sum(row.categories for row in rows),
        sum(row.pairs for row in rows),
        mean,
        {metric: mean[metric] - half[metric] for metric in metrics},
        {metric: mean[metric] + half[metric] for metric in metrics},
    )
