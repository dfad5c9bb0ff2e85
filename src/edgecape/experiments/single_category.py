"""One shared definition of keypoints; categories are known, photos are new (as on AP-10K)."""

from __future__ import annotations

from edgecape.data.dataset import Dataset, Instance, definition_of
from edgecape.errors import DataError
from edgecape.evaluation.published import AP10K
from edgecape.experiments import tables
from edgecape.experiments.arms import BOTH, FIXED, NONE
from edgecape.experiments.experiment import TRAINED, Experiment, Parts
from edgecape.experiments.lab import Condition, Lab
from edgecape.experiments.section import Table
from edgecape.experiments.untrained import note

ARMS = (NONE, FIXED, BOTH)
PAIRS = [(first.name, second.name) for first, second in ((FIXED, NONE), (BOTH, FIXED), (BOTH, NONE))]
HELD = 5  # every fifth object of a category is measured on, the others are trained on
FEWEST = 2 * HELD  # objects of a category, so that one is a support and one a query
METRICS = ("PCK@0.1", "AUC", "NME", "mPCK@5")


def shared_definitions(dataset: Dataset) -> dict[str, tuple[Dataset, Dataset]]:
    """Data to train on and to measure on, for every definition that several categories share."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, category in enumerate(dataset.categories):
        if len(dataset.by_category[index]) >= FEWEST:
            groups.setdefault(definition_of(category), []).append(index)
    place = {int(i): n for members in dataset.by_category for n, i in enumerate(members)}

    def is_held(instance: Instance) -> bool:
        return place[instance.index] % HELD == 0

    found = {}
    for members in groups.values():
        if len(members) > 1:
            first = dataset.categories[members[0]]
            name = f"{first.supercategory or first.name}, {first.K} keypoints, {len(members)} categories"
            kept = dataset.subset(members, lambda instance: not is_held(instance))
            found[name] = (kept, dataset.subset(members, is_held))
    if not found:
        needs = f"two categories of {FEWEST} objects with the same keypoint names"
        raise DataError(f"{dataset.name} has no definition that {needs} share, so there is nothing to measure")
    return found


def run(lab: Lab) -> Parts:
    condition = Condition(lab.options.shots[0])
    found, findings = list[Table](), list[str]()
    for name, data in shared_definitions(lab.train).items():
        results = lab.on(*data).measure(ARMS, [condition])[condition]
        compared = tables.difference_table(f"{name}, differences", results, PAIRS, None, "PCK@0.1")
        found += [tables.value_table(name, results, METRICS), compared]
        findings += [f"{name}, {line}" for line in tables.finding(compared)]
    rows = tuple((arm, f"{pck:.2f}", f"{auc:.2f}", f"{nme:.3f}", "") for arm, (pck, auc, nme) in AP10K.items())
    notes = ["categories of training and test are the same, their photos are not"]
    notes += note(lab.options, "a trained encoder may have learned from the photos that are held out")
    return Parts([*found, Table("Published on AP-10K", ("arm", *METRICS), rows)], (), findings, notes)


EXPERIMENT = Experiment(
    "single-category",
    "One definition, known categories",
    "AP-10K, PCK@0.1: CapeFormer 69.70, GraphCape 72.01, EdgeCape 72.48.",
    run,
    regimes=TRAINED,
    check=lambda lab: shared_definitions(lab.train),
)
