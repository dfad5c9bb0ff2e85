"""What the methods cost: parameters and operations of each part, against keypoints and shots; what the graph adds."""

from __future__ import annotations

from edgecape.evaluation.cost import Part, Timing, count_costs, measure_speed
from edgecape.evaluation.published import COST
from edgecape.experiments import figures
from edgecape.experiments.experiment import Experiment, Parts
from edgecape.experiments.lab import Lab
from edgecape.experiments.section import Cell, Figure, Table, Value
from edgecape.model.network import Network
from edgecape.model.presets import PRESETS

METHODS = ("capeformer", "graphcape", "edgecape-no-bias", "edgecape")
KEYPOINTS = (5, 17, 40, 68, 100)
USUAL = 17
SHOTS = (1, 5)


def head(parts: list[Part]) -> tuple[float, float, float]:
    """Millions of parameters, and 10⁹ operations per query and per prompt, of all but the backbone."""
    rest = parts[1:]
    return (
        sum(part.parameters for part in rest) / 1e6,
        sum(part.best for part in rest) / 1e9,
        sum(part.prompt for part in rest) / 1e9,
    )


def counted(lab: Lab) -> tuple[list[Table], list[Figure], list[str]]:
    sizes, backbone = lab.options.network, lab.store(lab.options.network.backbone).backbone
    costs = {
        name: {K: count_costs(Network(PRESETS[name].settings(sizes)), backbone, K) for K in KEYPOINTS}
        for name in METHODS
    }
    totals = {name: head(by_number[USUAL]) for name, by_number in costs.items()}
    base = totals["graphcape"]
    rows: list[tuple[Cell, ...]] = []
    for name, (parameters, query, prompt) in totals.items():
        added = (parameters - base[0], query + prompt - base[1] - base[2])
        rows.append(
            (
                name,
                *(Value(number, digits=2) for number in (parameters, query, prompt)),
                *(Value(number, difference=True, digits=2) for number in added),
            )
        )
    columns = ("method", "head (M)", "query (GFLOP)", "prompt (GFLOP)", "M more", "GFLOP more")
    note = f"Without the backbone; {USUAL} keypoints, one support; more than graphcape. Published: {COST}."
    parts = [
        Table("Heads as published", columns, tuple(rows), note),
        Table(
            "Parts of EdgeCape",
            ("part", "parameters (M)", "query (GFLOP)", "prompt (GFLOP)"),
            tuple(
                (part.name, *(Value(n, digits=2) for n in (part.parameters / 1e6, part.best / 1e9, part.prompt / 1e9)))
                for part in costs["edgecape"][USUAL]
            ),
            f"{USUAL} keypoints, one support.",
        ),
    ]
    lines = {
        name: [Value(sum(head(by_number[K])[1:]), digits=2) for K in KEYPOINTS] for name, by_number in costs.items()
    }
    drawn = figures.curves(
        "operations against keypoints",
        "Query and prompt of one support, head only.",
        KEYPOINTS,
        {name: [Value(v.mean, v.mean, v.mean) for v in values] for name, values in lines.items()},
        ("keypoints", "GFLOP"),
    )
    more = dict(zip(METHODS, rows, strict=True))["edgecape"]
    said = f"Predicted graph and bias add {more[4]} M parameters and {more[5]} GFLOP to the head; published: {COST}."
    return parts, [drawn], [said]


def timed(lab: Lab) -> Table:
    timings: list[Timing] = measure_speed(
        lab.runtime(lab.options.model), (USUAL, max(KEYPOINTS)), shots=SHOTS, repeats=5
    )
    rows = tuple((t.what, str(t.at), Value(1000 * t.seconds), Value(t.ratio, digits=2)) for t in timings)
    columns = ("what", "keypoints, photos or supports", "ms", "backbone passes")
    note = (
        "Median of five, on the machine of this report, which may have been busy: look at the ratio to a backbone pass."
    )
    return Table(f"Speed of the model ({lab.options.model})", columns, rows, note)


def run(lab: Lab) -> Parts:
    parts, drawn, findings = counted(lab)
    return Parts([*parts, timed(lab)], drawn, findings)


EXPERIMENT = Experiment("cost", "What does it cost?", COST, run)
