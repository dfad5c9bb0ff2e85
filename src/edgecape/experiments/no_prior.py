"""No skeleton at all: self-loops, or every keypoint connected to every other."""

from __future__ import annotations

from edgecape.evaluation.published import FULLY_CONNECTED
from edgecape.experiments import figures, tables
from edgecape.experiments.arms import main_arms
from edgecape.experiments.experiment import Experiment, Parts
from edgecape.experiments.lab import Condition, Lab
from edgecape.experiments.priors import AS_GIVEN, FULL, SELF_LOOPS
from edgecape.experiments.section import Cell, Table

SKELETONS = (AS_GIVEN, SELF_LOOPS, FULL)


def run(lab: Lab) -> Parts:
    shots = lab.options.shots[0]
    none, *told = main_arms(lab.options)
    plain = lab.measure([none], [Condition(shots)])[Condition(shots)][none.name]
    found = lab.measure(told, [Condition(shots, name) for name in SKELETONS])
    rows: list[tuple[Cell, ...]] = [(none.name, "", tables.value(plain), "", "", "")]
    groups = {"no graph": {none.name: tables.value(plain)}}
    findings = []
    for name in SKELETONS:
        results = found[Condition(shots, name)]
        groups[name] = {arm.name: tables.value(results[arm.name]) for arm in told}
        for arm in told:
            seeds = results[arm.name]
            said = f"{FULLY_CONNECTED:+.2f}" if name == FULL and arm is told[1] else ""
            gap = tables.gap(seeds, plain)
            both = (gap, tables.gap(seeds, plain, over_categories=True))
            rows.append((arm.name, name, tables.value(seeds), *both, said))
            findings.append(f"{arm.name}, {name}: {gap} above no graph.")
    columns = ("arm", "prior", "mPCK@5", f"− {none.name}, other photos", "other categories too", "published")
    table = Table("mPCK@5 without a skeleton", columns, tuple(rows), f"{tables.NOTE} {tables.DIFFERENCES}")
    caption = "Arms were trained with drawn skeletons and are told another prior here."
    return Parts([table], [figures.dots("priors", caption, groups, "mPCK@5 (%)")], findings)


EXPERIMENT = Experiment(
    "no-prior",
    "What if nobody drew a skeleton?",
    f"With a fully connected prior EdgeCape is still {FULLY_CONNECTED:+.2f} mPCK above CapeFormer.",
    run,
    main_arms,
)
