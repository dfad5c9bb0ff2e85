"""Wrong edges in the skeleton: who is harmed, the drawn graph or the predicted one?"""

from __future__ import annotations

from edgecape.experiments import figures, tables
from edgecape.experiments.arms import NONE, main_arms
from edgecape.experiments.experiment import Experiment, Parts
from edgecape.experiments.lab import Condition, Lab
from edgecape.experiments.priors import AS_GIVEN, DROPPED, WRONG, dropped_name, wrong_name
from edgecape.experiments.section import Table


def run(lab: Lab) -> Parts:
    shots = lab.options.shots[0]
    none, fixed, predicted = main_arms(lab.options)[:3]
    names = [wrong_name(n) for n in (0, *WRONG)] + [dropped_name(share) for share in DROPPED]
    found = lab.measure([fixed, predicted], [Condition(shots, name) for name in names])
    plain = lab.measure([none], [Condition(shots)])[Condition(shots)][NONE.name]
    given = found[Condition(shots, AS_GIVEN)]
    rows = []
    for name in names:
        here = found[Condition(shots, name)]
        rows.append(
            (
                name,
                tables.value(here[fixed.name]),
                tables.value(here[predicted.name]),
                *(
                    "" if name == AS_GIVEN else tables.gap(here[arm.name], given[arm.name])
                    for arm in (fixed, predicted)
                ),
                tables.gap(here[predicted.name], here[fixed.name]),
                tables.gap(here[predicted.name], here[fixed.name], over_categories=True),
            )
        )
    title = "mPCK@5 with other skeletons"
    change = "change of"
    gap = f"{predicted.name} − {fixed.name}"
    columns = ("skeleton", fixed.name, predicted.name, f"{change} {fixed.name}", f"{change} {predicted.name}")
    table = Table(title, (*columns, gap, "other categories too"), tuple(rows), f"{tables.NOTE} {tables.DIFFERENCES}")
    lines = {
        arm.name: [tables.value(found[Condition(shots, wrong_name(n))][arm.name]) for n in (0, *WRONG)]
        for arm in (fixed, predicted)
    }
    caption = "Random wrong edges are added to each support's skeleton, the same ones for all arms."
    labels = ("wrong edges", "mPCK@5 (%)")
    level = {f"{none.name}: no graph": tables.value(plain).mean}
    drawn = figures.curves("mPCK against wrong edges", caption, (0, *WRONG), lines, labels, level, even=True)
    first, last = (table.column(gap)[wrong_name(n)] for n in (0, WRONG[-1]))
    widens = f"{gap}: {first} with the drawn skeleton, {last} with {WRONG[-1]} wrong edges."
    harm = table.column(f"{change} {fixed.name}")[wrong_name(WRONG[-1])]
    return Parts([table], [drawn], [widens, f"{WRONG[-1]} wrong edges change {fixed.name} by {harm}."])


EXPERIMENT = Experiment(
    "noisy-prior",
    "What do wrong edges in the skeleton cost?",
    "The predicted graph stays above the drawn one, and the gap widens the more edges are wrong.",
    run,
    main_arms,
)
