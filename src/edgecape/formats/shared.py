"""What readers and writers of the formats share."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike

from edgecape.errors import AnnotationError, DataError, EdgeCapeError, brief
from edgecape.formats.labels import LabelledImage, LabelledObject, LabelSet
from edgecape.types import PIXEL_DIGITS, SCORE_DIGITS
from edgecape.values import Box, as_box

FORMULA = re.compile(r"'*[=+\-@\t\r]")  # and what would be read back as one


def only(label_sets: Sequence[LabelSet], format: str) -> LabelSet:
    """For formats that hold one keypoint definition."""
    if len(label_sets) != 1:
        raise AnnotationError(
            f"{format} files hold one kind of object, got {len(label_sets)}; write each kind to a place of its own"
        )
    return label_sets[0]


def text(value: Any, numbers: bool = False) -> str:
    """A name as files have it, also a number where they have names like 1 without quotes; nothing else is turned into
    a text, whatever that would take."""
    if not isinstance(value, (str, int) if numbers else str):
        raise TypeError(f"{brief(value)} is not a text")
    return str(value)


def box_or_none(values: Sequence[float]) -> Box | None:
    """A box as files have it; one with a side of 0 says nothing."""
    return None if 0 in values[2:4] else as_box(values)


def pixels(values: ArrayLike) -> list[float]:
    """Numbers as writers keep them; + 0.0 makes -0.0 a plain 0."""
    return (np.asarray(values, dtype=np.float64).round(PIXEL_DIGITS) + 0.0).ravel().tolist()


def from_marks(
    marks: Iterable[tuple[str, Any, float | None, bool]], order: dict[str, int], apart: str, **facts: Any
) -> LabelledObject:
    """An object from (name, place, score, hidden) of its keypoints in any order; scores count if all have one."""
    points, scores = np.full((len(order), 2), np.nan), np.full(len(order), np.nan)
    visible, occluded = np.zeros((2, len(order)), dtype=bool)
    for name, place, score, hidden in marks:
        k = order[name]
        if visible[k]:
            raise ValueError(f"{name!r} is there twice; {apart}")
        points[k], scores[k], visible[k], occluded[k] = place, np.nan if score is None else score, True, hidden
    scored = visible.any() and not np.isnan(scores[visible]).any()
    return LabelledObject(points, visible, occluded, scores if scored else None, **facts)


def json_items(items: Iterable[Any]) -> Iterator[str]:
    """The text of a JSON list, piece by piece, so that memory holds one item at a time."""
    yield "["
    for number, item in enumerate(items):
        yield (", " if number else "") + json.dumps(item, ensure_ascii=False, allow_nan=False)
    yield "]"


def cell(text: str) -> str:
    """A text as CSV writers keep it: spreadsheets run what begins like a formula, unless an apostrophe is before it."""
    return f"'{text}" if FORMULA.match(text) else text


def uncell(text: str) -> str:
    """The inverse of `cell`."""
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text


@contextmanager
def opened_csv(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            yield file
    except FileNotFoundError:
        raise DataError(f"file {path} does not exist") from None
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path} is not a CSV file: {error}") from None


def rounded_score(value: float) -> float:
    return round(float(value), SCORE_DIGITS)


def label_files(images: Iterable[LabelledImage], suffix: str) -> dict[str, PurePosixPath]:
    """For formats with a label file for each photo: where it is below the folder that is written, by photo.

    It lies as the photo does, but never outside the folder, wherever the photo is.
    """
    photo_of: dict[PurePosixPath, str] = {}
    for image in images:
        name = PurePosixPath(image.file)
        target = (PurePosixPath(name.name) if name.is_absolute() or ".." in name.parts else name).with_suffix(suffix)
        other = photo_of.setdefault(target, image.file)
        if other != image.file:
            raise AnnotationError(f"{other} and {image.file} would share the label file {target}; rename one of them")
    return {photo: target for target, photo in photo_of.items()}


def plain_path(text: str) -> str:
    """File names with /, whichever system wrote them."""
    return text.replace("\\", "/")


@contextmanager
def reading(where: object) -> Iterator[None]:
    """Whatever goes wrong with a file's content inside the block is a DataError that says where."""
    try:
        yield
    except AnnotationError as error:
        raise DataError(f"{where}: {error}") from error
    except EdgeCapeError:
        raise
    except KeyError as error:
        raise DataError(f"{where}: {error} is missing") from error
    except OSError as error:
        raise DataError(f"{where} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # files come from anywhere, and their content does whatever it likes
        raise DataError(f"{where} is damaged: {error}") from error
