"""Groups of categories that are reported apart: name → indices of categories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgecape.data.dataset import Dataset, definition_of
from edgecape.data.objects import read_coco
from edgecape.errors import DataError

CATEGORY, SUPERCATEGORY = "category ", "supercategory "  # prefixes of names: MP-100 has "face" as both


def everything(dataset: Dataset) -> dict[str, list[int]]:
    return {"all": list(range(len(dataset.categories)))}


def each_category(labels: Sequence[str]) -> dict[str, list[int]]:
    return {CATEGORY + label: [index] for index, label in enumerate(labels)}


def each_supercategory(dataset: Dataset) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for index, category in enumerate(dataset.categories):
        if category.supercategory:
            groups.setdefault(SUPERCATEGORY + category.supercategory, []).append(index)
    return groups


def chosen_supercategories(dataset: Dataset, definitions: Sequence[str]) -> dict[str, list[int]]:
    """Groups given as NAME=SUPERCATEGORY,… or just SUPERCATEGORY, and "rest" for all that is in none of them."""
    by_super = each_supercategory(dataset)
    groups: dict[str, list[int]] = {}
    for definition in definitions:
        name, _, members = definition.partition("=")
        groups[name] = []
        for member in (members or name).split(","):
            if SUPERCATEGORY + member not in by_super:
                known = ", ".join(by_super).replace(SUPERCATEGORY, "") or "none"
                raise DataError(f"group '{definition}' names supercategory '{member}'; {dataset.name} has {known}")
            groups[name] += by_super[SUPERCATEGORY + member]
    taken = {index for members in groups.values() for index in members}
    return {**groups, "rest": [index for index in range(len(dataset.categories)) if index not in taken]}


def known_definitions(dataset: Dataset, train: Dataset) -> NDArray[np.bool_]:
    """Of which categories some training category has the keypoint definition: on these a network has met the keypoints
    in training, and only the kind of object is new."""
    met = {definition_of(category) for category in train.categories}
    return np.array([definition_of(category) in met for category in dataset.categories])


def known_and_new(dataset: Dataset, train: Dataset) -> dict[str, list[int]]:
    known = known_definitions(dataset, train)
    return {"known definition": np.flatnonzero(known).tolist(), "new definition": np.flatnonzero(~known).tolist()}


def overview(dataset: Dataset, train: Path | None) -> dict[str, list[int]]:
    """All categories and, if there is a training file, those with known and new definitions apart."""
    return everything(dataset) | (known_and_new(dataset, read_coco(train, train.parent)) if train else {})


def breakdown(dataset: Dataset, chosen: Sequence[str], train: Path | None) -> dict[str, list[int]]:
    """All that a report has: what is asked for, then super-categories if there are several, and every category."""
    by_super = each_supercategory(dataset)
    return {
        **everything(dataset),
        **(chosen_supercategories(dataset, chosen) if chosen else {}),
        **overview(dataset, train),
        **(by_super if len(by_super) > 1 else {}),
        **each_category(dataset.labels),
    }
