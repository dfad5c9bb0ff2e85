"""Pseudo-labels: where any point of one object lies on another of its category.

Annotated keypoints are few, and features that learn from them alone learn them by heart. Between two annotated objects
every other point can teach as well. The keypoints that both show, the *guides*, say about where it must be, by a map
that is affine near each point and drawn towards the one that fits all of them; the features say where exactly. A label
is kept if the way back leads to where it came from, both ends look alike, and a guide is near.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from edgecape.data.crops import inside, plain_crop
from edgecape.data.dataset import Dataset, Instance
from edgecape.data.features import FeatureStore
from edgecape.errors import DataError
from edgecape.geometry import apply, inverse
from edgecape.io.files import atomic_path
from edgecape.matching.alignment import is_mirrored, linear_map
from edgecape.matching.views import MIRRORED, UPRIGHT, transform
from edgecape.model.network import Network
from edgecape.model.proposals import cell_centres, locate

FEWEST_GUIDES = 4  # three fit any affine map, and say nothing of how well it fits


@dataclass(frozen=True)
class LabelSettings:
    """Distances are in frame sides."""

    pairs: int = 48
    """Most pairs of a category; else as many as it has objects."""
    likeness: float = 0.5
    """Least cosine of both ends of a label."""
    returns: float = 0.06
    """Farthest that the way back may miss: a cell."""
    near: float = 0.15
    """Farthest from a guide."""
    reach: float = 0.15
    """Deviation of the weight of guides round a point."""
    spread: tuple[float, float] = (0.04, 0.3)
    """Deviation of a point from where guides expect it, besides their own: on a guide, and per distance from it."""
    logit_scale: float = 30.0
    """Of the cosine, beside what guides expect."""


class Dense(NamedTuple):
    """What becomes of every cell (hw) of one object on another."""

    places: Tensor  # (hw, 2), in [0, 1] of the other frame
    kept: Tensor  # (hw,) bool


def expected(points: Tensor, guides: Tensor, others: Tensor, settings: LabelSettings) -> tuple[Tensor, Tensor]:
    """Where points (N, 2) must be if guides (G, 2) are at others (G, 2): (N, 2), and how far off that may be (N,)."""
    linear, here, there = linear_map(guides[None], others[None], torch.ones(1, len(guides)))
    points, guides = ((x - here[0]) @ linear[0] + there[0] for x in (points, guides))  # what is left is near to none
    away = (points[:, None] - guides).square().sum(dim=-1)  # (N, G)
    nearest = away.amin(dim=1, keepdim=True)
    weight = torch.exp((nearest - away) / (2 * settings.reach**2))
    guides, others = (x.expand(len(points), -1, -1) for x in (guides, others))
    linear, here, there = linear_map(guides, others, weight)
    off = ((guides - here) @ linear + there - others).square().sum(dim=-1) / 2
    least, more = settings.spread
    variance = (weight * off).sum(dim=1) / weight.sum(dim=1) + least**2 + more**2 * nearest[:, 0]
    return ((points[:, None] - here) @ linear + there)[:, 0], variance.sqrt()


def dense_match(similarity: Tensor, guides: Tensor, others: Tensor, settings: LabelSettings) -> Dense:
    """similarity (h, w, h, w): cosine of all cells of one frame with all of the other; guides, others (G, 2): the same
    keypoints in both."""
    h, w = similarity.shape[:2]
    centres = cell_centres(h, w)

    def found(cosine: Tensor, guides: Tensor, others: Tensor) -> Tensor:
        """Where all cells are on the other frame (hw, 2), by cosines (hw, hw)."""
        places, deviation = expected(centres, guides, others, settings)
        away = (centres - places[:, None]).square().sum(dim=-1)
        logits = settings.logit_scale * cosine - away / (2 * deviation[:, None] ** 2)
        return locate(logits.unflatten(-1, (h, w))[None]).peak[0]

    cosine = similarity.flatten(2).flatten(0, 1)
    places, back = found(cosine, guides, others), found(cosine.T, others, guides)
    returned = _sample(back.T.unflatten(-1, (h, w)), places).T
    alike = _sample(similarity.flatten(0, 1), places).diagonal()
    nearest = (centres[:, None] - guides).norm(dim=-1).amin(dim=1)
    missed = (returned - centres).norm(dim=-1)
    return Dense(places, (missed < settings.returns) & (alike > settings.likeness) & (nearest < settings.near))


def _sample(maps: Tensor, places: Tensor) -> Tensor:
    """Maps (C, h, w) at places (N, 2) in [0, 1], between cells: (C, N)."""
    grid = (2 * places - 1)[None, None]
    return F.grid_sample(maps[None], grid, padding_mode="border", align_corners=False)[0, :, 0]


def face_differently(one: Instance, other: Instance) -> bool:
    """Whether an object lies as in a mirror to another, by the keypoints that both show."""
    places, others = (torch.from_numpy(x.keypoints / max(x.box[2:]))[None] for x in (one, other))
    return bool(is_mirrored(places, others, torch.from_numpy(one.visible & other.visible)[None]))


class PseudoLabels(NamedTuple):
    pairs: NDArray[np.int64]  # (P, 2), objects by index
    bounds: NDArray[np.int64]  # (P + 1,), of each pair's labels
    points: NDArray[np.float32]  # (N, 2, 2), of labels: on both objects, in pixels of their photos

    def of(self, pair: int) -> NDArray[np.float32]:
        return self.points[self.bounds[pair] : self.bounds[pair + 1]]

    def by_category(self, dataset: Dataset, fewest: int) -> dict[int, list[int]]:
        """Pairs of each category that have so many labels or more."""
        found: dict[int, list[int]] = {}
        for pair, (one, _) in enumerate(self.pairs):
            if self.bounds[pair + 1] - self.bounds[pair] >= fewest:
                found.setdefault(dataset.instances[one].category, []).append(pair)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        with atomic_path(path) as temporary:
            np.savez_compressed(temporary, pairs=self.pairs, bounds=self.bounds, points=self.points)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PseudoLabels:
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(*(file[name] for name in cls._fields))
        except (OSError, ValueError, KeyError) as error:
            raise DataError(
                f"{Path(path)} does not hold pseudo-labels ({error}); remove it, and it is made anew"
            ) from None


def pairs_of(members: Sequence[int], most: int, seed: tuple[int, ...]) -> list[tuple[int, int]]:
    """Objects side by side in a random round: each is once the first and once the second of a pair."""
    order = np.random.default_rng(seed).permutation(members).tolist()
    return list(zip(order, order[1:] + order[:1], strict=True))[:most] if len(order) > 1 else []


@torch.inference_mode()
def make_labels(
    dataset: Dataset,
    members: Sequence[NDArray[np.int64]],
    network: Network,
    store: FeatureStore,
    settings: LabelSettings,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> PseudoLabels:
    """Labels of pairs of each category's `members`, by features as the network sees them; store: with its LoRA.
    progress: told categories done and all of them."""
    pairs: list[tuple[int, int]] = []
    points: list[NDArray[np.float32]] = [np.empty((0, 2, 2), np.float32)]
    for done, objects in enumerate(members, start=1):
        for pair in pairs_of(objects.tolist(), settings.pairs, (seed, done)):
            one, other = (dataset.instances[index] for index in pair)
            pairs.append(pair)
            points.append(_labels(one, other, network, store, settings))
        if progress is not None:
            progress(done, len(members))
    bounds = np.cumsum([len(part) for part in points])
    return PseudoLabels(np.array(pairs, np.int64).reshape(-1, 2), bounds, np.concatenate(points))


def _labels(
    one: Instance, other: Instance, network: Network, store: FeatureStore, settings: LabelSettings
) -> NDArray[np.float32]:
    """(n, 2, 2), in pixels of both photos."""
    size, shared = store.size, one.visible & other.visible
    if shared.sum() < FEWEST_GUIDES:
        return np.empty((0, 2, 2), np.float32)
    view = MIRRORED if face_differently(one, other) else UPRIGHT
    crops = [plain_crop(one.image, one.box, size).seen(view), plain_crop(other.image, other.box, size)]
    guides = np.stack([c.coordinates(o.keypoints, size) for c, o in zip(crops, (one, other), strict=True)])
    shared &= inside(guides).all(axis=0)
    if shared.sum() < FEWEST_GUIDES:
        return np.empty((0, 2, 2), np.float32)
    cells = F.normalize(network.query_cells(store.get(crops).to(network.mask_token.device)), dim=1).cpu()
    similarity = torch.einsum("dij,dkl->ijkl", *cells)
    here, there = torch.from_numpy(guides[:, shared])
    places, kept = dense_match(similarity, here, there, settings)
    centres = cell_centres(*similarity.shape[:2])
    frame = np.array(size[::-1])
    found = [
        apply(inverse(transform(crop.view, size) @ crop.transform), where[kept].double().numpy() * frame)
        for crop, where in zip(crops, (centres, places), strict=True)
    ]
    return np.stack(found, axis=1).astype(np.float32)
