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


def as_pairs(values: Any, K: int) -> tuple[tuple[int, int], ...]:
    """Pairs of left and right keypoints, each keypoint in one of them at most."""
    pairs = as_edges(values, K)
    paired = [k for pair in pairs for k in pair]
    if len(set(paired)) < len(paired):
        twice = next(k for k in paired if paired.count(k) > 1)
        raise AnnotationError(f"symmetry has keypoint {twice} in two pairs; each keypoint has one partner at most")
    return pairs


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


@dataclass(frozen=True, eq=False, init=False)
class Support:
    """One photo with its keypoints marked: what the model is shown of a kind of object.

    image: path, PIL image or RGB uint8 array. keypoints: (K, 2) pixels. skeleton: 0-based edges; None means no prior
    knowledge (fully connected). visible: a bool per keypoint, False where it cannot be seen in this photo. box:
    (x, y, w, h) of the object, the whole image if None. names: one per keypoint; left and right are understood.
    symmetry: pairs of keypoints that are left and right of each other, where names do not tell.
    """

    image: Any
    keypoints: NDArray[np.float32]
    skeleton: tuple[tuple[int, int], ...] | None
    visible: NDArray[np.bool_]
    box: Box | None
    names: tuple[str, ...] | None
    symmetry: tuple[tuple[int, int], ...] | None

    def __init__(
        self,
        image: Any,
        keypoints: ArrayLike,
        skeleton: Sequence[Sequence[int]] | None = None,
        visible: ArrayLike | None = None,
        box: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        symmetry: Sequence[Sequence[int]] | None = None,
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
            "symmetry": None if symmetry is None else as_pairs(symmetry, K),
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
    effort: str = "best"
    """How it was looked for: "fast" or "best"."""

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
            "effort": self.effort,
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
        labels, effort = None if names is None else tuple(names), str(values.get("effort", "best"))
        return cls(points, scores, as_box(values["box"]), proposals, labels, edges, effort)

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
    """(V, K, d): what each keypoint looks like, in the supports as they are and, if the model wants it, mirrored."""
    places: NDArray[np.float32]
    """(V, K, 2): where it is there, in [0, 1] of the supports' frames, averaged."""
    usable: NDArray[np.bool_]
    """(K,): whether any support shows it; one that none shows is never found."""
    prior: NDArray[np.float32]
    """(K, K) 0/1: the graph that was given (all connected if no skeleton was)."""
    weights: NDArray[np.float32]
    """(K, K): the predicted graph, symmetric, before normalisation."""
    graph: NDArray[np.float32]
    """(K, K): the predicted graph Ã, rows sum to 1 or 0."""
    flip_index: NDArray[np.int64] | None
    """(K,): which keypoint a mirror shows in the place of each; None if left and right are not known."""
    frames: NDArray[np.uint8]
    """(L, S, h, w, 3): the supports, cropped in L sizes, from which further views are encoded when a photo asks for
    them. So a saved prompt shows its supports to whoever opens it."""
    coordinates: NDArray[np.float32]
    """(L, S, K, 2): the keypoints in these frames, in [0, 1]."""
    visible: NDArray[np.bool_]
    """(S, K): which keypoints each support shows."""
    skeleton: tuple[tuple[int, int], ...] | None
    """The edges that were given, None if none were."""
    names: tuple[str, ...] | None
    model: str
    """Fingerprint of the model that made it; another model refuses it."""

    def __len__(self) -> int:
        return len(self.usable)

    @property
    def shots(self) -> int:
        """How many supports it was made of."""
        return len(self.visible)

    def save(self, path: str | os.PathLike[str]) -> None:
        """One safetensors file with its facts as JSON in the header; nothing in it can run."""
        from safetensors.numpy import save

        from edgecape.io.files import atomic_write

        arrays = {name: getattr(self, name) for name in PROMPT_ARRAYS if getattr(self, name) is not None}
        facts = {"skeleton": self.skeleton, "names": self.names, "model": self.model}
        with atomic_write(path, "wb") as file:
            file.write(save(arrays, metadata={"edgecape_prompt": json.dumps(facts)}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Prompt:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                facts = json.loads((file.metadata() or {})["edgecape_prompt"])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if "frames" not in arrays and "tokens" in arrays:
                raise ValueError("it was made by an earlier version; make it again from the photos")
            arrays.setdefault("flip_index", None)
            shapes = zip("VKdLShw3", arrays["tokens"].shape + arrays["frames"].shape, strict=True)
            sizes = dict(shapes) | {"2": 2, "3": 3}
            _check_arrays(arrays, sizes)
            K = sizes["K"]
            skeleton, names = facts["skeleton"], facts["names"]
            if names is not None and len(names) != K:
                raise ValueError(f"it has {len(names)} names for {K} keypoints")
            return cls(
                **arrays,
                skeleton=None if skeleton is None else as_edges(skeleton, K),
                names=None if names is None else tuple(str(name) for name in names),
                model=str(facts["model"]),
            )
        except FileNotFoundError:
            raise AnnotationError(f"prompt {path} does not exist") from None
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise AnnotationError(f"{path} is not a prompt saved by edgecape: {error}") from error


PROMPT_ARRAYS: dict[str, tuple[str, type[np.generic]]] = {
    "tokens": ("VKd", np.float32),
    "places": ("VK2", np.float32),
    "usable": ("K", np.bool_),
    "prior": ("KK", np.float32),
    "weights": ("KK", np.float32),
    "graph": ("KK", np.float32),
    "flip_index": ("K", np.int64),
    "frames": ("LShw3", np.uint8),
    "coordinates": ("LSK2", np.float32),
    "visible": ("SK", np.bool_),
}


def _check_arrays(arrays: dict[str, Any], sizes: dict[str, int]) -> None:
    """That a saved prompt can be used: nothing in it is taken on trust."""
    if set(arrays) != set(PROMPT_ARRAYS):
        raise ValueError(f"its arrays are {', '.join(sorted(arrays))}")
    for name, (axes, kind) in PROMPT_ARRAYS.items():
        array = arrays[name]
        if array is None:
            continue
        if array.shape != tuple(sizes[axis] for axis in axes) or array.dtype != kind or not array.size:
            raise ValueError(f"its array '{name}' is {array.dtype} of shape {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"its array '{name}' holds values that are not numbers")
    flip = arrays["flip_index"]
    if flip is not None and sorted(flip.tolist()) != list(range(len(flip))):
        raise ValueError("its flip_index is no exchange of keypoints")
