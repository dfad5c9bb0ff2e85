"""What users hold: Support, Prompt, Pose. Validated numpy values, pixels of the photo, 0-based edges."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgecape.errors import AnnotationError, EdgeCapeError

Box = tuple[float, float, float, float]
PIXEL_DIGITS, SCORE_DIGITS = 3, 6  # decimals that files keep: an error of at most 0.0005 px


def as_points(values: ArrayLike, what: str = "keypoints") -> NDArray[np.float32]:
    """(K, 2) float32, K ≥ 1."""
    try:
        points = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError):
        raise AnnotationError(f"{what} must be a list of (x, y) pairs, got {values!r}") from None
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise AnnotationError(f"{what} must be a list of (x, y) pairs, got an array of shape {points.shape}")
    return points


def as_edges(values: Any, K: int) -> tuple[tuple[int, int], ...]:
    """Edges as 0-based pairs, each once, no loops."""
    if not isinstance(values, Iterable):
        raise AnnotationError(f"a skeleton is a list of pairs of keypoint numbers, got {values!r}")
    edges: list[tuple[int, int]] = []
    for edge in values:
        try:
            i, j = (operator.index(number) for number in edge)
        except (TypeError, ValueError):
            raise AnnotationError(f"skeleton edge {edge!r} is not a pair of whole keypoint numbers") from None
        if not (0 <= i < K and 0 <= j < K):
            raise AnnotationError(
                f"skeleton edge ({i}, {j}) does not fit {K} keypoints; edges are counted from 0, "
                "so subtract 1 if yours are counted from 1"
            )
        if i == j:
            raise AnnotationError(f"skeleton edge ({i}, {j}) connects a keypoint to itself; remove it")
        pair = (min(i, j), max(i, j))
        if pair not in edges:
            edges.append(pair)
    return tuple(edges)


def as_box(value: ArrayLike) -> Box:
    """(x, y, w, h) with positive sides."""
    try:
        box = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise AnnotationError(f"a box is (x, y, w, h), got {value!r}") from None
    if box.shape != (4,) or not np.isfinite(box).all():
        raise AnnotationError(f"a box is (x, y, w, h) with finite numbers, got {value!r}")
    if box[2] <= 0 or box[3] <= 0:
        raise AnnotationError(f"box {tuple(box.tolist())} has no area; width and height must be above 0")
    return (float(box[0]), float(box[1]), float(box[2]), float(box[3]))


@dataclass(frozen=True, eq=False)
class Support:
    """One photo with its keypoints marked: what the model is shown of a kind of object.

    image: path, PIL image or RGB uint8 array. keypoints: (K, 2) pixels. skeleton: 0-based edges; None means no prior
    knowledge (fully connected). visible: a bool per keypoint, False where it cannot be seen in this photo. box:
    (x, y, w, h) of the object, the whole image if None. names: one per keypoint; left and right are understood.
    """

    image: Any
    keypoints: NDArray[np.float32]
    skeleton: tuple[tuple[int, int], ...] | None = None
    visible: NDArray[np.bool_] | None = None
    box: Box | None = None
    names: tuple[str, ...] | None = None

    def __init__(
        self,
        image: Any,
        keypoints: ArrayLike,
        skeleton: Sequence[Sequence[int]] | None = None,
        visible: ArrayLike | None = None,
        box: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ):
        points = as_points(keypoints)
        K = len(points)
        shown = np.ones(K, dtype=bool) if visible is None else np.asarray(visible).astype(bool)
        if shown.shape != (K,):
            raise AnnotationError(f"visible has {shown.size} values for {K} keypoints; give one bool per keypoint")
        if not np.isfinite(points[shown]).all():
            bad = int(np.flatnonzero(shown & ~np.isfinite(points).all(axis=1))[0])
            raise AnnotationError(f"keypoint {bad} is at {tuple(points[bad].tolist())}; mark it as not visible instead")
        labels = None if names is None else tuple(str(name) for name in names)
        if labels is not None and len(labels) != K:
            raise AnnotationError(f"{len(labels)} names for {K} keypoints; give one name per keypoint")
        values = {
            "image": image,
            "keypoints": np.where(shown[:, None], points, 0).astype(np.float32),
            "skeleton": None if skeleton is None else as_edges(skeleton, K),
            "visible": shown,
            "box": None if box is None else as_box(box),
            "names": labels,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False)
class Pose:
    """Keypoints found on one object of one photo."""

    keypoints: NDArray[np.float32]
    """(K, 2) pixels of that photo, origin top left; nan where a keypoint was not found."""
    scores: NDArray[np.float32]
    """(K,) probability that the keypoint is within 10 % of the box's longer side; 0 where it was not found."""
    box: Box
    """(x, y, w, h) the model looked at."""
    proposals: NDArray[np.float32]
    """(K, 2) pixels: the first guess, by similarity alone, before the graph decoder moved it."""
    names: tuple[str, ...] | None = None
    skeleton: tuple[tuple[int, int], ...] | None = None

    @property
    def found(self) -> NDArray[np.bool_]:
        """(K,): which keypoints have a place."""
        return np.all(np.isfinite(self.keypoints), axis=1)

    @property
    def score(self) -> float:
        """The mean score of the keypoints that were found; 0 if none was."""
        return float(self.scores[self.found].mean()) if self.found.any() else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; None in the place of a keypoint that was not found."""
        return {
            "keypoints": _places(self.keypoints),
            "scores": np.where(self.found, self.scores, 0).astype(np.float64).round(SCORE_DIGITS).tolist(),
            "box": list(self.box),
            "proposals": _places(self.proposals),
            "names": None if self.names is None else list(self.names),
            "skeleton": None if self.skeleton is None else [list(edge) for edge in self.skeleton],
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Pose:
        points, proposals = (
            as_points([(np.nan, np.nan) if place is None else place for place in values[what]], what)
            for what in ("keypoints", "proposals")
        )
        scores, names, skeleton = np.array(values["scores"], np.float32), values.get("names"), values.get("skeleton")
        if not len(points) == len(proposals) == len(scores):
            raise AnnotationError(
                f"a pose has {len(points)} keypoints, {len(proposals)} proposals, {len(scores)} scores"
            )
        edges = None if skeleton is None else as_edges(skeleton, len(points))
        return cls(points, scores, as_box(values["box"]), proposals, None if names is None else tuple(names), edges)

    def to_supervision(self) -> Any:
        """supervision.KeyPoints of one object; what was not found is at (0, 0) with confidence 0, as is usual there."""
        try:
            from supervision import KeyPoints
        except ImportError:
            raise EdgeCapeError("to_supervision needs a package that is missing: pip install supervision") from None
        points, scores = np.where(self.found[:, None], self.keypoints, 0), np.where(self.found, self.scores, 0)
        whole = np.array([self.score], dtype=np.float32)
        return KeyPoints(points[None], keypoint_confidence=scores[None], detection_confidence=whole)


def _places(points: NDArray[np.float32]) -> list[list[float] | None]:
    rounded = (points.astype(np.float64).round(PIXEL_DIGITS) + 0.0).tolist()  # + 0.0 makes -0.0 a plain 0
    return [place if known.all() else None for place, known in zip(rounded, np.isfinite(points), strict=True)]


@dataclass(frozen=True, eq=False)
class Prompt:
    """A kind of object as the model understood it from its supports: encoded once, used on any number of photos."""

    tokens: NDArray[np.float32]
    """(K, d): what each keypoint looks like."""
    prior: NDArray[np.float32]
    """(K, K) 0/1: the graph that was given (all connected if no skeleton was)."""
    weights: NDArray[np.float32]
    """(K, K): the predicted graph, symmetric, before normalisation."""
    graph: NDArray[np.float32]
    """(K, K): the predicted graph Ã, rows sum to 1 or 0."""
    places: NDArray[np.float32]
    """(K, 2): where each keypoint is in the supports' frames, in [0, 1], averaged."""
    skeleton: tuple[tuple[int, int], ...] | None
    """The edges that were given, None if none were."""
    names: tuple[str, ...] | None
    shots: int
    model: str
    """Fingerprint of the model that made it; another model refuses it."""
    mirror_tokens: NDArray[np.float32] | None = None
    """(K, d): what each keypoint looks like in a mirror, for models that ask."""
    mirror_places: NDArray[np.float32] | None = None
    """(K, 2): where it is there."""
    turned_tokens: NDArray[np.float32] | None = None
    """(6, K, d): what it looks like after one, two and three quarter turns, each also in a mirror."""
    turned_places: NDArray[np.float32] | None = None
    """(6, K, 2): where it is there."""

    def __len__(self) -> int:
        return len(self.tokens)

    def save(self, path: str | os.PathLike[str]) -> None:
        """One safetensors file with its facts as JSON in the header; nothing in it can run."""
        from safetensors.numpy import save

        from edgecape.io.files import atomic_write

        arrays = {name: getattr(self, name) for name in PROMPT_SHAPES if getattr(self, name) is not None}
        facts = {"skeleton": self.skeleton, "names": self.names, "shots": self.shots, "model": self.model}
        with atomic_write(path, "wb") as file:
            file.write(save(arrays, metadata={"edgecape_prompt": json.dumps(facts)}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Prompt:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                facts = json.loads((file.metadata() or {})["edgecape_prompt"])
                stored = set(file.keys())
                wanted = [
                    name for name in PROMPT_SHAPES if name in stored or not name.startswith(("mirror_", "turned_"))
                ]
                arrays = {name: file.get_tensor(name).astype(np.float32, casting="same_kind") for name in wanted}
            K, d = arrays["tokens"].shape
            shapes = {name: array.shape for name, array in arrays.items()}
            sizes = {"K": K, "d": d, "2": 2, "6": 6}
            if not K or any(shape != tuple(sizes[n] for n in PROMPT_SHAPES[name]) for name, shape in shapes.items()):
                raise ValueError(f"its arrays are {list(shapes.values())}")
            if ("mirror_tokens" in arrays) != ("mirror_places" in arrays):
                raise ValueError("one of its two arrays of the mirror image is missing")
            if ("turned_tokens" in arrays) != ("turned_places" in arrays):
                raise ValueError("one of its two arrays of the turned supports is missing")
            if not all(np.isfinite(array).all() for array in arrays.values()):
                raise ValueError("its arrays hold values that are not numbers")
            skeleton, names = facts["skeleton"], facts["names"]
            if names is not None and len(names) != K:
                raise ValueError(f"it has {len(names)} names for {K} keypoints")
            return cls(
                **arrays,
                skeleton=None if skeleton is None else as_edges(skeleton, K),
                names=None if names is None else tuple(str(name) for name in names),
                shots=int(facts["shots"]),
                model=str(facts["model"]),
            )
        except FileNotFoundError:
            raise AnnotationError(f"prompt {path} does not exist") from None
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise AnnotationError(f"{path} is not a prompt saved by edgecape: {error}") from error


PROMPT_SHAPES = {
    "tokens": "Kd",
    "prior": "KK",
    "weights": "KK",
    "graph": "KK",
    "places": "K2",
    "mirror_tokens": "Kd",
    "mirror_places": "K2",
    "turned_tokens": "6Kd",
    "turned_places": "6K2",
}
