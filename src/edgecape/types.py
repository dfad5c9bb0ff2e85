"""What users hold: Support, Prompt, Pose. Validated numpy values, pixels of the photo, 0-based edges."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgecape.errors import AnnotationError, EdgeCapeError, brief
from edgecape.values import Box, as_box, as_edges, as_flags, as_names, as_numbers, as_pairs, as_points, check_finite

PIXEL_DIGITS, SCORE_DIGITS = 3, 6  # decimals that files keep: an error of at most 0.0005 px


@dataclass(frozen=True, eq=False, init=False)
class Support:
    """One photo with its keypoints marked: what the model is shown of a kind of object.

    Args:
        image: Path, PIL image or RGB uint8 array (height, width, 3).
        keypoints: (K, 2) pixels as (x, y), the origin at the top left.
        skeleton: Edges as pairs of keypoint numbers from 0; None means no prior knowledge (all connected), [] no edges.
        visible: A bool per keypoint, False where it cannot be seen in this photo; all are seen if None.
        box: (x, y, w, h) of the object in pixels; the whole image if None.
        names: One per keypoint; left and right are understood, so that the photo's mirror image is of use too.
        symmetry: Pairs of keypoints that are left and right of each other, where names do not tell.

    Raises:
        AnnotationError: If any of it does not fit the rest.
    """

    image: Any
    """As it was given."""
    keypoints: NDArray[np.float32]
    """(K, 2) pixels; (0, 0) where a keypoint is not visible."""
    skeleton: tuple[tuple[int, int], ...] | None
    """Edges from 0, or None."""
    visible: NDArray[np.bool_]
    """(K,)."""
    box: Box | None
    """(x, y, w, h) in pixels, or None."""
    names: tuple[str, ...] | None
    """K names, or None."""
    symmetry: tuple[tuple[int, int], ...] | None
    """Pairs from 0, or None."""

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
        shown = np.ones(K, dtype=bool) if visible is None else as_flags(visible, K)
        check_finite(points, shown)
        values = {
            "image": image,
            "keypoints": np.where(shown[:, None], points, 0).astype(np.float32),
            "skeleton": None if skeleton is None else as_edges(skeleton, K),
            "visible": shown,
            "box": None if box is None else as_box(box),
            "names": None if names is None else as_names(names, K),
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
    """K names, as the support gave them."""
    skeleton: tuple[tuple[int, int], ...] | None = None
    """Edges from 0, as the support gave them."""
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
        """Plain values for JSON: keypoints and proposals in pixels to three digits, None in the place of a keypoint
        that was not found."""
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
        """The inverse of `to_dict`; nothing in the values is taken on trust.

        Args:
            values: As `to_dict` gives them.
        """
        if not isinstance(values, dict):
            raise AnnotationError(f"a pose is a table of values, got {brief(values)}")
        try:
            points, proposals = (
                as_points([(np.nan, np.nan) if place is None else place for place in values[what]], what)
                for what in ("keypoints", "proposals")
            )
            scores, box = as_numbers(values["scores"], np.float32), as_box(values["box"])
        except (KeyError, TypeError) as error:
            raise AnnotationError(f"this is no pose, {error}: {brief(values)}") from None
        K = len(points)
        if scores is None or scores.shape != (K,) or len(proposals) != K or not np.isfinite(scores).all():
            raise AnnotationError(
                f"a pose has {K} keypoints, {len(proposals)} proposals, scores {brief(values['scores'])}"
            )
        names, skeleton = values.get("names"), values.get("skeleton")
        edges = None if skeleton is None else as_edges(skeleton, K)
        labels, effort = None if names is None else as_names(names, K), str(values.get("effort", "best"))
        return cls(points, scores, box, proposals, labels, edges, effort)

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
    """(E, V, K, d): what each keypoint looks like, in each support as it is and, if the model wants it, mirrored; E = 1
    for models that average supports."""
    places: NDArray[np.float32]
    """(E, V, K, 2): where it is there, in [0, 1] of the supports' frames."""
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
    """K names, None if none were given."""
    model: str
    """Fingerprint of the model that made it; another model refuses it."""

    def __len__(self) -> int:
        return len(self.usable)

    @property
    def shots(self) -> int:
        """How many supports it was made of."""
        return len(self.visible)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file; nothing in it can run. It holds the crops of the supports.

        Args:
            path: Such as "cow.prompt".
        """
        from safetensors.numpy import save

        from edgecape.io.files import atomic_write

        arrays = {name: getattr(self, name) for name in PROMPT_ARRAYS if getattr(self, name) is not None}
        facts = {"skeleton": self.skeleton, "names": self.names, "model": self.model}
        with atomic_write(path, "wb") as file:
            file.write(save(arrays, metadata={"edgecape_prompt": json.dumps(facts)}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Prompt:
        """What `save` wrote.

        Args:
            path: The file; it may come from anywhere.

        Raises:
            AnnotationError: If it is not a prompt, or of an earlier version.
        """
        from safetensors import safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                facts = json.loads((file.metadata() or {})["edgecape_prompt"])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if "tokens" in arrays and ("frames" not in arrays or arrays["tokens"].ndim == 3):
                raise ValueError("it was made by an earlier version; make it again from the photos")
            arrays.setdefault("flip_index", None)
            shapes = zip("EVKdLShw3", arrays["tokens"].shape + arrays["frames"].shape, strict=True)
            sizes = dict(shapes) | {"2": 2, "3": 3}
            _check_arrays(arrays, sizes)
            if sizes["E"] not in (1, sizes["S"]):
                raise ValueError(f"it tells of {sizes['E']} supports and holds {sizes['S']}")
            K = sizes["K"]
            skeleton, names = facts["skeleton"], facts["names"]
            return cls(
                **arrays,
                skeleton=None if skeleton is None else as_edges(skeleton, K),
                names=None if names is None else as_names(names, K),
                model=str(facts["model"]),
            )
        except FileNotFoundError:
            raise AnnotationError(f"prompt {path} does not exist") from None
        except Exception as error:  # a file from anywhere
            raise AnnotationError(f"{path} is not a prompt saved by edgecape: {error}") from error


PROMPT_ARRAYS: dict[str, tuple[str, type[np.generic]]] = {
    "tokens": ("EVKd", np.float32),
    "places": ("EVK2", np.float32),
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
