"""edgecape benchmark: sizes and speed of a model."""

from __future__ import annotations

from typing import Annotated

import tyro


def benchmark(
    model: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    source: str | None = None,
    keypoints: int = 17,
    speed: bool = True,
) -> int:
    """Parameters and operations per part of the network, and its speed relative to its backbone.

    Example: edgecape benchmark --model

    Args:
        model: Count only; load no weights and measure no speed.
        source: A model folder, hub id or official checkpoint; the default model if not given.
        keypoints: Number of keypoints to count and measure with.
        speed: Measure one prediction against one forward of the backbone in the same process.
    """
    from rich.console import Console
    from rich.table import Table

    from edgecape.evaluation.cost import count_costs, measure_speed

    console = Console()
    settings = None
    loaded = None
    if not model:
        from edgecape.predictor import EdgeCape

        loaded = EdgeCape.from_pretrained(source)
        settings = loaded.network.settings
    costs = count_costs(settings, keypoints)
    table = Table(
        "part", "parameters (M)", "operations (GFLOP)", title=f"one query, one support, {keypoints} keypoints"
    )
    for part in costs:
        table.add_row(part.name, f"{part.parameters / 1e6:.2f}", f"{part.flops / 1e9:.2f}")
    head = costs[1:]
    table.add_section()
    table.add_row("head", f"{sum(p.parameters for p in head) / 1e6:.2f}", f"{sum(p.flops for p in head) / 1e9:.2f}")
    console.print(table)
    if loaded is not None and speed:
        for name, seconds, ratio in measure_speed(loaded, keypoints):
            console.print(f"{name:<28} {1000 * seconds:8.1f} ms   {ratio:5.2f} × backbone")
    return 0


def main(arguments: list[str]) -> int:
    return tyro.cli(benchmark, prog="edgecape benchmark", args=arguments)
