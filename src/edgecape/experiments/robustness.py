"""How much the skeleton matters: the same pairs with wrong edges added, edges dropped, all, or none."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgecape.errors import SettingsError, require
from edgecape.evaluation.evaluate import Method, Task
from edgecape.evaluation.methods import ModelMethod, copy_support, proposals
from edgecape.evaluation.results import Groups, Result, Row, difference, summarise
from edgecape.io.files import atomic_path
from edgecape.model import graph
from edgecape.model.network import Network
from edgecape.skeleton import fully_connected

Change = Callable[[Tensor, torch.Generator], Tensor]
"""Adjacency (K, K) of the keypoints that can be used → what the network is told instead."""

WRONG = (1, 2, 4, 8, 16)  # edges added
DROPPED = (0.3, 0.6)  # share of edges removed
AS_GIVEN, NO_EDGES, FULL = "as given", "no edges", "fully connected"
PROPOSALS, COPY = "proposals", "copy support"  # what no skeleton changes
METRICS = ("mPCK@5", "PCK@0.2")


def wrong_name(number: int) -> str:
    """Of the variant with this many wrong edges."""
    return f"{number} wrong edge{'s' if number > 1 else ''}" if number else AS_GIVEN


def changes() -> dict[str, Change]:
    """What is done to a skeleton, by name. Fewer wrong edges are a part of more wrong edges; so are dropped ones."""
    return {
        AS_GIVEN: lambda A, generator: A,
        **{wrong_name(n): partial(graph.add_random_edges, n=n) for n in WRONG},
        **{f"{100 * share:.0f} % dropped": partial(graph.drop_random_edges, share=share) for share in DROPPED},
        NO_EDGES: lambda A, generator: torch.zeros_like(A),
        FULL: lambda A, generator: torch.from_numpy(fully_connected(len(A))),  # as for a user who gives no skeleton
    }


def changed(prior: Tensor, change: Change, coordinates: Tensor, visible: Tensor) -> Tensor:
    """The prior (K, K) with a change among the visible keypoints; edges of the others reach nobody.

    Chance is seeded with the marked places (S, K, 2): the same supports get the same wrong edges whatever the model,
    the order of episodes and the number of processes, and are resampled with them for the intervals.
    """
    places = (coordinates * 1000).round().to(torch.int32).numpy()
    generator = torch.Generator().manual_seed(zlib.crc32(places.tobytes()))
    shown = visible.nonzero()[:, 0]
    part = (shown[:, None], shown)
    out = prior.clone()
    out[part] = change(prior[part], generator)
    return out


def given_share(predicted: Tensor, given: Tensor) -> float:
    """Share of the weight of Ã (K, K) that lies on edges of the given skeleton; nan if one of the two is empty."""
    if not (given > 0).any():
        return math.nan
    return float((predicted * (given > 0)).sum() / predicted.sum())


class Recorder:
    """The network with each variant of the skeleton as a method, and how much of its graph lies on what was given."""

    def __init__(self, network: Network):
        if network.settings.graph == "none":
            raise SettingsError(
                "this model was trained without a graph, so no skeleton can change what it finds; "
                "take one that was trained with graph fixed or predicted"
            )
        self.run = ModelMethod(network)
        self.shares: dict[str, list[float]] = {name: [] for name in changes()}  # one per pair

    def methods(self) -> dict[str, Method]:
        variants = {name: partial(self._refined, name, change) for name, change in changes().items()}
        return {**variants, PROPOSALS: proposals(self.run), COPY: copy_support}

    def _refined(self, name: str, change: Change, task: Task) -> Tensor:
        told = changed(task.prior, change, task.coordinates, task.visible)
        found = self.run(task._replace(prior=told)).output
        given = graph.mask_adjacency(task.prior, task.visible)
        coordinates = found.coordinates[-1]
        self.shares[name] += len(coordinates) * [given_share(found.graph.normalised[0].cpu(), given)]
        return coordinates

    def all_shares(self) -> dict[str, NDArray[np.float64]]:
        """Of all pairs (P,), in the order of a Result; every process must call it."""
        from accelerate.utils import gather_object

        return {name: np.array(gather_object(values)) for name, values in self.shares.items()}


@dataclass(frozen=True)
class Robustness:
    """Each by variant, a row per group."""

    values: Mapping[str, list[Row]]
    differences: Mapping[str, list[Row]]  # to the skeleton as given, paired
    given_share: Mapping[str, list[float | None]]  # of the graph's weight; variants of the skeleton only


def summary(results: Mapping[str, Result], shares: Mapping[str, NDArray[np.float64]], groups: Groups) -> Robustness:
    values = {name: summarise(result, groups, thresholds=(0.2,)) for name, result in results.items()}
    base = results[AS_GIVEN]
    differences = {
        name: difference(result, base, groups, thresholds=(0.2,))
        for name, result in results.items()
        if name != AS_GIVEN
    }

    def mean(share: NDArray[np.float64], group: str) -> float | None:
        chosen = share[np.isin(base.category, list(groups[group]))]
        return float(np.nanmean(chosen)) if np.isfinite(chosen).any() else None

    kept = {name: [mean(share, row.group) for row in values[name]] for name, share in shares.items()}
    return Robustness(values, differences, kept)


def draw_robustness(found: Robustness, groups: Sequence[str], title: str, path: Path) -> None:
    """mPCK@5 over the number of wrong edges, a panel per group; as lines, what other skeletons and none at all give."""
    require("train", "a plot", "matplotlib")
    from matplotlib.figure import Figure

    metric = METRICS[0]
    present = [row.group for row in found.values[AS_GIVEN]]
    shown = [group for group in groups if group in present]
    figure = Figure(figsize=(1.2 + 3.6 * len(shown), 4.2), layout="constrained")
    figure.suptitle(title, fontsize=10)
    for axis, group in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        place = present.index(group)
        curve = [found.values[wrong_name(n)][place] for n in (0, *WRONG)]
        mean = np.array([100 * row.mean[metric] for row in curve])
        low, high = (np.array([100 * getattr(row, end)[metric] for row in curve]) for end in ("low", "high"))
        paired = [found.differences[wrong_name(n)][place] for n in WRONG]
        ends = np.array([[100 * row.low[metric], 100 * row.high[metric]] for row in paired]) + mean[0]
        x = np.arange(len(curve))
        axis.fill_between(x, low, high, color="tab:blue", alpha=0.15, linewidth=0, label="95 %, other photos")
        axis.vlines(x[1:], *ends.T, color="tab:blue", linewidth=5, alpha=0.5, label="95 %, change from 0 edges")
        axis.plot(x, mean, color="tab:blue", marker="o", markersize=4, label="wrong edges added")
        levels = [*low, *high]
        styles = {FULL: ("tab:red", "--"), NO_EDGES: ("tab:purple", "-."), PROPOSALS: ("0.4", ":")}
        for name, (colour, style) in styles.items():
            level = 100 * found.values[name][place].mean[metric]
            levels.append(level)
            axis.axhline(level, color=colour, linestyle=style, linewidth=1.3, label=name)
        room = 0.15 * (max(levels) - min(levels))
        axis.set_ylim(min(levels) - room, max(levels) + room)
        copied = 100 * found.values[COPY][place].mean[metric]  # usually far below: a line would flatten the rest
        if copied > axis.get_ylim()[0]:
            axis.axhline(copied, color="tab:olive", linewidth=1.3, label=COPY)
        else:
            axis.annotate(f"{COPY}: {copied:.1f} ↓", (0.02, 0.02), xycoords="axes fraction", fontsize=8, color="0.3")
        axis.set_xticks(x, [str(n) for n in (0, *WRONG)])
        axis.set_xlabel("random wrong edges in the skeleton")
        axis.set_title(f"{group} ({curve[0].pairs} pairs)", fontsize=10)
        axis.grid(alpha=0.3)
    figure.axes[0].set_ylabel(f"{metric} (%)")
    legend: dict[str, Any] = {}
    for axis in figure.axes:  # a line may be in some panels only
        handles, labels = axis.get_legend_handles_labels()
        legend |= dict(zip(labels, handles, strict=True))
    columns = min(len(legend), 2 * len(shown))
    figure.legend(list(legend.values()), list(legend), loc="outside lower center", ncols=columns, fontsize=8)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=120)
