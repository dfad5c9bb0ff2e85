"""What the model is shown, as the command line says it: label files, a saved prompt, or photos with their points."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgecape.errors import AnnotationError
from edgecape.formats.supports import read_supports
from edgecape.io.images import SUFFIXES
from edgecape.types import Prompt, Support


def read_shown(
    paths: Sequence[Path], points: Sequence[str], edges: str | None, notes: list[str], **options: Any
) -> list[Support] | Prompt:
    """points: one text for each path that is a photo, in order; options go to the reader of label files."""
    if not paths:
        raise AnnotationError("no support is given; show the model a marked photo with --support")
    photos = [path for path in paths if path.suffix.lower() in SUFFIXES]
    if not photos and (points or edges is not None):
        raise AnnotationError(f"--points and --edges are for supports given as photos; {paths[0]} has its own marks")
    if len(points) < len(photos):
        bare = photos[len(points)]
        raise AnnotationError(f'{bare} is a photo without marks; add --points "x,y x,y …" for it or give a label file')
    if len(points) > len(photos):
        raise AnnotationError(f"--points is given {len(points)} times for {len(photos)} photos; give it once for each")
    if len(paths) == 1 and paths[0].suffix == ".prompt":
        return Prompt.load(paths[0])
    marks = iter(points)
    found: list[Support] = []
    for path in paths:
        if path in photos:
            found.append(_marked(path, next(marks), edges))
        else:
            read = read_supports(path, **options)
            found += read.supports
            notes += read.notes
    return found


def _marked(photo: Path, points: str, edges: str | None) -> Support:
    try:
        keypoints = [tuple(float(value) for value in point.split(",")) for point in points.split()]
        skeleton = None if edges is None else [tuple(int(k) for k in edge.split("-")) for edge in edges.split()]
    except ValueError:
        raise AnnotationError(f'points are "x,y x,y …" and edges "0-1 1-2 …", got {points!r} and {edges!r}') from None
    return Support(photo, keypoints, skeleton)
