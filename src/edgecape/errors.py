"""Every error a user can cause: one sentence saying what was wrong, with which value, and what to do."""

from __future__ import annotations

import importlib.util
import reprlib


class EdgeCapeError(Exception):
    """Base of all errors caused by input; the command line prints it without a traceback and exits with 2."""


class ImageError(EdgeCapeError):
    """A picture could not be read or is of no use."""


class PhotoError(EdgeCapeError):
    """Something nobody foresaw went wrong with one photo; `__cause__` is what it was."""


class AnnotationError(EdgeCapeError):
    """Keypoints, skeleton, boxes or names do not fit together."""


class DataError(EdgeCapeError):
    """A data set, annotation file or cache is missing, damaged or inconsistent."""


class WeightsError(EdgeCapeError):
    """Weights are missing, damaged, of another kind, or not for this network."""


class SettingsError(EdgeCapeError):
    """Settings contradict each other or cannot be used."""


class MissingPackageError(EdgeCapeError):
    """A package that not all of edgecape needs is not installed."""


def require(extra: str, what: str, *packages: str) -> None:
    """Say which extra of edgecape installs what a part of it needs, before it is needed."""
    missing = next((package for package in packages if importlib.util.find_spec(package) is None), None)
    if missing is not None:
        raise MissingPackageError(f"{what} needs {missing}: pip install 'edgecape[{extra}]'")


def brief(value: object) -> str:
    """A value as an error shows it: on one line and short, whatever it is."""
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxother = 4, 60, 60
    try:
        return " ".join(short.repr(value).split())
    except Exception:  # of objects that cannot even be shown
        return f"a {type(value).__name__}"
