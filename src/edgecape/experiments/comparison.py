"""1-shot against 5-shot PCK@0.2, a circle for each method, as large as the method is."""

from __future__ import annotations

from typing import Any

from edgecape.evaluation.published import PUBLISHED
from edgecape.experiments import figures, tables
from edgecape.experiments.arms import Arm, main_arms
from edgecape.experiments.experiment import Experiment, Parts
from edgecape.experiments.lab import Condition, Lab
from edgecape.experiments.section import Figure, Table, Value
from edgecape.model.network import Network
from edgecape.model.presets import preset

METRIC = "PCK@0.2"
SIZED = {"CapeFormer (DINOv2-S)": "capeformer", "GraphCape (DINOv2-S)": "graphcape", "EdgeCape (DINOv2-S)": "edgecape"}
Circle = tuple[float, float, float | None]  # 1 shot, 5 shots, millions of parameters of the head if known


def millions(network: Network) -> float:
    return sum(parameter.numel() for parameter in network.parameters()) / 1e6


def published_circles() -> dict[str, Circle]:
    found: dict[str, Circle] = {}
    for row in PUBLISHED:
        if 1 in row.pck and 5 in row.pck:
            size = millions(Network(preset(SIZED[row.method]).settings())) if row.method in SIZED else None
            found[row.method] = (row.pck[1], row.pck[5], size)
    return found


def circles(panels: dict[str, dict[str, Circle]]) -> Figure:
    def draw(axes: Any) -> None:
        for axis, (title, points) in zip(axes, panels.items(), strict=True):
            for index, (name, (one, five, size)) in enumerate(points.items()):
                known = size is not None
                area = 14 * size if size is not None else 40
                shade = figures.colour(name, index) if known else figures.COLOURS["none"]
                axis.scatter(one, five, s=area, color=shade, alpha=0.65, linewidth=0)
                axis.annotate(name, (one, five), xytext=(5, 4), textcoords="offset points", fontsize=7)
            axis.margins(0.2)
            axis.set(title=title, xlabel=f"{METRIC}, 1 shot (%)", ylabel=f"{METRIC}, 5 shots (%)")

    caption = "Area: parameters of the head as built here; small and grey where the size is not known here."
    data = {title: {name: list(circle) for name, circle in points.items()} for title, points in panels.items()}
    return figures.plot("1 shot against 5 shots", caption, draw, data, size=(9.6, 4.2), panels=len(panels))


def run(lab: Lab) -> Parts:
    arms: tuple[Arm, ...] = main_arms(lab.options)
    found = lab.measure(arms, [Condition(1), Condition(5)])
    measured: dict[str, Circle] = {}
    rows = []
    for arm in arms:
        one, five = (tables.value(found[Condition(shots)][arm.name], METRIC) for shots in (1, 5))
        size = millions(lab.first_model(arm).network)
        measured[arm.name] = (one.mean, five.mean, size)
        rows.append((arm.name, one, five, Value(size)))
    table = Table(f"{METRIC}", ("arm", "1 shot", "5 shots", "head (M parameters)"), tuple(rows), tables.NOTE)
    panels = {"published, MP-100": published_circles(), f"here, {lab.measured.name}": measured}
    note = "Two data sets: the panels have their own axes and cannot be compared with each other."
    return Parts([table], [circles(panels)], notes=[note])


EXPERIMENT = Experiment(
    "comparison",
    "Methods at 1 and 5 shots",
    "EdgeCape is highest at both: 89.42 and 91.87.",
    run,
    main_arms,
    check=lambda lab: [lab.benchmark(shots) for shots in (1, 5)],
)
