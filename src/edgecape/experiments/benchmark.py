"""The main table: none, fixed, predicted + bias and what was never trained, at 1 and 5 shots, with all metrics."""

from __future__ import annotations

from edgecape.evaluation.published import NOTE as AVERAGES
from edgecape.evaluation.published import PUBLISHED
from edgecape.experiments import figures, tables
from edgecape.experiments.arms import main_arms
from edgecape.experiments.experiment import Experiment, Parts
from edgecape.experiments.lab import Condition, Lab
from edgecape.experiments.section import Table, Value


def published_table() -> Table:
    rows = tuple(
        (row.method, *(_cell(part.get(shots)) for shots in (1, 5) for part in (row.pck, row.mpck))) for row in PUBLISHED
    )
    columns = ("method", "PCK@0.2, 1 shot", "mPCK@5, 1 shot", "PCK@0.2, 5 shots", "mPCK@5, 5 shots")
    return Table("Published on MP-100", columns, rows, f"{AVERAGES}; other data: to be compared in kind, not in size")


def _cell(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


def run(lab: Lab) -> Parts:
    arms = main_arms(lab.options)
    none, fixed, predicted = (arm.name for arm in arms[:3])
    pairs = [(fixed, none), (predicted, fixed), (predicted, none)]
    pairs += [(arm.name, none) for arm in arms[3:]]
    found, findings, groups, notes = list[Table](), list[str](), dict[str, dict[str, Value]](), list[str]()
    measured = lab.measure(arms, [Condition(shots) for shots in lab.options.shots])
    for shots in lab.options.shots:
        results = measured[Condition(shots)]
        found.append(tables.value_table(f"{shots}-shot", {**lab.baselines(shots), **results}))
        compared = tables.difference_table(f"{shots}-shot, differences", results, pairs)
        found.append(compared)
        findings += [f"{shots}-shot, {line}" for line in tables.finding(compared)]
        groups[f"{shots}-shot"] = {name: tables.value(seeds) for name, seeds in results.items()}
        notes.append(f"{shots}-shot: {lab.benchmark(shots).coverage}")
    drawn = figures.dots("none, fixed, predicted", "mPCK@5 with 95 % intervals for other photos", groups, "mPCK@5 (%)")
    return Parts([*found, published_table()], [drawn], findings, notes)


EXPERIMENT = Experiment(
    "benchmark",
    "Does the graph help?",
    "CapeFormer < GraphCape < EdgeCape: mPCK 74.45, 75.73 and 77.72 at 1 shot, 79.63, 80.16 and 81.07 at 5.",
    run,
    main_arms,
)
