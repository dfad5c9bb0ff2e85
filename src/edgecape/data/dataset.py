"""A keypoint data set in memory: categories with their definitions, and objects in file order."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgecape.errors import DataError
from edgecape.io.coco import Category
from edgecape.types import Box


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

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the categories, with their ids where several share one: MP-100 has two called face."""
        names = [category.name for category in self.categories]
        return tuple(
            name if names.count(name) == 1 else f"{name} ({category.id})"
            for name, category in zip(names, self.categories, strict=True)
        )

    def category_of(self, instance: Instance) -> Category:
        return self.categories[instance.category]

    def subset(self, categories: Sequence[int], keep: Callable[[Instance], bool] = lambda instance: True) -> Dataset:
        """Only these categories (by index) and the instances to `keep`, in file order; instances are numbered anew."""
        kept = sorted(set(categories))
        place = {old: new for new, old in enumerate(kept)}
        chosen = [instance for instance in self.instances if instance.category in place and keep(instance)]
        instances = tuple(
            replace(instance, index=index, category=place[instance.category]) for index, instance in enumerate(chosen)
        )
        return Dataset(self.name, tuple(self.categories[index] for index in kept), instances, self.notes)


def joined(datasets: Sequence[Dataset]) -> Dataset:
    """Several data sets as one: categories and objects one after the other, numbered anew."""
    categories: list[Category] = []
    instances: list[Instance] = []
    for dataset in datasets:
        offset = len(categories)
        instances += [
            replace(instance, index=len(instances) + number, category=offset + instance.category)
            for number, instance in enumerate(dataset.instances)
        ]
        categories += dataset.categories
    name = " + ".join(dataset.name for dataset in datasets)
    notes = tuple(note for dataset in datasets for note in dataset.notes)
    return Dataset(name, tuple(categories), tuple(instances), notes)


@dataclass(frozen=True)
class Coverage:
    """On how much of a benchmark a number stands."""

    categories: int  # that have objects
    categories_total: int
    instances: int
    instances_total: int

    def __str__(self) -> str:
        share = self.instances / max(self.instances_total, 1)
        return (
            f"{self.categories} of {self.categories_total} categories, "
            f"{self.instances} of {self.instances_total} objects ({share:.1%})"
        )


def find_categories(dataset: Dataset, wanted: Sequence[str]) -> list[int]:
    """Indices of the categories with these names or ids; a name that several categories share finds them all."""
    found: list[int] = []
    for value in wanted:
        hits = [i for i, category in enumerate(dataset.categories) if value in (category.name, str(category.id))]
        if not hits:
            names = sorted({category.name for category in dataset.categories})
            near = difflib.get_close_matches(value, names, n=3) or names[:8]
            raise DataError(f"{dataset.name} has no category {value!r}; did you mean {', '.join(near)}?")
        found += hits
    return found


def usable(dataset: Dataset, categories: Sequence[str] = (), skip_missing: bool = False) -> frozenset[int]:
    """Indices of the objects of the named categories (all if none is named) and, with `skip_missing`, only of those
    whose image exists."""
    chosen = set(find_categories(dataset, categories)) if categories else set(range(len(dataset.categories)))
    candidates = [instance for instance in dataset.instances if instance.category in chosen]
    exists = {path: path.is_file() for path in {i.image for i in candidates}} if skip_missing else {}
    allowed = frozenset(instance.index for instance in candidates if exists.get(instance.image, True))
    if not allowed:
        why = f"no image is there, for example {candidates[0].image}" if candidates else "there is none"
        raise DataError(f"no object of {dataset.name} can be used: {why}")
    return allowed


def coverage(dataset: Dataset, allowed: Collection[int]) -> Coverage:
    kept = {dataset.instances[index].category for index in allowed}
    return Coverage(len(kept), len(dataset.categories), len(allowed), len(dataset.instances))


def definition_of(category: Category) -> tuple[object, ...]:
    """What makes two categories the same to label: the names of their keypoints, or the category itself."""
    if category.names is None or all(name.isdigit() for name in category.names):
        return (category.name, category.K)
    return category.names
