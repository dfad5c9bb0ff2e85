"""DeepLabCut tables: labels (CollectedData_*.csv, .h5) and predictions (.csv, .h5).

Units: pixels. Above the columns stand the scorer, in multi-animal projects the individual, the body part and the
coordinate (x, y and, in predictions, likelihood). Rows are photos: one column with the path, or three with its parts
(labeled-data, video, photo), as of version 2.3. Visibility: a keypoint without numbers has no place; no more is told.
A table has no boxes, no sizes and no skeleton: edges are taken from the project's config.yaml, by name.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgecape.errors import DataError, require
from edgecape.formats import deeplabcut_h5, hdf5, shared
from edgecape.formats.labels import LabelledImage, LabelledObject, LabelSet
from edgecape.io.files import atomic_write, read_yaml
from edgecape.types import PIXEL_DIGITS, SCORE_DIGITS

LEVELS = ("scorer", "individuals", "bodyparts", "coords")


@dataclass(frozen=True, eq=False)
class Table:
    files: list[str]
    columns: list[tuple[str, str, str]]  # individual ("" in single-animal tables), body part, coordinate
    values: NDArray[np.float64]  # (files, columns), nan where empty


def write(path: str | os.PathLike[str], label_sets: Sequence[LabelSet], scorer: str = "edgecape") -> None:
    """A CSV, one row per photo; with individuals if a photo has several objects, with likelihood if there are scores.

    Empty cells are written as NaN: pandas would take a first row of empty ones for the name of the index.
    """
    labels = shared.only(label_sets, "DeepLabCut")
    count = max((len(image.objects) for image in labels.images), default=0)
    scored = any(thing.scores is not None for image in labels.images for thing in image.objects)
    coords = ("x", "y", "likelihood") if scored else ("x", "y")
    columns = [
        (scorer, f"individual{number}", shared.cell(name), coord)
        for number in range(1, max(count, 1) + 1)
        for name in labels.names
        for coord in coords
    ]
    with atomic_write(path, newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        for level, title in enumerate(LEVELS):
            if title != "individuals" or count > 1:
                table.writerow([title, *(column[level] for column in columns)])
        for image in labels.images:
            cells = [cell for thing in image.objects for cell in _cells(thing, scored)]
            table.writerow([shared.cell(image.file), *cells, *["NaN"] * (len(columns) - len(cells))])


def _cells(thing: LabelledObject, scored: bool) -> list[str]:
    cells = []
    for index, (x, y) in enumerate(thing.keypoints):
        visible = thing.visible[index]
        cells += [f"{x:.{PIXEL_DIGITS}f}", f"{y:.{PIXEL_DIGITS}f}"] if visible else ["NaN", "NaN"]
        if scored:
            cells.append(f"{thing.scores[index]:.{SCORE_DIGITS}f}" if visible and thing.scores is not None else "NaN")
    return cells


def read(path: str | os.PathLike[str]) -> list[LabelSet]:
    """A label set for each set of body parts: one for the animals, and one for unique body parts if there are such."""
    path = Path(path)
    table = _from_h5(path) if path.suffix.lower() in (".h5", ".hdf5") else _from_csv(path)
    folder = path.resolve().parent
    project = folder.parent.parent if folder.parent.name == "labeled-data" else None
    root = project if project and any(file.startswith("labeled-data/") for file in table.files) else path.parent
    edges = _config_edges(project / "config.yaml") if project else []
    parts_of: dict[str, list[str]] = {}  # body parts of each individual, in order
    for individual, part, coord in table.columns:
        if coord == "x":
            parts_of.setdefault(individual, []).append(part)
    if not parts_of:
        raise DataError(f"{path} has no column of x coordinates")
    groups: dict[tuple[str, ...], list[str]] = {}
    for individual, parts in parts_of.items():
        groups.setdefault(tuple(parts), []).append(individual)
    padded = np.pad(table.values, ((0, 0), (0, 1)), constant_values=np.nan)  # a last column of nothing
    label_sets: list[LabelSet] = []
    for names, individuals in groups.items():
        with shared.reading(path):
            places = [_places(table, individual, names) for individual in individuals]
            found = ([_object(row[place]) for place in places] for row in padded)
            images = [
                LabelledImage(file, None, None, tuple(thing for thing in things if thing.visible.any()))
                for file, things in zip(table.files, found, strict=True)
            ]
            skeleton = [(names.index(a), names.index(b)) for a, b in edges if a in names and b in names and a != b]
            category = "animal" if not label_sets else individuals[0]
            label_sets.append(LabelSet(names, skeleton, category, images, root))
    return label_sets


def _places(table: Table, individual: str, names: Sequence[str]) -> NDArray[np.int64]:
    """(K, 3) columns of x, y, likelihood; -1, the column of nothing, for a likelihood that is not there."""
    column = {key: index for index, key in enumerate(table.columns)}
    if len(column) < len(table.columns):
        raise ValueError("two columns have the same heading")
    return np.array(
        [
            [column[individual, n, "x"], column[individual, n, "y"], column.get((individual, n, "likelihood"), -1)]
            for n in names
        ]
    )


def _object(values: NDArray[np.float64]) -> LabelledObject:
    visible = np.isfinite(values[:, :2]).all(axis=1)
    scores = values[:, 2]
    return LabelledObject(values[:, :2], visible, scores=scores if np.isfinite(scores[visible]).all() else None)


def _from_csv(path: Path) -> Table:
    with shared.opened_csv(path) as file:
        rows = list(csv.reader(file, strict=True))
    titles = [row[0] if row else "" for row in rows[:4]]
    depth = 4 if titles[1:2] == ["individuals"] else 3
    if titles[:depth] != [title for title in LEVELS if depth == 4 or title != "individuals"]:
        raise DataError(
            f"{path} begins with {titles}; a DeepLabCut table begins with scorer, (individuals,) bodyparts, coords"
        )
    width = len(rows[0])
    for line, row in enumerate(rows, start=1):
        if len(row) != width:
            raise DataError(f"{path}, line {line} has {len(row)} cells, but the first line {width}")
    coords = rows[depth - 1]
    start = next((index for index in range(1, width) if coords[index]), width)  # after the columns of the path
    individuals = rows[1] if depth == 4 else [""] * width
    parts = map(shared.uncell, rows[depth - 2][start:])
    columns = list(zip(individuals[start:], parts, coords[start:], strict=True))
    values = np.full((len(rows) - depth, len(columns)), np.nan)
    for index, row in enumerate(rows[depth:]):
        with shared.reading(f"{path}, line {index + depth + 1}"):
            values[index] = [float(cell or "nan") for cell in row[start:]]
    files = [shared.plain_path(shared.uncell("/".join(row[:start]))) for row in rows[depth:]]
    return Table(files, columns, values)


def _from_h5(path: Path) -> Table:
    require("formats", f"reading {path}, unlike the .csv beside it,", "h5py")
    content = hdf5.read_apart(deeplabcut_h5.table, path, "a DeepLabCut table")
    columns = [(individual, part, coord) for individual, part, coord in content["columns"]]
    files = [shared.plain_path(file) for file in content["files"]]
    return Table(files, columns, deeplabcut_h5.unpack(content["values"]).reshape(len(files), len(columns)))


def _config_edges(config: Path) -> list[tuple[str, str]]:
    """Edges of a project by name; the reader passes over names it does not know, leftovers of DeepLabCut's template."""
    if not config.is_file():
        return []
    content = read_yaml(config)
    with shared.reading(f"skeleton in {config}"):
        edges = (content or {}).get("skeleton") or []
        return [(shared.text(a, numbers=True), shared.text(b, numbers=True)) for a, b in edges]
