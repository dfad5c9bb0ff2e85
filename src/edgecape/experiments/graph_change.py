"""How much the predictor changes the weights of edges, for three kinds of prior."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgecape.experiments import figures
from edgecape.experiments.arms import main_arms
from edgecape.experiments.experiment import Experiment, Parts
from edgecape.experiments.lab import Lab, SupportGraph, graphs_of
from edgecape.experiments.priors import AS_GIVEN, FULL, SELF_LOOPS
from edgecape.experiments.section import Figure, Table, Value

PRIORS = {"annotated": AS_GIVEN, "self-loops": SELF_LOOPS, "fully connected": FULL}
BINS = np.linspace(-1, 1, 41)


def changes_of(graphs: list[SupportGraph]) -> np.ndarray:
    """Ã − Ã_prior of every two usable keypoints, in both directions; and of each with itself."""
    parts = []
    for graph in graphs:
        usable = graph.visible.nonzero()[:, 0]
        parts.append((graph.normalised - graph.prior)[usable][:, usable].flatten().numpy())
    return np.concatenate(parts)


def kept_share(graphs: list[SupportGraph]) -> float:
    """Mean share of the weight of Ã that lies on edges of the prior, in per cent; of graphs that have any weight."""
    some = [g for g in graphs if g.normalised.sum() > 0]
    return 100 * float(np.mean([float((g.normalised * (g.prior > 0)).sum() / g.normalised.sum()) for g in some]))


def histograms(found: dict[str, np.ndarray]) -> Figure:
    counts = {name: np.histogram(values, BINS)[0] for name, values in found.items()}

    def draw(axes: Any) -> None:
        for axis, (name, count) in zip(axes, counts.items(), strict=True):
            axis.bar(
                BINS[:-1], count / max(1, count.sum()), np.diff(BINS), align="edge", color=figures.COLOURS["predicted"]
            )
            axis.axvline(0, color=figures.INK, linestyle="--", linewidth=1)
            axis.set(yscale="log", xlim=(-1, 1), ylim=(1e-5, 1.5), title=name, xlabel="change of an edge's weight")
        axes[0].set_ylabel("share of edges (log)")

    caption = "Change of each entry of the row-normalised graph, Ã − Ã of the prior; dashed: no change."
    data = {"bins": BINS.tolist(), "counts": {name: count.tolist() for name, count in counts.items()}}
    return figures.plot("edge-weight changes", caption, draw, data, size=(9.6, 3.2), panels=len(counts))


def run(lab: Lab) -> Parts:
    arm, shots = main_arms(lab.options)[2], lab.options.shots[0]
    lab.prepare([arm])
    benchmark, rows, found = lab.benchmark(shots), [], dict[str, np.ndarray]()
    for name, skeleton in PRIORS.items():
        models = [lab.model(arm, seed) for seed in lab.seeds(arm)]
        graphs = [g for model in models for g in graphs_of(model, benchmark.dataset, benchmark.episodes, skeleton)]
        values = found[name] = changes_of(graphs)
        low, high = (float(np.quantile(values, q)) for q in (0.01, 0.99))
        rows.append(
            (
                name,
                str(len(values)),
                Value(float(np.abs(values).mean()), digits=4),
                Value(float(values.mean()), low, high, digits=4, difference=True),
                Value(kept_share(graphs)),
            )
        )
    columns = ("prior", "entries", "mean |change|", "mean (1 % … 99 %)", "weight on edges of the prior (%)")
    table = Table("What the predictor changes", columns, tuple(rows))
    findings = [
        f"{row[0]}: entries change by {row[2]} on average; {row[4]} % of the weight is on the prior." for row in rows
    ]
    return Parts([table], [histograms(found)], findings, [f"supports of {len(benchmark.episodes)} episodes"])


EXPERIMENT = Experiment(
    "graph-change",
    "What does the predictor change?",
    "Three histograms of changes on a log scale: for annotated, self-loop and fully connected priors.",
    run,
    lambda options: [main_arms(options)[2]],
)
