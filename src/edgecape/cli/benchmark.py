"""edgecape benchmark: sizes and speed of a model."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import tyro

from edgecape.cli.printing import FOR_PEOPLE, Output
from edgecape.errors import SettingsError


def benchmark(
    model: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    source: str | None = None,
    keypoints: int = 17,
    speed: bool = True,
    exported: Path | None = None,
    processor_time: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    repeats: int = 9,
    out: Path | None = None,
    output: Output = FOR_PEOPLE,
) -> int:
    """Parameters and operations per part of a model, and its speed relative to its backbone, as `predict` runs it.

    Example: edgecape benchmark --model

    Args:
        model: Count only; load no weights and measure no speed.
        source: A model folder, hub id or official checkpoint; the default model if not given.
        keypoints: Number of keypoints to count and measure with.
        speed: Measure queries and prompts against one forward of the backbone in the same process.
        exported: What edgecape export wrote of the same model: its speed, beside the same backbone in torch.
        processor_time: On one thread, in seconds of the processor: what a busy machine cannot disturb much.
        repeats: Medians are of this many.
        out: Folder for benchmark.json and benchmark.png.
    """
    from rich.table import Table

    from edgecape.evaluation.cost import count_costs, measure_speed, save_plot
    from edgecape.io.files import write_json
    from edgecape.matching.network import build_network
    from edgecape.model.backbone import Backbone
    from edgecape.predictor import EdgeCape
    from edgecape.runtime.torch_runtime import TorchRuntime
    from edgecape.weights.backbones import backbone_config
    from edgecape.weights.store import find_model, load_model

    if repeats < 1:
        raise SettingsError(f"--repeats is {repeats}; a median is of 1 or more")
    console = output.console()
    clock = time.perf_counter
    if processor_time:
        import torch

        clock = time.process_time
        torch.set_num_threads(1)
        os.environ["OMP_NUM_THREADS"] = "1"  # what an exported model looks at
    runtime = None
    if model:
        config = load_model(find_model(source)).config
        backbone = Backbone(backbone_config(config.network.backbone.name), config.network.backbone)
        network = build_network(config.network, config.matching)
    else:
        runtime = TorchRuntime.load(source)
        network, backbone = runtime.network, runtime.backbone
    costs = count_costs(network, backbone, keypoints)
    columns = ("part", "parameters (M)", "query, fast (GFLOP)", "query, best (GFLOP)", "prompt (GFLOP)")
    table = Table(*columns, title=f"one query; a prompt of one support; {keypoints} keypoints")

    def add(name: str, *numbers: int) -> None:
        table.add_row(name, f"{numbers[0] / 1e6:.2f}", *(f"{number / 1e9:.2f}" for number in numbers[1:]))

    for part in costs:
        add(*part)
    table.add_section()
    add("head", *(sum(column) for column in zip(*(part[1:] for part in costs[1:]), strict=True)))
    add("all", *(sum(column) for column in zip(*(part[1:] for part in costs), strict=True)))
    console.print(table)
    timings = []
    if runtime is not None and speed:
        timed = None if exported is None else EdgeCape.from_pretrained(exported)
        timings = measure_speed(runtime, (keypoints, 68, 300), repeats=repeats, model=timed, clock=clock)
    for what, at, seconds, ratio in timings:
        console.print(f"{what:<30} {at:>4} {1000 * seconds:9.1f} ms   {ratio:6.2f} t_b")
    results = {"parts": [part._asdict() for part in costs], "speed": [timing._asdict() for timing in timings]}
    output.print_results(results)
    if out is not None:
        write_json(out / "benchmark.json", results, indent=1)
        save_plot(timings, out / "benchmark.png")
        console.print(f"numbers and plot: {out}", soft_wrap=True)
    return 0


def main(arguments: list[str]) -> int:
    return tyro.cli(benchmark, prog="edgecape benchmark", args=arguments)
