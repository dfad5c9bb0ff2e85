"""Running methods through the episodes: each picture through the backbone once, an episode's queries in one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgecape.data.crops import Crop, plain_crop
from edgecape.data.dataset import Dataset, Instance
from edgecape.data.features import FeatureStore
from edgecape.errors import WeightsError, require
from edgecape.evaluation.episodes import Episode, pairs
from edgecape.evaluation.metrics import Floats
from edgecape.evaluation.results import Result
from edgecape.geometry import apply, inverse
from edgecape.io.images import image_size
from edgecape.matching.multiview import Shots
from edgecape.matching.views import UPRIGHT, Picture
from edgecape.skeleton import adjacency, flip_index

if TYPE_CHECKING:
    from accelerate import PartialState

PLAIN = Picture()
MEMORY = 2 << 30  # bytes of features kept for the episodes of a category


class Marked(NamedTuple):
    """Photos with what was found on them for marks."""

    shots: Shots
    visible: Tensor  # (1, Q, K) bool: which keypoints lie in the photo


class Task(NamedTuple):
    """What a method gets of an episode; coordinates are (x, y) in [0, 1] of the frames."""

    shots: Callable[[Sequence[Picture]], Shots]  # the supports in pictures of them, as a batch of one
    queries: Callable[[Sequence[int]], Tensor]  # features (Q, R, C, h, w) of the queries in R views of them
    visible: Tensor  # (K,) bool, in all supports
    prior: Tensor  # (K, K), adjacency
    flip_index: Tensor | None = None  # (K,), None if left and right are not known
    marked: Callable[[Sequence[Picture], Tensor], Marked] | None = None  # queries as if they were supports

    @property
    def features(self) -> Tensor:
        """(S, C, h, w), of the supports as they are."""
        return self.shots((PLAIN,)).features[0, 0]

    @property
    def coordinates(self) -> Tensor:
        """(S, K, 2), of the keypoints there."""
        return self.shots((PLAIN,)).coordinates[0, 0]

    @property
    def query(self) -> Tensor:
        """(Q, C, h, w), features of the queries as they are."""
        return self.queries((UPRIGHT,))[:, 0]


Method = Callable[[Task], Tensor]
"""Coordinates (Q, K, 2) in [0, 1] of the query frames."""


def processes() -> PartialState:
    """The processes of this run; on its own PartialState overlooks `accelerate launch --cpu`."""
    require("train", "measuring", "accelerate")
    from accelerate import PartialState
    from accelerate.utils import parse_flag_from_env

    return PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU"))


def distances(predicted: Floats, query: Instance, usable: NDArray[np.bool_]) -> Floats:
    """Predicted photo pixels (K, 2) → distance to the truth relative to the longer side of the box, (K,); nan where
    the keypoint is not visible in the query or not usable because a support lacks it."""
    distance = np.linalg.norm(predicted - query.keypoints, axis=-1) / max(query.box[2:])
    return np.where(query.visible & usable, distance, np.nan)


def evaluate(
    dataset: Dataset,
    episodes: Sequence[Episode],
    methods: Mapping[str, Method],
    store: FeatureStore,
    progress: Callable[[int], None] | None = None,
    cover: float = 0.0,
) -> dict[str, Result]:
    """The result of every method on the same pairs; `progress` is told the number of pairs done. cover: share of each
    query's frame behind a patch, whose place depends on the query alone; keypoints behind it count as before.

    Under `accelerate launch` every process must call this: each does a contiguous part of the episodes, so that few
    crops are needed by two of them, and all get the whole result, which does not depend on their number.
    """
    from accelerate.utils import gather_object

    state = processes()
    bounds = np.linspace(0, len(episodes), state.num_processes + 1).astype(int)
    share = episodes[bounds[state.process_index] : bounds[state.process_index + 1]]
    widest = max(category.K for category in dataset.categories)
    found: dict[str, list[Floats]] = {name: [np.empty((0, widest))] for name in methods}
    for _, same_category in groupby(share, key=lambda episode: dataset.instances[episode.supports[0]].category):
        features = Features(dataset, store, cover)
        for episode in same_category:
            for name, values in _run(dataset, episode, methods, features).items():
                found[name].append(np.pad(values, ((0, 0), (0, widest - values.shape[1])), constant_values=np.nan))
            if progress:
                progress(len(episode.queries))
    whole = {name: np.concatenate(gather_object([np.concatenate(values)])) for name, values in found.items()}
    table = np.array(pairs(episodes), dtype=np.int64)
    queries = [dataset.instances[index] for index in table[:, -1]]
    owner = np.array([query.category for query in queries], dtype=np.int64)
    scale = np.array([max(query.box[2:]) for query in queries], dtype=np.float64)
    labels = dataset.labels
    return {name: Result(dataset.name, labels, owner, table, values, scale) for name, values in whole.items()}


class Features:
    """Features of the objects of a category, in all pictures that were asked for (as float16, which is what the store
    rounds to). The oldest are let go when they get too many; they are computed, or read, again."""

    def __init__(self, dataset: Dataset, store: FeatureStore, cover: float = 0.0):
        self.dataset, self.store, self.size, self.cover = dataset, store, store.size, cover
        self.kept: dict[tuple[int, Picture, float], Tensor] = {}

    def crop(self, index: int, picture: Picture = PLAIN, cover: float = 0.0) -> Crop:
        instance = self.dataset.instances[index]
        whole = plain_crop(instance.image, instance.box, self.size, picture.scale)
        return (whole.covered(cover, (index,)) if cover else whole).seen(picture.view)

    def get(self, wanted: Sequence[tuple[int, Picture, float]]) -> Tensor:
        """(n, C, h, w)."""
        missing = [key for key in dict.fromkeys(wanted) if key not in self.kept]
        for start in range(0, len(missing), self.store.batch):
            part = missing[start : start + self.store.batch]
            # laid out alike, so that the same sums are made in the same order whatever the backbone
            maps = self.store.get([self.crop(*key) for key in part]).half().contiguous()
            self.kept |= zip(part, maps, strict=True)
        found = torch.stack([self.kept[key] for key in wanted]).float()
        room = MEMORY // (2 * found[0].numel())
        for key in list(self.kept)[: max(0, len(self.kept) - room)]:
            del self.kept[key]
        return found

    def shots(self, indices: Sequence[int], pictures: Sequence[Picture]) -> Shots:
        """As they were annotated."""
        return self._shots(indices, pictures, [self.dataset.instances[index].keypoints for index in indices], 0.0)

    def marked(self, indices: Sequence[int], pictures: Sequence[Picture], places: Tensor) -> Marked:
        """Queries as supports: places (Q, K, 2) in [0, 1] of their frames are taken for marks."""
        points, visible = [], []
        for index, found in zip(indices, places.double().numpy(), strict=True):
            pixels = apply(inverse(self.crop(index).transform), found * self.size[::-1])
            inside = (pixels >= 0) & (pixels <= image_size(self.dataset.instances[index].image))
            points.append(pixels.astype(np.float32))
            visible.append(np.logical_and.reduce(inside, axis=1))
        return Marked(self._shots(indices, pictures, points, self.cover), torch.from_numpy(np.stack(visible))[None])

    def _shots(
        self,
        indices: Sequence[int],
        pictures: Sequence[Picture],
        points: Sequence[NDArray[np.float32]],
        cover: float,
    ) -> Shots:
        """points (K, 2) of each, in pixels of its photo."""
        wanted = [(index, picture, cover) for picture in pictures for index in indices]
        placed = list(points) * len(pictures)
        places = [self.crop(*key).coordinates(of, self.size) for key, of in zip(wanted, placed, strict=True)]
        grid = (len(pictures), len(indices))
        return Shots(
            self.get(wanted).unflatten(0, grid)[None], torch.from_numpy(np.stack(places)).unflatten(0, grid)[None]
        )

    def queries(self, indices: Sequence[int], seen: Sequence[int]) -> Tensor:
        wanted = [(index, Picture(view), self.cover) for index in indices for view in seen]
        return self.get(wanted).unflatten(0, (len(indices), -1))


def _run(dataset: Dataset, episode: Episode, methods: Mapping[str, Method], features: Features) -> dict[str, Floats]:
    """Distances (Q, K) of one episode by every method."""
    queries = [dataset.instances[index] for index in episode.queries]
    usable = np.logical_and.reduce([dataset.instances[index].visible for index in episode.supports])
    return {
        name: np.stack([distances(one, query, usable) for one, query in zip(found, queries, strict=True)])
        for name, found in found_in_photos(dataset, episode, methods, features).items()
    }


@torch.inference_mode()
def found_in_photos(
    dataset: Dataset, episode: Episode, methods: Mapping[str, Method], features: Features
) -> dict[str, Floats]:
    """Where every method finds the keypoints of one episode: pixels (Q, K, 2) of the query photos."""
    supports = [dataset.instances[index] for index in episode.supports]
    queries = [dataset.instances[index] for index in episode.queries]
    category = dataset.category_of(supports[0])
    usable = np.logical_and.reduce([support.visible for support in supports])
    task = Task(
        lambda pictures: features.shots(episode.supports, pictures),
        lambda views: features.queries(episode.queries, views),
        torch.from_numpy(usable),
        torch.from_numpy(adjacency(category.edges, category.K)),
        torch.from_numpy(flip_index(category.K, category.symmetry)) if category.symmetry else None,
        lambda pictures, places: features.marked(episode.queries, pictures, places),
    )
    frame = np.array(features.size[::-1])  # (width, height)
    to_photo = [inverse(features.crop(query.index).transform) for query in queries]
    out: dict[str, Floats] = {}
    for name, method in methods.items():
        points = method(task).cpu().double().numpy() * frame
        if not np.isfinite(points[:, usable]).all():  # would pass for keypoints that do not count
            raise WeightsError(f"{name} gave coordinates that are not numbers; its weights are damaged or diverged")
        out[name] = np.stack([apply(back, found) for back, found in zip(to_photo, points, strict=True)])
    return out
