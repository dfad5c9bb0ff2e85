"""Groups of categories that are reported apart."""

from __future__ import annotations

from collections.abc import Sequence

from edgecape.data.dataset import Dataset
from edgecape.data.episodes import definition_of
from edgecape.errors import DataError


def everything(dataset: Dataset) -> dict[str, list[int]]:
    return {"all": list(range(len(dataset.categories)))}


def each_category(dataset: Dataset) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for index, category in enumerate(dataset.categories):
        # two MP-100 categories are called face
        name = category.name if category.name not in groups else f"{category.name} ({category.id})"
        groups[name] = [index]
    return groups


def each_supercategory(dataset: Dataset) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for index, category in enumerate(dataset.categories):
        if category.supercategory:
            groups.setdefault(category.supercategory, []).append(index)
    return groups


def chosen_supercategories(dataset: Dataset, definitions: Sequence[str]) -> dict[str, list[int]]:
    """Groups given as NAME=SUPERCATEGORY,… or just SUPERCATEGORY, and "rest" for all that is in none of them."""
    by_super = each_supercategory(dataset)
    groups: dict[str, list[int]] = {}
    for definition in definitions:
        name, _, members = definition.partition("=")
        groups[name] = []
        for member in (members or name).split(","):
            if member not in by_super:
                known = ", ".join(by_super) or "none"
                raise DataError(f"group '{definition}' names supercategory '{member}'; {dataset.name} has {known}")
            groups[name] += by_super[member]
    taken = {index for members in groups.values() for index in members}
    rest = [index for index in range(len(dataset.categories)) if index not in taken]
    return {**groups, "rest": rest} if rest else groups


def known_and_new(dataset: Dataset, train: Dataset) -> dict[str, list[int]]:
    """Categories whose keypoint definition some training category has, and the others: on the former a network has met
    the keypoints in training, and only the kind of object is new."""
    met = {definition_of(category) for category in train.categories}
    groups: dict[str, list[int]] = {"known definition": [], "new definition": []}
    for index, category in enumerate(dataset.categories):
        groups["known definition" if definition_of(category) in met else "new definition"].append(index)
    return groups
