"""Running methods through the episodes: each crop through the backbone once, each episode's queries in one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgecape.data.crops import View
from edgecape.data.dataset import Dataset, Instance
from edgecape.data.features import Crop, FeatureStore
from edgecape.errors import WeightsError
from edgecape.evaluation.episodes import Episode, pairs
from edgecape.evaluation.metrics import Floats
from edgecape.evaluation.results import Result
from edgecape.geometry import apply, crop_transform, inverse
from edgecape.model.aspects import Shots
from edgecape.skeleton import adjacency, mirrored_order

if TYPE_CHECKING:
    from accelerate import PartialState


class Task(NamedTuple):
    """What a method gets of an episode; coordinates are (x, y) in [0, 1] of the frames."""

    features: Tensor  # (S, C, h, w), of the supports
    coordinates: Tensor  # (S, K, 2), in the supports
    visible: Tensor  # (K,) bool, in all supports
    prior: Tensor  # (K, K), adjacency
    query: Tensor  # (Q, C, h, w), features
    looks: Looks | None = None  # for methods that want to see more of the supports
    mirrored: Callable[[], Tensor] | None = None  # (Q, C, h, w), the queries as a mirror shows them
    order: Tensor | None = None  # (K,): which keypoint a mirror shows in the place of each one; None: nobody knows


Looks = Callable[[tuple[float, ...], bool, int], Shots]
"""Crop sizes relative to the usual one, whether to look in a mirror, and at how many quarter turns after that → all
supports at these sizes."""


Localiser = Callable[[Task], Tensor]
"""A method: coordinates (Q, K, 2) in [0, 1] of the query frames."""


def processes() -> PartialState:
    """The processes of this run; on its own PartialState overlooks `accelerate launch --cpu`."""
    from accelerate import PartialState
    from accelerate.utils import parse_flag_from_env

    return PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU"))


def plain_crop(instance: Instance, size: tuple[int, int], scale: float = 1.0) -> Crop:
    """The evaluation crop of an object, or a larger or smaller one."""
    return Crop(instance.image, View(crop_transform(instance.box, size, scale)))


def distances(predicted: Floats, query: Instance, usable: NDArray[np.bool_]) -> Floats:
    """Predicted photo pixels (K, 2) → distance to the truth relative to the longer side of the box, (K,); nan where
    the keypoint is not visible in the query or not usable because a support lacks it."""
    distance = np.linalg.norm(predicted - query.keypoints, axis=-1) / max(query.box[2:])
    return np.where(query.visible & usable, distance, np.nan)


def evaluate(
    dataset: Dataset,
    episodes: Sequence[Episode],
    localisers: Mapping[str, Localiser],
    store: FeatureStore,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Result]:
    """The result of every method on the same pairs; `progress` is told the number of pairs done.

    Under `accelerate launch` every process must call this: each does a contiguous part of the episodes, so that few
    crops are needed by two of them, and all get the whole result, which does not depend on their number.
    """
    from accelerate.utils import gather_object

    state = processes()
    bounds = np.linspace(0, len(episodes), state.num_processes + 1).astype(int)
    share = episodes[bounds[state.process_index] : bounds[state.process_index + 1]]
    widest = max(category.K for category in dataset.categories)
    found: dict[str, list[Floats]] = {name: [np.empty((0, widest))] for name in localisers}
    for _, same_category in groupby(share, key=lambda episode: dataset.instances[episode.supports[0]].category):
        part = list(same_category)
        features = _Features(dataset, part, store)
        for episode in part:
            for name, values in _run(dataset, episode, localisers, features).items():
                found[name].append(np.pad(values, ((0, 0), (0, widest - values.shape[1])), constant_values=np.nan))
            if progress:
                progress(len(episode.queries))
    whole = {name: np.concatenate(gather_object([np.concatenate(values)])) for name, values in found.items()}
    table = np.array(pairs(episodes), dtype=np.int64)
    queries = [dataset.instances[index] for index in table[:, -1]]
    owner = np.array([query.category for query in queries], dtype=np.int64)
    scale = np.array([max(query.box[2:]) for query in queries], dtype=np.float64)
    names = tuple(category.name for category in dataset.categories)
    return {name: Result(dataset.name, names, owner, table, values, scale) for name, values in whole.items()}


class _Features:
    """Feature maps of all objects of some episodes, in memory (as float16, which is what the store rounds to)."""

    def __init__(self, dataset: Dataset, episodes: Sequence[Episode], store: FeatureStore):
        members = sorted({index for episode in episodes for index in (*episode.supports, *episode.queries)})
        self.dataset, self.store, self.size = dataset, store, store.size
        self.crops = {index: plain_crop(dataset.instances[index], store.size) for index in members}
        crops = list(self.crops.values())
        parts = [store.get(crops[start : start + store.batch]).half() for start in range(0, len(crops), store.batch)]
        self.maps = torch.cat(parts).contiguous()  # the same sums in the same order, whatever a backbone's layout
        self.place = {index: row for row, index in enumerate(members)}

    def __getitem__(self, indices: Sequence[int]) -> Tensor:
        return self.maps[[self.place[index] for index in indices]].float()

    def shown(self, indices: Sequence[int], views: Sequence[View]) -> Tensor:
        """Where the keypoints of objects are in views of them: (n, K, 2)."""
        instances = [self.dataset.instances[index] for index in indices]
        placed = [view.coordinates(one.keypoints, self.size) for view, one in zip(views, instances, strict=True)]
        return torch.from_numpy(np.stack(placed))

    def look(self, indices: Sequence[int], sizes: tuple[float, ...], mirror: bool, turn: int = 0) -> Shots:
        """Objects at several crop sizes."""
        every = [index for index in indices for _ in sizes]
        crops = [plain_crop(self.dataset.instances[index], self.size, size) for index in indices for size in sizes]
        if mirror:
            crops = [replace(crop, view=crop.view.mirror_image(self.size)) for crop in crops]
        if turn:
            crops = [replace(crop, view=crop.view.turned(self.size, turn)) for crop in crops]
        return Shots(self.store.get(crops)[None], self.shown(every, [crop.view for crop in crops])[None])


@torch.inference_mode()
def _run(
    dataset: Dataset, episode: Episode, localisers: Mapping[str, Localiser], features: _Features
) -> dict[str, Floats]:
    """Distances (Q, K) of one episode by every method."""
    supports = [dataset.instances[index] for index in episode.supports]
    queries = [dataset.instances[index] for index in episode.queries]
    category = dataset.category_of(supports[0])
    usable = np.logical_and.reduce([support.visible for support in supports])
    task = Task(
        features[episode.supports],
        features.shown(episode.supports, [features.crops[index].view for index in episode.supports]),
        torch.from_numpy(usable),
        torch.from_numpy(adjacency(category.edges, category.K)),
        features[episode.queries],
        cache(partial(features.look, episode.supports)),  # several methods may ask
        cache(lambda: features.look(episode.queries, (1.0,), True).features[0]),
        torch.tensor(mirrored_order(category.K, category.symmetry)) if category.symmetry else None,
    )
    frame = np.array(features.size[::-1])  # (width, height)
    to_photo = [inverse(features.crops[query.index].view.transform) for query in queries]
    out: dict[str, Floats] = {}
    for name, localise in localisers.items():
        points = localise(task).cpu().double().numpy() * frame
        if not np.isfinite(points[:, usable]).all():  # would pass for keypoints that do not count
            raise WeightsError(f"{name} gave coordinates that are not numbers; its weights are damaged or diverged")
        out[name] = np.stack(
            [
                distances(apply(back, found), query, usable)
                for back, found, query in zip(to_photo, points, queries, strict=True)
            ]
        )
    return out
