"""A part of each query behind a patch: keypoints there are known by the others only."""

from __future__ import annotations

from edgecape.experiments import figures, tables
from edgecape.experiments.arms import main_arms
from edgecape.experiments.experiment import Experiment, Parts
from edgecape.experiments.lab import Condition, Lab
from edgecape.experiments.section import Cell, Table, Value

SHARES = (0.0, 0.15, 0.3, 0.45, 0.6)  # of the query's frame
METRIC = "PCK@0.2"


def run(lab: Lab) -> Parts:
    shots, arms = lab.options.shots[0], main_arms(lab.options)
    found = lab.measure(arms, [Condition(shots, cover=share) for share in SHARES])
    none, fixed, predicted = (arm.name for arm in arms[:3])
    rows, lines = list[tuple[Cell, ...]](), {arm.name: list[Value]() for arm in arms}
    for share in SHARES:
        results = found[Condition(shots, cover=share)]
        for arm in arms:
            lines[arm.name].append(tables.value(results[arm.name], METRIC))
        gaps = [tables.gap(results[a], results[b], METRIC) for a, b in ((fixed, none), (predicted, fixed))]
        last = tables.gap(results[predicted], results[fixed], METRIC, over_categories=True)
        rows.append((f"{share:.0%}", *(lines[arm.name][-1] for arm in arms), *gaps, last))
    gaps_named = (f"{fixed} − {none}", f"{predicted} − {fixed}", "other categories too")
    columns = ("covered", *(arm.name for arm in arms), *gaps_named)
    table = Table(f"{METRIC} of partly covered queries", columns, tuple(rows), f"{tables.NOTE} {tables.DIFFERENCES}")
    caption = "A grey patch covers a share of each query's frame; keypoints behind it count like the others."
    labels = ("covered share of the query (%)", f"{METRIC} (%)")
    drawn = figures.curves("PCK against occlusion", caption, [100 * share for share in SHARES], lines, labels)
    findings = [
        f"{name} at {share} covered: {cell}."
        for name in gaps_named[:2]
        for share, cell in list(table.column(name).items())[:: len(SHARES) - 1]
    ]
    return Parts([table], [drawn], findings)


EXPERIMENT = Experiment(
    "occlusion",
    "Do the other keypoints tell where a hidden one is?",
    "The predicted graph is above the drawn one whatever share of the query is masked.",
    run,
    main_arms,
)
