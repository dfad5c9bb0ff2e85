"""Plots as SVG that takes the colours of the page it is put into, and photos as small JPEGs."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgecape.drawing import resized
from edgecape.errors import require
from edgecape.experiments.section import Figure, Value
from edgecape.io.images import RGB

INK, GRID = "#010203", "#040506"  # stand for the page's own colours
COLOURS = {
    "none": "#8a8f98",
    "fixed": "#d98310",
    "predicted": "#2f7de1",
    "fixed + bias": "#c2417c",
    "predicted + bias": "#1f9d6b",
}
MORE = ("#7a5cd6", "#b04a3a", "#4c8c9b", "#9a8b1f", "#5b6b7a")
WIDEST = 1400  # pixels of a picture


def colour(name: str, index: int = 0) -> str:
    return COLOURS.get(name, MORE[index % len(MORE)])


def plot(
    title: str,
    caption: str,
    draw: Callable[[Any], None],
    data: Mapping[str, Any],
    size: tuple[float, float] = (6.4, 3.9),
    panels: int = 1,
) -> Figure:
    """`draw` is given the axes, one or a list of them."""
    require("train", "a plot", "matplotlib")
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": title,  # names inside are the same every time, and differ between figures
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
    } | dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK)
    with matplotlib.rc_context(style):
        canvas = Canvas(figsize=size, layout="constrained")
        axes = canvas.subplots(1, panels, squeeze=False)[0]
        draw(axes[0] if panels == 1 else axes)
        buffer = io.StringIO()
        canvas.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return Figure(title, caption, svg=themed(buffer.getvalue(), title), data=dict(data))


def themed(svg: str, title: str) -> str:
    """Without a fixed size, in the colours of the page, with a name for those who cannot see it."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor").replace(GRID, "var(--line)")
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)


def curves(
    title: str, caption: str, x: Sequence[float], lines: Mapping[str, Sequence[Value]], labels: tuple[str, str],
    levels: Mapping[str, float] | None = None, even: bool = False,
) -> Figure:  # fmt: skip
    """A line per arm with the interval of each value. even: the same distance between all x. levels: dashed lines."""
    data = {
        "x": list(x),
        "lines": {name: [value.mean for value in values] for name, values in lines.items()},
        "levels": dict(levels or {}),
    }

    def draw(axes: Any) -> None:
        places = np.arange(len(x)) if even else np.array(x, dtype=float)
        for index, (name, values) in enumerate(lines.items()):
            shade = colour(name, index)
            low, high = ([getattr(value, end) for value in values] for end in ("low", "high"))
            axes.fill_between(places, low, high, color=shade, alpha=0.13, linewidth=0)
            axes.plot(places, [value.mean for value in values], color=shade, marker="o", markersize=4, label=name)
        for name, level in (levels or {}).items():
            axes.axhline(level, color=INK, linestyle="--", linewidth=1, label=name)
        axes.set(xlabel=labels[0], ylabel=labels[1])
        if even:
            axes.set_xticks(places, [f"{value:g}" for value in x])
        axes.legend()

    return plot(title, caption, draw, data)


def dots(title: str, caption: str, groups: Mapping[str, Mapping[str, Value]], label: str) -> Figure:
    """A dot per arm with its interval, in a group per key: what differs by a point or two would not show on bars that
    begin at 0, and others mislead."""
    data = {group: {name: value.mean for name, value in arms.items()} for group, arms in groups.items()}

    def draw(axes: Any) -> None:
        names = list(dict.fromkeys(name for arms in groups.values() for name in arms))
        step = 0.6 / len(names)
        for index, name in enumerate(names):
            offset, shade = (index - (len(names) - 1) / 2) * step, colour(name, index)
            there = [(place + offset, arms[name]) for place, arms in enumerate(groups.values()) if name in arms]
            for x, value in there:
                if value.low is not None and value.high is not None:
                    axes.vlines(x, value.low, value.high, color=shade, linewidth=2.2, alpha=0.45)
            axes.plot(
                [x for x, _ in there], [value.mean for _, value in there], "o", color=shade, markersize=7, label=name
            )
        axes.set_xticks(range(len(groups)), list(groups))
        axes.set_xlim(-0.5, len(groups) - 0.5)
        axes.set_ylabel(label)
        axes.grid(visible=False, axis="x")
        axes.legend(ncols=min(3, len(names)), loc="lower center", bbox_to_anchor=(0.5, 1.0))

    return plot(title, caption, draw, data)


def picture(title: str, caption: str, image: RGB, data: Mapping[str, Any] | None = None) -> Figure:
    from PIL import Image

    if image.shape[1] > WIDEST:
        image = resized(image, WIDEST / image.shape[1])
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "JPEG", quality=82, optimize=True)
    return Figure(title, caption, picture=base64.b64encode(buffer.getvalue()).decode(), data=dict(data or {}))
