"""The numbers of an evaluation in one place, as JSON and CSV."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edgecape.evaluation.results import Row
from edgecape.io.files import atomic_write, write_json


@dataclass(frozen=True)
class Report:
    dataset: str
    shots: int
    stands_on: str  # how much of the data set
    notes: tuple[str, ...]
    rows: Mapping[str, list[Row]]  # method → a row per group
    published: Mapping[str, Mapping[str, float]]  # method → metrics

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

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
