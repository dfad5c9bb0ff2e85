"""One model on one machine: numpy in, numpy out. A frame is a square crop, RGB uint8.

How much is done for a query is its *effort*. "fast": one pass of the backbone, one upright view of the supports, chosen
by a coarse look. "best": the query's mirror image too, and all views. "auto": fast, and best where the look left doubt.
"""

from __future__ import annotations

import hashlib
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from edgecape import geometry
from edgecape.errors import SettingsError, brief
from edgecape.matching import views
from edgecape.types import Prompt

Floats = NDArray[np.float32]
Frames = NDArray[np.uint8]
Features = TypeVar("Features")  # of frames (n, …), as the runtime likes them
Effort = Literal["fast", "auto", "best"]
KEPT_PICTURES = 96  # of supports, whose features are remembered; 1.2 MB each


class Crops(NamedTuple):
    """Supports as a prompt looks at them: crops of L sizes of each of S photos."""

    frames: Frames  # (L, S, h, w, 3)
    coordinates: Floats  # (L, S, K, 2), of the keypoints, in [0, 1] of the frames
    visible: NDArray[np.bool_]  # (S, K)


class Views(NamedTuple):
    """Supports in V views; as in `Prompt`."""

    tokens: Floats  # (E, V, K, d)
    places: Floats  # (E, V, K, 2)


class Graph(NamedTuple):
    """As in `Prompt`."""

    prior: Floats  # (K, K)
    weights: Floats  # (K, K)
    graph: Floats  # (K, K)


class Located(NamedTuple):
    """Coordinates are (x, y) in [0, 1] of the frames."""

    coordinates: Floats  # (N, K, 2)
    scores: Floats  # (N, K), probability of being right
    proposals: Floats  # (N, K, 2), the first guess, by similarity alone
    best: NDArray[np.bool_]  # (N,): looked for the best way, not the fast one


def check_effort(effort: Any) -> Effort:
    if not isinstance(effort, str) or effort not in get_args(Effort):
        raise SettingsError(f"effort is {brief(effort)}; it can be 'fast', 'auto' or 'best'")
    return effort  # type: ignore[return-value]


def flip_index_of(prompt: Prompt) -> NDArray[np.int64]:
    """(K,); each keypoint itself where left and right are not known."""
    return np.arange(len(prompt)) if prompt.flip_index is None else prompt.flip_index


class Runtime(ABC, Generic[Features]):
    """Runtimes differ in how features are computed and compared; what is done when is the same for all."""

    size: tuple[int, int]
    """Height and width of a frame."""
    fingerprint: str
    """Of weights and settings: which prompts it takes."""
    training: dict[str, Any]
    """How the model came about."""
    scales: tuple[float, ...]
    """Crop sizes at which it wants to see a support, 1 being the usual one."""
    views: tuple[int, ...]
    """In which it compares supports with a query at the best effort; the first two are upright."""
    query_views: tuple[int, ...]
    """In which it looks at a query at the best effort."""

    def __init__(self) -> None:
        self._pictures: OrderedDict[bytes, Features] = OrderedDict()
        self._turned: weakref.WeakKeyDictionary[Prompt, Views] = weakref.WeakKeyDictionary()

    # --- what a runtime computes ---------------------------------------------------------------------------

    @abstractmethod
    def features(self, frames: Frames) -> Features:
        """Of frames (n, h, w, 3)."""

    @abstractmethod
    def stack(self, features: Sequence[Features], dim: int) -> Features:
        """Along a new dimension."""

    @abstractmethod
    def grid(self, features: Sequence[Features], shape: tuple[int, ...]) -> Features:
        """One for each place of a grid, row by row."""

    @abstractmethod
    def take(self, features: Features, row: Any) -> Features:
        """A row, or several."""

    @abstractmethod
    def encode_views(
        self, features: Features, places: Floats, seen: NDArray[np.bool_], prior: Floats
    ) -> tuple[Views, Graph]:
        """features (V, S, L, …) and places (V, S, L, K, 2) of crops of L sizes of S supports in V views, seen
        (S, L, K), prior (K, K). The graph is that of the first view."""

    @abstractmethod
    def compare(
        self, features: Features, support: Views, prompt: Prompt, fast: bool
    ) -> tuple[Located, NDArray[np.bool_]]:
        """features (N, R, …) of queries in R views; fast: beside one upright view of the supports. Also whether the
        coarse look was clear (N,)."""

    # --- supports --------------------------------------------------------------------------------------------

    def encode(self, crops: Crops, prior: Floats) -> tuple[Views, Graph]:
        """The upright views of supports, and the graph. Turned views are encoded when a query first asks for them.

        Features of the last supports are remembered: another edge, a moved keypoint or one more support costs no pass
        of the backbone for what was seen before."""
        return self._encode(crops, prior, self.views[: views.MIRRORED + 1])

    def _encode(self, crops: Crops, prior: Floats, wanted: Sequence[int]) -> tuple[Views, Graph]:
        sizes, shots = crops.coordinates.shape[:2]
        seen = views.shown(crops.coordinates.swapaxes(0, 1), crops.visible)
        pictures, places = [], []
        for view in wanted:
            for shot in range(shots):
                for size in range(sizes):
                    shown = size if view <= views.MIRRORED else 0  # turned crops are seen in one size only
                    pictures.append((crops.frames[shown, shot], view))
                    points = crops.coordinates[shown, shot].astype(np.float64) * self.size[::-1]
                    placed = geometry.apply(views.transform(view, self.size), points) / self.size[::-1]
                    places.append(placed.astype(np.float32))
        grid = np.stack(places).reshape(len(wanted), shots, sizes, -1, 2)
        return self.encode_views(self.grid(self._of_pictures(pictures), grid.shape[:3]), grid, seen, prior)

    def _of_pictures(self, pictures: Sequence[tuple[Frames, int]]) -> list[Features]:
        """Features of frames in views of them, each picture through the backbone once."""
        keys = [hashlib.blake2b(frame.tobytes(), digest_size=16).digest() + bytes([view]) for frame, view in pictures]
        missing = {key: picture for key, picture in zip(keys, pictures, strict=True) if key not in self._pictures}
        if missing:
            new = self.features(np.stack([views.show(frame, view) for frame, view in missing.values()]))
            self._pictures.update((key, self.take(new, row)) for row, key in enumerate(missing))
        for key in keys:
            self._pictures.move_to_end(key)
        found = [self._pictures[key] for key in keys]
        while len(self._pictures) > KEPT_PICTURES:
            self._pictures.popitem(last=False)
        return found

    def forget(self) -> None:
        """Lets go of the features of supports, which are then computed again."""
        self._pictures.clear()
        self._turned.clear()

    def all_views(self, prompt: Prompt) -> Views:
        """The upright views, which a prompt holds, and the turned ones, encoded once for a prompt."""
        upright, turned = Views(prompt.tokens, prompt.places), self.views[prompt.tokens.shape[1] :]
        if not turned:
            return upright
        if prompt not in self._turned:
            crops = Crops(prompt.frames, prompt.coordinates, prompt.visible)
            self._turned[prompt], _ = self._encode(crops, prompt.prior, turned)
        return Views(*(np.concatenate(parts, axis=1) for parts in zip(upright, self._turned[prompt], strict=True)))

    # --- queries ---------------------------------------------------------------------------------------------

    def locate(self, frames: Frames, prompt: Prompt, effort: Effort = "auto") -> Located:
        """The keypoints of a prompt in frames (N, h, w, 3)."""
        features = self.features(frames)
        if effort == "best":
            return self._best(frames, features, prompt)
        upright = Views(prompt.tokens, prompt.places)
        found, clear = self.compare(self.stack([features], 1), upright, prompt, True)
        unclear = np.flatnonzero(~clear)
        if effort == "auto" and len(unclear):
            again = self._best(frames[unclear], self.take(features, unclear), prompt)
            for values, better in zip(found, again, strict=True):
                values[unclear] = better
        return found

    def _best(self, frames: Frames, features: Features, prompt: Prompt) -> Located:
        """features: of the frames as they are."""
        others = [np.stack([views.show(frame, view) for frame in frames]) for view in self.query_views[1:]]
        every = self.stack([features, *(self.features(pictures) for pictures in others)], 1)
        return self.compare(every, self.all_views(prompt), prompt, False)[0]
