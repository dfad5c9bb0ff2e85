"""Tidy CSV: one row per keypoint, for R, pandas and spreadsheets.

Units: pixels. Objects of a photo count from 0. Visibility: 0 no place (x and y empty), 1 marked but hidden, 2 seen. A
photo without objects has one row with its name and size. There is no skeleton. Of the columns, the reader needs only
image, keypoint, x and y; without `visible`, a keypoint is seen where it has a place.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from edgecape.errors import DataError
from edgecape.formats import shared
from edgecape.formats.labels import LabelledImage, LabelledObject, LabelSet
from edgecape.io.files import atomic_write
from edgecape.types import PIXEL_DIGITS, SCORE_DIGITS

COLUMNS = (
    *("image", "width", "height", "category", "object", "keypoint", "x", "y", "visible", "score"),
    *("box_x", "box_y", "box_w", "box_h", "object_score"),
)
NEEDED = ("image", "keypoint", "x", "y")
BOX = COLUMNS[10:14]
TEXTS = ("image", "category", "keypoint")

Row = dict[str, str]


def write(path: str | os.PathLike[str], label_sets: Sequence[LabelSet]) -> None:
    with atomic_write(path, newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        for labels in label_sets:
            for image in labels.images:
                texts = {"image": shared.cell(image.file), "category": shared.cell(labels.category)}
                photo = texts | {"width": image.width, "height": image.height}
                if not image.objects:
                    table.writerow(photo)
                for number, thing in enumerate(image.objects):
                    whole = photo | {"object": number, "object_score": _text(thing.score, SCORE_DIGITS)}
                    whole |= dict(zip(BOX, (_text(side) for side in thing.box or [None] * 4), strict=True))
                    table.writerows(
                        whole | {"keypoint": shared.cell(name)} | cells
                        for name, cells in zip(labels.names, _cells(thing), strict=True)
                    )


def _cells(thing: LabelledObject) -> Iterator[dict[str, object]]:
    """Of each keypoint."""
    scores = thing.scores.tolist() if thing.scores is not None else [None] * len(thing.keypoints)
    for (x, y), code, score in zip(thing.keypoints.tolist(), thing.codes.tolist(), scores, strict=True):
        seen = {"x": _text(x), "y": _text(y), "score": _text(score, SCORE_DIGITS)} if code else {}
        yield {"visible": code, **seen}


def _text(value: float | None, digits: int = PIXEL_DIGITS) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def read(path: str | os.PathLike[str]) -> list[LabelSet]:
    """A label set for each category; keypoints are in the order of their first row."""
    names: dict[str, dict[str, None]] = {}  # of each category
    photos: dict[tuple[str, str], Row] = {}  # the first row of each (category, image)
    things: dict[tuple[str, str], dict[str, dict[str, Row]]] = {}  # (category, image) → object → keypoint → row
    for line, row in _rows(path):
        place = (row.get("category") or "object", row["image"])
        photos.setdefault(place, row)
        keypoints = names.setdefault(place[0], {})
        name = row["keypoint"]
        if not name:
            continue
        keypoints[name] = None
        thing = things.setdefault(place, {}).setdefault(row.get("object") or "0", {})
        if name in thing:
            raise DataError(f"{path}, line {line}: {name!r} of {place[1]} is there twice; number objects in `object`")
        with shared.reading(f"{path}, line {line}"):
            _check(row)
        thing[name] = row
    images: dict[str, list[LabelledImage]] = {category: [] for category in names}
    for (category, image), row in photos.items():
        with shared.reading(f"{path}: {image}"):
            order = {name: index for index, name in enumerate(names[category])}
            objects = (_object(rows, order) for rows in things.get((category, image), {}).values())
            sides = [int(row[side]) for side in ("width", "height") if row.get(side)]
            width, height = sides if len(sides) == 2 else (None, None)
            images[category].append(LabelledImage(shared.plain_path(image), width, height, tuple(objects)))
    if not images:
        raise DataError(f"{path} has no rows")
    with shared.reading(path):
        return [
            LabelSet(tuple(names[category]), None, category, members, Path(path).parent)
            for category, members in images.items()
        ]


def _rows(path: str | os.PathLike[str]) -> Iterator[tuple[int, Row]]:
    with shared.opened_csv(path) as file:
        table = csv.DictReader(file, strict=True)
        missing = [name for name in NEEDED if name not in (table.fieldnames or ())]
        if missing:
            raise DataError(f"{path} has no column {missing[0]!r}; a tidy CSV has {', '.join(NEEDED)}")
        for row in table:
            if None in row or None in row.values():
                raise DataError(f"{path}, line {table.line_num}: the number of cells differs from the heading")
            yield table.line_num, row | {name: shared.uncell(row[name]) for name in TEXTS if name in row}


def _check(row: Row) -> None:
    """Numbers are numbers, so that an error can name the line."""
    for column in ("x", "y", "score", "object_score", *BOX):
        float(row.get(column) or 0)
    if (row.get("visible") or "2") not in ("0", "1", "2"):
        raise ValueError(f"visible is {row['visible']!r}; it can be 0, 1 or 2")


def _object(rows: dict[str, Row], order: dict[str, int]) -> LabelledObject:
    marks = (
        (name, (float(row["x"]), float(row["y"])), float(row.get("score") or "nan"), row.get("visible") == "1")
        for name, row in rows.items()
        if row["x"] and row["y"] and row.get("visible") != "0"
    )
    whole = next(iter(rows.values()))
    box = [float(whole[column]) for column in BOX if whole.get(column)]
    score = float(whole["object_score"]) if whole.get("object_score") else None
    return shared.from_marks(marks, order, "", box=box if len(box) == 4 else None, score=score)
