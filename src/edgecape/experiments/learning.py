"""The arms along their training: who learns faster, and would more of it help?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgecape.experiments import figures, tables
from edgecape.experiments.arms import BOTH, FIXED, NONE, Arm
from edgecape.experiments.experiment import TRAINED, Experiment, Parts
from edgecape.experiments.lab import Condition, Lab
from edgecape.experiments.options import Options
from edgecape.experiments.section import Cell, Table, Value

PARTS = {"a third": 1 / 3, "two thirds": 2 / 3, "all": 1.0}  # of the training
COMPARED = (NONE, FIXED, BOTH)
PAIRS = ((FIXED, NONE), (BOTH, FIXED))


def arms(options: Options) -> Sequence[Arm]:
    """None of models that are given: nobody knows what they were before."""
    return [] if options.models else [after(arm, name) for name in PARTS for arm in COMPARED]


def after(arm: Arm, name: str) -> Arm:
    return replace(arm, name=f"{arm.name}, {name}", part=PARTS[name])


def run(lab: Lab) -> Parts:
    if not arms(lab.options):
        return Parts(notes=["Models were given, so there is no training to follow."])
    condition = Condition(lab.options.shots[0])
    results = lab.measure(arms(lab.options), [condition])[condition]
    rows, lines, findings = list[tuple[Cell, ...]](), {arm.name: list[Value]() for arm in COMPARED}, list[str]()
    lengths = [lab.steps(after(NONE, name)) for name in PARTS]
    for name, steps in zip(PARTS, lengths, strict=True):
        for arm in COMPARED:
            lines[arm.name].append(tables.value(results[after(arm, name).name]))
        gaps = [tables.gap(results[after(a, name).name], results[after(b, name).name]) for a, b in PAIRS]
        rows.append((str(steps), *(line[-1] for line in lines.values()), *gaps))
    before, last = list(PARTS)[-2:]
    for arm in COMPARED:
        gained = tables.gap(results[after(arm, last).name], results[after(arm, before).name])
        verdict = "still rising" if gained.is_clear and gained.mean > 0 else "not told apart"
        findings.append(f"{arm.name}, the last third of the training: {gained}: {verdict}.")
    columns = ("steps", *lines, *(f"{a.name} − {b.name}" for a, b in PAIRS))
    table = Table("mPCK@5 along the training", columns, tuple(rows), f"{tables.NOTE} {tables.DIFFERENCES}")
    caption = "The learning rate falls to zero within each part that is measured."
    if lab.options.regime == "published":
        caption = "Each stage ends at a learning rate of zero; the first one of predicted + bias is that of fixed."
    drawn = figures.curves("mPCK along the training", caption, lengths, lines, ("steps", "mPCK@5 (%)"), even=True)
    return Parts([table], [drawn], findings)


EXPERIMENT = Experiment(
    "learning",
    "Would more training help?",
    "100 epochs for each of the three phases; no curves are shown.",
    run,
    arms,
    TRAINED,
)
