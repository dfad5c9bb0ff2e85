"""Training episodes: a few supports and a query with the same keypoints: annotated, self-supervised or pseudo-labelled.

Every choice is drawn from (seed, epoch, position in the epoch): an epoch can be entered anywhere and two processes can
share it, and nothing about the state of a random generator has to be saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgecape.data.crops import AugmentSettings, Crop, augmented_crop, inside, plain_crop
from edgecape.data.dataset import Dataset, Instance, definition_of
from edgecape.data.features import FeatureStore
from edgecape.errors import DataError, SettingsError
from edgecape.matching.views import MIRRORED
from edgecape.model import graph
from edgecape.skeleton import adjacency, flip_index, fully_connected
from edgecape.training.pseudo_labels import PseudoLabels, face_differently


@dataclass(frozen=True)
class EpisodeSettings:
    shots: tuple[int, ...] = (1,)
    """Supports of an episode; of several numbers every step draws one, so that one model serves one and many."""
    balance: Literal["category", "definition", "root"] = "category"
    """Draw every category equally often (paper); or every keypoint definition, then one of its categories; or a
    definition as often as the square root of how many categories have it."""
    shares: dict[str, float] = field(default_factory=dict)
    """Share of episodes that a super-category has, whatever balance says; the others share the rest."""
    steps_per_epoch: int = 0
    """0: every category is drawn as often as the largest one has objects (paper)."""
    self_supervised: float = 0.0
    """Share of episodes made of two views of one photo with random points on the object and a random graph."""
    pseudo_labelled: float = 0.0
    """Share of episodes made of two objects of a category with random points that pseudo-labels join, and a random
    graph; annotated instead where a category has no pseudo-labels."""
    points: tuple[int, int] = (5, 24)
    """Fewest and most points of a self-supervised or pseudo-labelled episode."""
    subset: float = 0.0
    """Probability that an annotated episode keeps only a random part of its keypoints."""
    most_keypoints: int = 0
    """Keep only so many keypoints of an annotated episode, drawn at random; 0: all."""
    between: float = 0.0
    """Share of an annotated episode's edges that get a new keypoint between their ends (FMMP's linked mixing)."""
    edge_noise: float = 0.0
    """Probability that an episode's skeleton gets wrong edges, loses some, or is replaced by the full graph."""
    most_objects: int = 0
    """Use only so many objects of a category, the first in the file; 0: all."""
    views: int = 0
    """Crops per object, shared by all epochs and seeds, so that features can be cached: the first is the crop as it is
    evaluated, the others are augmented; 0: new augmented crops every time."""
    match_facing: bool = False
    """Mirror supports that face another way than the query: every third view is the mirror image of the one two before
    it. For networks that look at mirrored supports too."""
    cover: float = 0.0
    """Hide so much of the frame behind a patch in the last of an object's views, which only queries are seen in."""
    augment: AugmentSettings = field(default_factory=AugmentSettings)


class Batch(NamedTuple):
    """B episodes, padded to the largest K among them."""

    query: Tensor  # (B, …), what `Backbone.lower` gave: without LoRA, features (B, C, h, w)
    support: Tensor  # (B, S, …), the same
    coordinates: Tensor  # (B, S, K, 2) of the supports, in [0, 1]
    visible: Tensor  # (B, K) bool, in all supports (as the protocol drops the others)
    prior: Tensor  # (B, K, K)
    target: Tensor  # (B, K, 2) of the query, in [0, 1]
    weight: Tensor  # (B, K) bool: usable in query and supports

    def to(self, device: torch.device) -> Batch:
        return Batch(*(tensor.to(device) for tensor in self))


class _Episode(NamedTuple):
    supports: list[Crop]
    query: Crop
    coordinates: NDArray[np.float32]  # (S, K, 2)
    visible: NDArray[np.bool_]  # (K,)
    prior: Tensor  # (K, K)
    target: NDArray[np.float32]  # (K, 2)
    target_visible: NDArray[np.bool_]  # (K,)


class EpisodeSampler:
    """Draws episodes from a data set and turns them into batches of features."""

    def __init__(
        self,
        dataset: Dataset,
        store: FeatureStore,
        settings: EpisodeSettings,
        seed: int = 0,
        labels: PseudoLabels | None = None,
    ):
        """labels: needed for pseudo-labelled episodes, and for these only."""
        self.dataset, self.store, self.settings, self.seed = dataset, store, settings, seed
        self.labels = labels
        self.labelled = {} if labels is None else labels.by_category(dataset, fewest=settings.points[0])
        needed = max(settings.shots) + 1
        most = settings.most_objects or None
        self.members = [members[:most] for members in dataset.by_category]
        self.usable = [index for index, members in enumerate(self.members) if len(members) >= needed]
        if not self.usable:
            raise DataError(
                f"no category of {dataset.name} has {needed} objects, which {needed - 1} shots and a query need; "
                "use fewer shots or more data"
            )
        definitions: dict[tuple[object, ...], list[int]] = {}
        for index in self.usable:
            definitions.setdefault(definition_of(dataset.categories[index]), []).append(index)
        self.definitions = list(definitions.values())
        self.often = how_often(dataset, self.definitions, settings)

    def steps(self, batch: int) -> int:
        """Steps of one epoch with a global batch size."""
        if self.settings.steps_per_epoch:
            return self.settings.steps_per_epoch
        largest = max(len(self.members[index]) for index in self.usable)
        return max(1, len(self.usable) * largest // batch)

    def order(self, epoch: int, length: int) -> NDArray[np.int64]:
        """The category of each episode of an epoch."""
        rng = np.random.default_rng((self.seed, epoch, 0))
        if self.often is not None:
            drawn = rng.choice(len(self.often), size=length, p=self.often)
            return np.array([rng.choice(self.definitions[index]) for index in drawn])
        rounds = -(-length // len(self.usable))
        return np.concatenate([rng.permutation(self.usable) for _ in range(rounds)])[:length]

    def shots(self, epoch: int, step: int) -> int:
        """Supports of the episodes of a step, the same in all processes."""
        return int(np.random.default_rng((self.seed, epoch, 3, step)).choice(self.settings.shots))

    def batch(self, epoch: int, categories: NDArray[np.int64], start: int, shots: int = 1) -> Batch:
        """Episodes `start`, `start` + 1, … of an epoch, one for each of `categories`."""
        return self.collate([self.draw(epoch, start + i, int(c), shots) for i, c in enumerate(categories)])

    def draw(self, epoch: int, position: int, category: int, shots: int = 1) -> _Episode:
        rng = np.random.default_rng((self.seed, epoch, 1, position))
        kind = rng.random()
        if kind < self.settings.self_supervised:
            return self._self_supervised(rng, category, shots)
        if kind < self.settings.self_supervised + self.settings.pseudo_labelled and category in self.labelled:
            return self._pseudo_labelled(rng, category, shots)
        return self._annotated(rng, category, shots)

    # --- one episode -------------------------------------------------------------------------------------

    def _crop(
        self,
        instance: Instance,
        rng: np.random.Generator,
        mirrored: bool | None = None,
        avoid: int = -1,
        query: bool = False,
    ) -> tuple[Crop, int]:
        """A crop of an object other than number `avoid`, and its number; mirrored: whether it must be; query: whether
        it may be covered."""
        numbers = np.arange(self.settings.views) if self.settings.views else rng.integers(2**31, size=16)
        allowed = [
            n
            for n in numbers.tolist()
            if n != avoid and mirrored in (None, self._is_mirror_image(n)) and (query or not self._is_covered(n))
        ]
        number = int(rng.choice(allowed))
        return self._numbered_crop(instance, number), number

    def _is_mirror_image(self, number: int) -> bool:
        return self.settings.match_facing and number % 3 == 2

    def _is_covered(self, number: int) -> bool:
        return self.settings.cover > 0 and number == self.settings.views - 1

    def _numbered_crop(self, instance: Instance, number: int) -> Crop:
        settings, symmetric = self.settings, bool(self.dataset.category_of(instance).symmetry)
        if self._is_mirror_image(number):
            return self._numbered_crop(instance, number - 2).seen(MIRRORED)
        where = (instance.image, instance.box, self.store.size)
        if settings.views and number == 0:
            return plain_crop(*where)
        seed = 0 if settings.views else self.seed  # what is cached serves every run
        crop = augmented_crop(*where, settings.augment, seed, instance.index, number, symmetric)
        if self._is_covered(number):
            return crop.covered(settings.cover, (seed, instance.index, number, 3))
        return crop

    def _facing_crops(self, supports: list[Instance], query: Instance, rng: np.random.Generator) -> list[Crop]:
        """Of supports and query; supports face the way of the query if they are to."""
        seen, number = self._crop(query, rng, query=True)
        crops = []
        for support in supports:
            away = self.settings.match_facing and face_differently(support, query)
            crops.append(self._crop(support, rng, mirrored=self._is_mirror_image(number) != away)[0])
        return [*crops, seen]

    def _annotated(self, rng: np.random.Generator, category: int, shots: int) -> _Episode:
        chosen = rng.choice(self.members[category], size=shots + 1, replace=False)
        instances = [self.dataset.instances[index] for index in chosen]
        crops = self._facing_crops(instances[:-1], instances[-1], rng)
        size = self.store.size
        placed = np.stack([crop.coordinates(one.keypoints, size) for crop, one in zip(crops, instances, strict=True)])
        shown = np.stack([instance.visible for instance in instances]) & inside(placed)
        flip = flip_index(placed.shape[1], self.dataset.categories[category].symmetry)
        for row, crop in enumerate(crops):
            if crop.swapped:
                placed[row], shown[row] = placed[row, flip], shown[row, flip]
        prior = torch.from_numpy(adjacency(self.dataset.categories[category].edges, placed.shape[1]))
        K, most = placed.shape[1], self.settings.most_keypoints
        keep: NDArray[np.int64] = np.arange(K)
        if rng.random() < self.settings.subset and K > 4:
            keep = rng.permutation(K)[: rng.integers(4, K + 1)]
        if most and len(keep) > most:
            keep = rng.permutation(keep)[:most]
        keep.sort()
        placed, shown, prior = placed[:, keep], shown[:, keep], prior[keep][:, keep]
        if self.settings.between:
            placed, shown, prior = with_points_between(placed, shown, prior, self.settings.between, rng)
        return self._episode(crops, placed, shown, self._noisy(prior, rng))

    def _self_supervised(self, rng: np.random.Generator, category: int, shots: int) -> _Episode:
        """Two crops of one photo: exact correspondences and a new definition every time."""
        instance = self.dataset.instances[int(rng.choice(self.members[category]))]
        query, number = self._crop(instance, rng, mirrored=False, query=True)
        crops = [self._crop(instance, rng, mirrored=False, avoid=number)[0] for _ in range(shots)] + [query]
        x, y, w, h = instance.box
        low, high = self.settings.points
        points = rng.random((int(rng.integers(low, high + 1)), 2)) * (w, h) + (x, y)
        placed = np.stack([crop.coordinates(points.astype(np.float32), self.store.size) for crop in crops])
        return self._episode(crops, placed, inside(placed), self._noisy(random_graph(points, rng), rng))

    def _pseudo_labelled(self, rng: np.random.Generator, category: int, shots: int) -> _Episode:
        """Two objects and points that pseudo-labels join; all supports are crops of the one."""
        assert self.labels is not None  # the category has some
        pair = int(rng.choice(self.labelled[category]))
        one, other = (self.dataset.instances[index] for index in self.labels.pairs[pair])
        crops = self._facing_crops([one] * shots, other, rng)
        low, high = self.settings.points
        joined = rng.permutation(self.labels.of(pair))[: rng.integers(low, high + 1)]  # (n, 2, 2)
        ends = [joined[:, 0]] * shots + [joined[:, 1]]
        placed = np.stack([crop.coordinates(end, self.store.size) for crop, end in zip(crops, ends, strict=True)])
        return self._episode(crops, placed, inside(placed), self._noisy(random_graph(joined[:, 0], rng), rng))

    def _episode(
        self, crops: list[Crop], placed: NDArray[np.float32], shown: NDArray[np.bool_], prior: Tensor
    ) -> _Episode:
        """Of supports and query: where (S + 1, K, 2) their keypoints are and whether they can be seen."""
        seen = np.logical_and.reduce(shown[:-1])
        return _Episode(crops[:-1], crops[-1], placed[:-1], seen, prior, placed[-1], shown[-1])

    def _noisy(self, prior: Tensor, rng: np.random.Generator) -> Tensor:
        if rng.random() >= self.settings.edge_noise:
            return prior
        generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
        kind = rng.integers(3)
        if kind == 0:
            return graph.add_random_edges(prior, generator, int(rng.integers(1, 9)))
        if kind == 1:
            return graph.drop_random_edges(prior, generator, 0.3)
        return torch.from_numpy(fully_connected(len(prior)))

    # --- a batch -----------------------------------------------------------------------------------------

    def collate(self, episodes: list[_Episode]) -> Batch:
        K = max(len(episode.target) for episode in episodes)
        crops = [crop for episode in episodes for crop in (*episode.supports, episode.query)]
        lower = self.store.lower(crops).unflatten(0, (len(episodes), -1))

        def padded(values: list[NDArray[np.generic] | Tensor], *axes: int) -> Tensor:
            tensors = [torch.as_tensor(value) for value in values]
            out = torch.zeros(len(tensors), *(K if a in axes else n for a, n in enumerate(tensors[0].shape)))
            for row, tensor in zip(out, tensors, strict=True):
                row[tuple(slice(n) for n in tensor.shape)] = tensor
            return out

        visible = padded([episode.visible for episode in episodes], 0) > 0
        return Batch(
            query=lower[:, -1],
            support=lower[:, :-1],
            coordinates=padded([episode.coordinates for episode in episodes], 1),
            visible=visible,
            prior=padded([episode.prior for episode in episodes], 0, 1),
            target=padded([episode.target for episode in episodes], 0),
            weight=visible & (padded([episode.target_visible for episode in episodes], 0) > 0),
        )

    def crops(self, number: int) -> list[Crop]:
        """One crop of every object in use."""
        return [self._numbered_crop(self.dataset.instances[i], number) for i in np.concatenate(self.members)]


def how_often(
    dataset: Dataset, definitions: Sequence[Sequence[int]], settings: EpisodeSettings
) -> NDArray[np.float64] | None:
    """Share of episodes that each definition has; None: every category has the same."""
    if settings.balance == "category":
        if settings.shares:
            raise SettingsError("shares of super-categories need balance 'definition' or 'root', not 'category'")
        return None
    often = np.array([len(categories) for categories in definitions]) ** (0.5 if settings.balance == "root" else 0.0)
    owners = np.array([dataset.categories[categories[0]].supercategory or "" for categories in definitions])
    rest = ~np.isin(owners, list(settings.shares))
    left = round(1.0 - sum(settings.shares.values()), 9)
    if min(settings.shares.values(), default=0.0) < 0 or left < 0 or (left > 0 and not rest.any()):
        raise SettingsError(f"shares of super-categories, {settings.shares}, and of the rest, {left:g}, cannot be had")
    for name, share in settings.shares.items():
        if name not in owners:
            raise SettingsError(f"{dataset.name} has no super-category '{name}' to draw for {share:.0%} of episodes")
        often[owners == name] *= share / often[owners == name].sum()
    often[rest] *= left / max(often[rest].sum(), 1e-12)
    return np.asarray(often / often.sum())


def with_points_between(
    placed: NDArray[np.float32], shown: NDArray[np.bool_], prior: Tensor, share: float, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.bool_], Tensor]:
    """A share of the edges gets a keypoint between its ends, at the same part of the way in all S + 1 pictures: where
    (S + 1, K, 2) keypoints are and whether they can be seen, and the skeleton, through the new points."""
    i, j = (ends.numpy() for ends in torch.nonzero(torch.triu(prior), as_tuple=True))
    chosen = rng.random(len(i)) < share
    i, j, K = i[chosen], j[chosen], len(prior)
    part = rng.uniform(0.25, 0.75, (len(i), 1)).astype(np.float32)
    middle = (1 - part) * placed[:, i] + part * placed[:, j]
    new = np.arange(K, K + len(i))
    edges = torch.zeros(K + len(i), K + len(i))
    edges[:K, :K] = prior
    edges[i, j] = edges[j, i] = 0.0
    for ends in (i, j):
        edges[ends, new] = edges[new, ends] = 1.0
    return np.concatenate((placed, middle), axis=1), np.concatenate((shown, shown[:, i] & shown[:, j]), axis=1), edges


def random_graph(points: NDArray[np.floating], rng: np.random.Generator) -> Tensor:
    """Each point joined to its nearest earlier one (a tree), and a few more short edges, as people draw skeletons."""
    K = len(points)
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    edges = [(k, int(distance[k, :k].argmin())) for k in range(1, K)]
    for k in np.flatnonzero(rng.random(K) < 0.3):
        near = np.argsort(distance[k])[1:4]
        edges += [(int(k), int(rng.choice(near)))] if len(near) else []
    return torch.from_numpy(adjacency(edges, K))
