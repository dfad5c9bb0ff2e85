"""A keypoint data set in memory: categories with their definitions, and objects in file order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgecape.types import Box


@dataclass(frozen=True)
class Category:
    """A kind of object and its keypoint definition."""

    id: int
    name: str
    K: int
    edges: tuple[tuple[int, int], ...]  # 0-based
    names: tuple[str, ...] | None = None  # of the keypoints
    supercategory: str | None = None


@dataclass(frozen=True, eq=False)
class Instance:
    """One annotated object; its index is its place in the protocol's order."""

    index: int
    category: int  # index into Dataset.categories
    image: Path
    box: Box  # clipped as the protocol does it
    keypoints: NDArray[np.float32]  # (K, 2), 0 where not visible
    visible: NDArray[np.bool_]  # (K,)
    annotation_id: int = 0


@dataclass(frozen=True, eq=False)
class Dataset:
    name: str
    categories: tuple[Category, ...]  # file order
    instances: tuple[Instance, ...]  # file order
    notes: tuple[str, ...] = ()  # what the reader decided or skipped
    by_category: tuple[NDArray[np.int64], ...] = field(init=False)  # indices of each category's instances

    def __post_init__(self) -> None:
        owner = np.array([instance.category for instance in self.instances], dtype=np.int64)
        grouped = tuple(np.flatnonzero(owner == index) for index in range(len(self.categories)))
        object.__setattr__(self, "by_category", grouped)

    def category_of(self, instance: Instance) -> Category:
        return self.categories[instance.category]

    def subset(self, categories: Sequence[int]) -> Dataset:
        """Only these categories (by index), in file order; instances are numbered anew."""
        keep = sorted(set(categories))
        place = {old: new for new, old in enumerate(keep)}
        chosen = [instance for instance in self.instances if instance.category in place]
        instances = tuple(
            Instance(
                index, place[old.category], old.image, old.box, old.keypoints, old.visible, old.annotation_id
            )
            for index, old in enumerate(chosen)
        )
        return Dataset(self.name, tuple(self.categories[index] for index in keep), instances, self.notes)
