"""What every experiment is: what it shows, which arms it needs, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from edgecape.experiments.arms import Arm
from edgecape.experiments.lab import Lab
from edgecape.experiments.options import ABOUT_REGIMES, Options, Regime, digest
from edgecape.experiments.section import FOLDER, Figure, Section, Table
from edgecape.io.files import read_json, write_json
from edgecape.training.run import data_fingerprint

TRAINED: tuple[Regime, ...] = ("published", "ours")
EVERY: tuple[Regime, ...] = ("published", "ours", "told")


class Parts(NamedTuple):
    """What an experiment finds."""

    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    findings: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    claim: str
    """What the paper found."""
    run: Callable[[Lab], Parts]
    arms: Callable[[Options], Sequence[Arm]] = lambda options: ()
    """Trained on the data as it is; an experiment that makes data of its own trains them itself."""
    regimes: tuple[Regime, ...] = EVERY
    check: Callable[[Lab], object] = lambda lab: None
    """Raises an error if the data cannot do for it."""


def section_of(experiment: Experiment, lab: Lab, command: str) -> Section:
    """As it was saved, or made now."""
    place = lab.out / FOLDER / f"{experiment.name}-{lab.options.regime}-{_key(experiment, lab)}.json"
    if place.is_file():
        return Section.from_dict(read_json(place))
    tables, figures, findings, notes = experiment.run(lab)
    section = Section(
        experiment.name,
        experiment.title,
        experiment.claim,
        done(lab, command),
        tuple(tables),
        tuple(figures),
        tuple(findings),
        (*notes, *lab.measured.notes),
    )
    write_json(place, section.to_dict())
    return section


def done(lab: Lab, command: str) -> dict[str, str]:
    """What was done, for whoever wants to do it again."""
    options, budget, data = lab.options, lab.budget, lab.measured
    folders = ", ".join(folder.name for folder in options.data)
    said = {
        "data": f"{folders}, {options.split}: {len(data.categories)} categories, {len(data.instances)} objects",
        "regime": f"{options.regime}: {ABOUT_REGIMES[options.regime]}",
    }
    if options.regime == "told":
        said["model"] = options.model
    elif lab.given:
        counts = ", ".join(f"{arm} ({len(folders)})" for arm, folders in lab.given.items())
        said["models"] = f"given, not trained here, so their budgets may differ: {counts}"
    else:
        length = f"{budget.decoder_steps} steps"
        if options.regime == "published":
            length = f"{budget.stages} stages of {budget.steps} steps" if budget.steps else "the paper's 300 epochs"
        said["budget"] = f"{options.budget}: {length}, {_seeds(lab.trained_seeds)}"
    return said | {"episodes": f"{budget.episodes} per category", "command": command}


def _seeds(seeds: range) -> str:
    if not seeds[0]:
        return f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _key(experiment: Experiment, lab: Lab) -> str:
    asked = asdict(lab.options)
    for irrelevant in ("out", "report", "cache", "data", "split", "train"):
        del asked[irrelevant]
    data = [data_fingerprint(lab.measured)]
    if lab.options.regime != "told":
        data.append(data_fingerprint(lab.train))
    return digest([asked, asdict(lab.budget), data])
