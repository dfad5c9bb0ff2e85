"""The picture of a run: losses above, validation below, phases side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edgecape.io.files import atomic_path


def draw_curves(entries: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    losses = [entry for entry in entries if "selection" not in entry]
    scores = [entry for entry in entries if "selection" in entry]
    offsets, phases = {"start": 0}, list[str]()
    for entry in losses:
        if entry["phase"] not in phases:
            offsets[entry["phase"]] = sum(max(e["step"] for e in losses if e["phase"] == earlier) for earlier in phases)
            phases.append(entry["phase"])
    figure = Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for term in sorted({name for entry in losses for name in entry} - {"phase", "step"}):
        points = [(offsets[e["phase"]] + e["step"], e[term]) for e in losses if term in e]
        x, y = np.array(points, dtype=float).T
        window = max(1, len(y) // 100)
        smooth = np.convolve(y, np.ones(window) / window, mode="valid")
        above.plot(x[window - 1 :], smooth, label=term, linewidth=1)
    for name, style in (("refined", "-"), ("proposals", ":")):
        for group, colour in (("all", "tab:blue"), ("known", "tab:green"), ("new", "tab:red")):
            key = f"{name}_{group}"
            points = [(offsets.get(e["phase"], 0) + e.get("step", 0), e[key]) for e in scores if key in e]
            if points:
                below.plot(*np.array(points).T, style, color=colour, marker=".", label=f"{name}, {group}", linewidth=1)
    for axis in (above, below):
        for phase in phases[1:]:
            axis.axvline(offsets[phase], color="0.8", linewidth=1)
        if axis.lines:
            axis.legend(fontsize=7, ncols=3)
        axis.grid(alpha=0.3)
    above.set_ylabel("loss (smoothed)")
    below.set_ylabel("validation mPCK@5 (%)")
    below.set_xlabel("step" + (f" ({' | '.join(phases)})" if phases else ""))
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=120)
