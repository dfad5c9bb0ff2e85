"""What an evaluation leaves: the distance of every keypoint of every pair, and the numbers computed from them."""

from __future__ import annotations

import csv
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgecape.errors import DataError
from edgecape.evaluation.metrics import THRESHOLDS, Floats, bootstrap_means, categories_drawn, pair_metrics
from edgecape.io.files import atomic_write, read_json, write_json

Groups = Mapping[str, Sequence[int]]  # name → indices of categories


@dataclass(frozen=True, eq=False)
class Result:
    """One method on P pairs."""

    dataset: str
    categories: tuple[str, ...]  # labels of the data set, no two alike
    category: NDArray[np.int64]  # (P,) index into categories
    pairs: NDArray[np.int64]  # (P, S + 1): support…, query
    distance: Floats  # (P, largest K), relative to the longer side of the query's box; nan where it does not count
    scale: Floats  # (P,) longer side of the query's box in pixels

    def per_pair(self, thresholds: Sequence[float] = THRESHOLDS) -> dict[str, Floats]:
        """Every metric of every pair, (P,) each."""
        return pair_metrics(self.distance, self.scale, thresholds)

    def metrics(self, thresholds: Sequence[float] = THRESHOLDS) -> dict[str, float]:
        """Means over all pairs."""
        return {name: float(values.mean()) for name, values in self.per_pair(thresholds).items()}

    def subset(self, chosen: NDArray[np.bool_]) -> Result:
        """Only these pairs (P,)."""
        parts = {name: getattr(self, name)[chosen] for name in ("category", "pairs", "distance", "scale")}
        return replace(self, **parts)

    def save(self, path: str | os.PathLike[str]) -> None:
        """As an .npz file."""
        with atomic_write(path, "wb") as file:
            np.savez_compressed(
                file,
                dataset=self.dataset,
                categories=np.array(self.categories, dtype=np.str_),
                category=self.category,
                pairs=self.pairs,
                distance=self.distance,
                scale=self.scale,
            )

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Result:
        try:
            with np.load(path, allow_pickle=False) as file:
                found = Result(
                    dataset=str(file["dataset"]),
                    categories=tuple(file["categories"].tolist()),
                    category=file["category"],
                    pairs=file["pairs"],
                    distance=file["distance"],
                    scale=file["scale"],
                )
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(f"{path} is not a saved evaluation result: {error}") from error
        if len(set(found.categories)) < len(found.categories):
            raise DataError(f"{path} has several categories of one name, as older versions saved them; evaluate again")
        return found


def save_results(results: Mapping[str, Result], folder: Path) -> None:
    """Each as a file named after its method."""
    for name, result in results.items():
        result.save(folder / f"{name.replace(', ', '_').replace(' %', '').replace(' ', '_')}.npz")


@dataclass(frozen=True)
class Row:
    """Means over the pairs of a group of categories, each with its 95 % interval."""

    group: str
    categories: int
    pairs: int
    mean: dict[str, float]
    low: dict[str, float]
    high: dict[str, float]


Seeds = Result | Sequence[Result]  # one, or of trainings that differ in their seed, which are averaged pair by pair


def summarise(
    result: Seeds,
    groups: Groups,
    thresholds: Sequence[float] = THRESHOLDS,
    resamples: int = 1000,
    over_categories: bool = False,
) -> list[Row]:
    """The metrics of each group that has pairs."""
    one, *_ = seeds = _each(result)
    return _rows(_per_pair(seeds, thresholds), one, groups, resamples, over_categories)


def difference(
    first: Seeds,
    second: Seeds,
    groups: Groups,
    thresholds: Sequence[float] = THRESHOLDS,
    resamples: int = 1000,
    over_categories: bool = False,
) -> list[Row]:
    """First minus second on the same pairs; where an interval leaves out 0, other photos would show it too; with
    over_categories, also other categories."""
    one, *_ = ours = _each(first)
    theirs = _each(second)
    mine, yours = _per_pair(ours, thresholds), _per_pair(theirs, thresholds)
    _check_pairs(one, theirs[0])
    return _rows({name: mine[name] - yours[name] for name in mine}, one, groups, resamples, over_categories)


def _each(result: Seeds) -> Sequence[Result]:
    return [result] if isinstance(result, Result) else result


def _per_pair(seeds: Sequence[Result], thresholds: Sequence[float]) -> dict[str, Floats]:
    for other in seeds[1:]:
        _check_pairs(seeds[0], other)
    tables = [one.per_pair(thresholds) for one in seeds]
    return {name: np.mean([table[name] for table in tables], axis=0) for name in tables[0]}


def _check_pairs(first: Result, second: Result) -> None:
    if not np.array_equal(first.pairs, second.pairs) or first.dataset != second.dataset:
        raise DataError(
            f"results on {first.dataset} and {second.dataset} cannot be compared: they are not on the same pairs"
        )


def _rows(
    metrics: dict[str, Floats], result: Result, groups: Groups, resamples: int, over_categories: bool
) -> list[Row]:
    values = np.stack(list(metrics.values()), axis=1)  # (P, M)
    _, support = np.unique(np.sort(result.pairs[:, :-1], axis=1), axis=0, return_inverse=True)
    samples = bootstrap_means(values, result.category, support.ravel(), result.pairs[:, -1], resamples)
    present, count = np.unique(result.category, return_counts=True)
    rows = []
    for group, members in groups.items():
        chosen = np.isin(present, list(members))
        if not chosen.any():
            continue
        means = values[np.isin(result.category, list(members))].mean(axis=0)
        weights = np.broadcast_to(count[chosen].astype(np.float64), (resamples, int(chosen.sum())))
        if over_categories:  # a category counts as often as it was drawn
            weights = weights * categories_drawn(resamples, int(chosen.sum()))
        # each category keeps its weight
        resampled = np.einsum("rcm,rc->rm", samples[:, chosen], weights) / weights.sum(axis=1, keepdims=True)
        low, high = np.nanquantile(resampled, (0.025, 0.975), axis=0)
        rows.append(
            Row(
                group,
                int(chosen.sum()),
                int(count[chosen].sum()),
                *(dict(zip(metrics, column.tolist(), strict=True)) for column in (means, low, high)),
            )
        )
    return rows


@dataclass(frozen=True)
class Report:
    """The numbers of an evaluation in one place, as JSON and CSV."""

    dataset: str
    shots: int
    coverage: str  # how much of the data set
    notes: tuple[str, ...]
    rows: Mapping[str, list[Row]]  # method → a row per group
    published: Mapping[str, Mapping[str, float]]  # method → metrics

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Report:
        """From an evaluation.json, or the folder it is in."""
        path = Path(path) / "evaluation.json" if Path(path).is_dir() else Path(path)
        content = read_json(path)
        try:
            rows = {method: [Row(**row) for row in rows] for method, rows in content["rows"].items()}
            numbers = [value for every in rows.values() for row in every for value in (row.mean, row.low, row.high)]
            if not rows or not all(type(x) is float for table in numbers for x in table.values()):
                raise ValueError("there are no numbers in it")
            return Report(**content | {"rows": rows, "notes": tuple(content["notes"])})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{path} is not a report of edgecape evaluate --out: {error}") from error

    def write_json(self, path: str | os.PathLike[str]) -> None:
        write_json(path, self.to_dict(), indent=1)

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """One line per method and group; each metric with the ends of its 95 % interval."""
        lines = [
            {"group": row.group, "method": method, "categories": row.categories, "pairs": row.pairs}
            | {
                f"{metric}{end}": values[metric]
                for metric in row.mean
                for end, values in (("", row.mean), (" low", row.low), (" high", row.high))
            }
            for method, rows in self.rows.items()
            for row in rows
        ]
        with atomic_write(path, newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(lines[0]))
            writer.writeheader()
            writer.writerows(lines)
