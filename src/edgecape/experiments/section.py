"""What an experiment leaves: tables whose numbers carry their intervals, figures, and what was done, as one value that
is saved, printed and put into the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from edgecape.errors import DataError

FOLDER = "sections"  # of a run, where they are kept


@dataclass(frozen=True)
class Value:
    """A number with its 95 % interval and, where models were trained several times, its deviation over seeds."""

    mean: float
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    difference: bool = False
    digits: int = 1

    @property
    def is_clear(self) -> bool:
        """A difference whose interval leaves out 0."""
        return self.difference and self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    @property
    def number(self) -> str:
        return self._written(self.mean)

    @property
    def interval(self) -> str:
        if self.low is None or self.high is None:
            return ""
        return f"{self._written(self.low)} … {self._written(self.high)}"

    @property
    def deviation(self) -> str:
        return "" if self.spread is None else f"± {self.spread:.{self.digits}f}"

    def __str__(self) -> str:
        interval = f"({self.interval})" if self.interval else ""
        return " ".join(part for part in (self.number, self.deviation, interval) if part)

    def _written(self, number: float) -> str:
        if math.isnan(number):
            return "–"
        rounded = round(number, self.digits) + 0.0  # never −0
        return f"{rounded:{'+' if self.difference and rounded else ''}.{self.digits}f}".replace("-", "−")


Cell = Value | str


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]  # the first is that of the rows' names
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def column(self, name: str) -> dict[str, Cell]:
        """By the names of the rows."""
        index = self.columns.index(name)
        return {str(row[0]): row[index] for row in self.rows}


@dataclass(frozen=True)
class Figure:
    """svg: a drawing, or picture: a JPEG in base64. data: the numbers that are drawn."""

    title: str
    caption: str
    svg: str = ""
    picture: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    claim: str  # what the paper found
    done: Mapping[str, str]  # data, budget, regime, seeds, command, …
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    findings: tuple[str, ...] = ()  # what came out, in words that follow from the numbers
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(content: Any) -> Section:
        try:
            tables = tuple(
                Table(
                    table["title"],
                    tuple(table["columns"]),
                    tuple(tuple(Value(**cell) if isinstance(cell, dict) else cell for cell in row) for row in rows),
                    table["note"],
                )
                for table in content["tables"]
                for rows in [table["rows"]]
            )
            figures = tuple(Figure(**figure) for figure in content["figures"])
            texts = {name: tuple(content[name]) for name in ("findings", "notes")}
            return Section(**content | texts | {"tables": tables, "figures": figures})
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"this is no saved section of a report: {error}; remove it to have it made anew") from error
