"""The one shape that all formats share: keypoints in pixels (origin top left, no half-pixel shift), edges from 0."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgecape.errors import AnnotationError, brief
from edgecape.skeleton import Pairs
from edgecape.types import Pose, Support
from edgecape.values import Box, as_box, as_edges, as_flags, as_names, as_numbers, as_pairs, as_points, check_finite


@dataclass(frozen=True, eq=False)
class LabelledObject:
    """One object of one photo.

    `visible` is all most users need: True where the keypoint has a place. `occluded` adds what some formats tell
    besides: the place was marked although something hides it. COCO's 0, 1, 2 are the two together, see `codes`.

    Args:
        keypoints: (K, 2) pixels.
        visible: A bool per keypoint; all are if None.
        occluded: A bool per keypoint; none is if None.
        scores: A number per keypoint.
        box: (x, y, w, h) in pixels.
        score: Of the object as a whole.
    """

    keypoints: NDArray[np.float32]
    """(K, 2) pixels, 0 where not visible."""
    visible: NDArray[np.bool_]
    """(K,): whether it has a place."""
    occluded: NDArray[np.bool_]
    """(K,): whether something hides it there."""
    scores: NDArray[np.float32] | None
    """(K,), 0 where not visible."""
    box: Box | None
    """(x, y, w, h) in pixels."""
    score: float | None
    """Of the object as a whole."""

    def __init__(
        self,
        keypoints: ArrayLike,
        visible: ArrayLike | None = None,
        occluded: ArrayLike | None = None,
        scores: ArrayLike | None = None,
        box: ArrayLike | None = None,
        score: float | None = None,
    ):
        points = as_points(keypoints)
        shape = (len(points),)
        shown = np.ones(shape, bool) if visible is None else as_flags(visible, len(points))
        hidden = np.zeros(shape, bool) if occluded is None else as_flags(occluded, len(points), "occluded")
        certain = None if scores is None else as_numbers(scores, np.float32)
        if scores is not None and (certain is None or certain.shape != shape):
            raise AnnotationError(f"scores {brief(scores)} are not a number for each of the {len(points)} keypoints")
        check_finite(points, shown)
        if certain is not None and not np.isfinite(certain[shown]).all():
            raise AnnotationError(f"scores must be numbers where a keypoint is visible, got {certain.tolist()}")
        vars(self).update(
            keypoints=np.where(shown[:, None], points, 0).astype(np.float32),
            visible=shown,
            occluded=hidden & shown,
            scores=None if certain is None else np.where(shown, certain, 0).astype(np.float32),
            box=None if box is None else as_box(box),
            score=None if score is None else float(score),
        )

    @property
    def codes(self) -> NDArray[np.int64]:
        """(K,) COCO's visibility: 0 no place, 1 marked but hidden, 2 seen."""
        return np.where(self.visible, 2 - self.occluded, 0)

    @property
    def extent(self) -> Box | None:
        """The box, or without one the smallest round the visible keypoints (its sides can be 0); None without any."""
        if self.box is not None or not self.visible.any():
            return self.box
        points = self.keypoints[self.visible].astype(np.float64)
        low, high = points.min(axis=0), points.max(axis=0)
        return (float(low[0]), float(low[1]), float(high[0] - low[0]), float(high[1] - low[1]))

    def inside(self, width: int, height: int) -> LabelledObject:
        """For formats that know nothing outside the photo: such keypoints become absent, the box is cut.

        Args:
            width: Of the photo, in pixels.
            height: Of the photo, in pixels.
        """
        within = ((self.keypoints >= 0) & (self.keypoints <= (width, height))).all(axis=1)
        return LabelledObject(
            self.keypoints, self.visible & within, self.occluded, self.scores, cut(self.box, width, height), self.score
        )


@dataclass(frozen=True, eq=False)
class LabelledImage:
    """One photo and the objects on it."""

    file: str
    """As the label file has it, with /."""
    width: int | None
    """In pixels, None if the file does not say."""
    height: int | None
    """In pixels, None if the file does not say."""
    objects: tuple[LabelledObject, ...]
    """In the order of the file."""

    def __post_init__(self) -> None:
        for name in ("width", "height"):
            side = getattr(self, name)
            if side is not None and (not isinstance(side, (int, np.integer)) or isinstance(side, bool) or side <= 0):
                raise AnnotationError(f"the size of {self.file} is {self.width} × {self.height}; expected whole pixels")
            object.__setattr__(self, name, None if side is None else int(side))

    def size(self, format: str) -> tuple[int, int]:
        """(width, height) in pixels, for formats that cannot do without.

        Args:
            format: Whose error it is if they are not known.
        """
        if self.width is None or self.height is None:
            raise AnnotationError(f"the size of {self.file} is not known, which {format} files need; give it in pixels")
        return self.width, self.height


@dataclass(frozen=True, eq=False)
class Entry:
    """A photo that was searched."""

    file: str  # as it was given, with /
    size: tuple[int | None, int | None]  # (width, height)
    poses: Sequence[Pose]


@dataclass(frozen=True, eq=False)
class Streamed(Sequence[LabelledImage]):
    """What was found as labels, made anew whenever somebody goes through them, so that memory holds one photo's."""

    entries: Iterable[Entry]

    def __iter__(self) -> Iterator[LabelledImage]:
        for entry in self.entries:
            objects = (LabelledObject(p.keypoints, p.found, None, p.scores, p.box, p.score) for p in entry.poses)
            yield LabelledImage(entry.file, *entry.size, tuple(objects))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, index: Any) -> Any:
        return tuple(self)[index]


@dataclass(frozen=True, eq=False)
class LabelSet:
    """Photos labelled by one keypoint definition.

    Args:
        names: Of the K keypoints; they differ.
        skeleton: Edges from 0.
        category: What the kind of object is called.
        images: The photos.
        root: Folder that file names are relative to.
        notes: For people.
        symmetry: Pairs of left and right keypoints, from 0.
    """

    names: tuple[str, ...]
    """Of the K keypoints."""
    skeleton: tuple[tuple[int, int], ...] | None
    """Edges from 0; None if the file has none."""
    category: str
    """What the kind of object is called."""
    images: Sequence[LabelledImage]
    """The photos."""
    root: Path | None
    """What file names are relative to, where the reader knows it."""
    notes: tuple[str, ...]
    """What the reader decided or skipped."""
    symmetry: Pairs | None
    """Pairs of left and right keypoints, from 0; None if the file says nothing."""

    def __init__(
        self,
        names: Sequence[str],
        skeleton: Sequence[Sequence[int]] | None = None,
        category: str = "object",
        images: Sequence[LabelledImage] = (),
        root: str | os.PathLike[str] | None = None,
        notes: Sequence[str] = (),
        symmetry: Sequence[Sequence[int]] | None = None,
    ):
        labels = as_names(names, len(names))
        if not labels:
            raise AnnotationError("there is no keypoint; a label set needs at least one")
        if len(set(labels)) < len(labels):
            twice = next(name for name in labels if labels.count(name) > 1)
            raise AnnotationError(f"two keypoints are named {twice!r}; names must differ")
        check_text(*labels, category)
        for image in images:
            check_text(image.file)
            for thing in image.objects:
                if len(thing.keypoints) != len(labels):
                    raise AnnotationError(
                        f"an object of {image.file} has {len(thing.keypoints)} keypoints, but {len(labels)} are named"
                    )
        vars(self).update(
            names=labels,
            skeleton=None if skeleton is None else as_edges(skeleton, len(labels)) or None,
            category=category,
            images=images if isinstance(images, Streamed) else tuple(images),
            root=None if root is None else Path(root),
            notes=tuple(notes),
            symmetry=None if symmetry is None else as_pairs(symmetry, len(labels)),
        )


def check_text(*texts: str) -> None:
    """That label files can hold these names."""
    for text in texts:
        if not text or any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in text):
            raise AnnotationError(f"the name {text!r} is not one line of text")


def to_supports(labels: LabelSet, root: str | os.PathLike[str] | None = None) -> list[Support]:
    """Every object with a visible keypoint as a support.

    Args:
        labels: As `read` gives them.
        root: Folder that file names are relative to; the label set's own if None.
    """
    folder = Path(root) if root is not None else labels.root or Path()
    return [
        Support(
            *(folder / image.file, thing.keypoints, labels.skeleton, thing.visible, thing.box, labels.names),
            symmetry=labels.symmetry,
        )
        for image in labels.images
        for thing in image.objects
        if thing.visible.any()
    ]


def from_poses(
    poses: Iterable[Pose | Sequence[Pose]],
    files: Sequence[str | os.PathLike[str]],
    sizes: Sequence[tuple[int, int]] | None = None,
    category: str = "object",
    root: str | os.PathLike[str] | None = None,
) -> LabelSet:
    """Predictions as labels.

    Args:
        poses: One pose or a list of poses per file, in order.
        files: Names of the photos.
        sizes: (width, height) of each in pixels, for formats that need it.
        category: What the kind of object is called.
        root: Folder that the names are relative to.
    """
    of_file = [[item] if isinstance(item, Pose) else list(item) for item in poses]
    if len(of_file) != len(files) or (sizes is not None and len(sizes) != len(files)):
        told = "" if sizes is None else f" and {len(sizes)} sizes"
        raise AnnotationError(
            f"predictions for {len(of_file)} images, but {len(files)} file names{told}; give one each"
        )
    known: Sequence[tuple[int | None, int | None]] = sizes if sizes is not None else [(None, None)] * len(files)
    entries = list(map(Entry, (Path(file).as_posix() for file in files), known, of_file))
    labels = from_entries(entries, category, root)
    return replace(labels, images=tuple(labels.images))


def from_entries(
    entries: Iterable[Entry], category: str = "object", root: str | os.PathLike[str] | None = None
) -> LabelSet:
    """The same of entries that can be gone through more than once; they are, so that none need be kept in memory."""
    first = next((pose for entry in entries for pose in entry.poses), None)
    if first is None:
        raise AnnotationError("there is no pose in the predictions, so nothing tells what the keypoints are")
    names = unique_names(first.names or default_names(len(first.keypoints)))
    return LabelSet(names, first.skeleton, category, Streamed(entries), root)


def default_names(K: int) -> tuple[str, ...]:
    """For files that do not name their keypoints."""
    return tuple(f"kp{index}" for index in range(K))


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The second "eye" becomes "eye (2)"."""
    found: dict[str, None] = {}
    for name in names:
        number, candidate = 1, name
        while candidate in found:
            number += 1
            candidate = f"{name} ({number})"
        found[candidate] = None
    return tuple(found)


def cut(box: Box | None, width: int, height: int) -> Box | None:
    """The part of a box that is inside the photo; None if nothing is."""
    if box is None:
        return None
    left, top = max(box[0], 0.0), max(box[1], 0.0)
    right, bottom = min(box[0] + box[2], width), min(box[1] + box[3], height)
    return (left, top, right - left, bottom - top) if right > left and bottom > top else None
