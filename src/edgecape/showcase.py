"""One HTML page that needs no other file: what was marked, the graph that was predicted, every pose with its scores."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgecape.drawing import FAINT, graph_edges, marked, palette, resized
from edgecape.io.images import RGB, load_image
from edgecape.types import Pose, Prompt, Support

LONGEST = 640  # pixels of a photo on the page
DOUBTFUL = 3  # keypoints of a pose that are named as least certain
HALF = 0.5  # a mean score below it: more likely wrong than right
STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 1200px; padding: 1.5rem 1rem 3rem; font: 16px/1.5 system-ui, sans-serif;
  color: #1c2430; background: #f5f6f8; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
p { margin: .3rem 0 .8rem; max-width: 46rem; }
.grid { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); }
.grid.large { grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr)); }
figure { margin: 0; background: #fff; border: 1px solid #dde1e7; border-radius: 8px; overflow: hidden;
  display: flex; flex-direction: column; }
svg { display: block; width: 100%; height: auto; max-height: 24rem; margin: auto; background: #fff; }
figcaption { padding: .5rem .75rem .6rem; border-top: 1px solid #eceff3; }
.score { float: right; font-variant-numeric: tabular-nums; font-weight: 600; }
.bar { display: block; height: 4px; margin: .3rem 0; background: #e6e9ee; border-radius: 2px; }
.bar i { display: block; height: 100%; background: #1f7a5c; border-radius: 2px; }
.bar.doubtful i { background: #c2410c; }
small { color: #5a6675; }
pre { background: #1c2430; color: #f2f5f9; padding: .8rem 1rem; border-radius: 8px; overflow-x: auto;
  font-size: .9rem; }
"""


@dataclass(frozen=True, eq=False)
class Shown:
    """One marked photo and what was found on others."""

    support: Support
    prompt: Prompt
    titles: tuple[str, ...]
    queries: tuple[Any, ...]
    poses: tuple[Pose, ...]


@dataclass(frozen=True)
class Line:
    """An edge as it is drawn."""

    ends: tuple[int, int]
    weight: float = 1.0
    """Relative to the heaviest."""
    given: bool = True
    told: str = ""


def page(shown: Sequence[Shown], made_by: Sequence[str], next_steps: Sequence[tuple[str, str]]) -> str:
    """made_by: the commands that made it. next_steps: what to try, and its command."""
    number = sum(len(one.queries) for one in shown)
    steps = "".join(f"<p>{escape(what)}</p><pre>{escape(command)}</pre>" for what, command in next_steps)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>edgecape: what was found</title>
<style>{STYLE}</style>
</head>
<body>
<h1>Marked on {counted(len(shown), "photo")}, found on {counted(number, "other")}</h1>
<p>The model has no list of kinds of object: it is shown marks on one photo and looks for them on the others.
The fainter a point, the less certain it is; rest the pointer on one to read its name and score.</p>
{"".join(map(_section, shown))}
<h2>How this was made</h2>
<pre>{escape(chr(10).join(made_by))}</pre>
<h2>What to try next</h2>
{steps}
</body>
</html>
"""


def _section(one: Shown) -> str:
    support = _figure(load_image(one.support.image), marked(one.support), _given(one.support), one.support.names)
    graph = _figure(load_image(one.support.image), marked(one.support), list(_predicted(one.prompt)), one.support.names)
    told = counted(len(one.support.keypoints), "keypoint") + _skeleton(one.support)
    found = "".join(map(_found, one.titles, one.queries, one.poses))
    return f"""<h2>Marked once</h2>
<div class="grid large">
<figure>{support}<figcaption>What was marked <small>{told}</small></figcaption></figure>
<figure>{graph}<figcaption>The graph predicted from it <small>{_weights(one.prompt)}</small></figcaption></figure>
</div>
<h2>Found</h2>
<div class="grid">{found}</div>
"""


def _found(title: str, query: Any, pose: Pose) -> str:
    lines = [Line(edge) for edge in pose.skeleton or ()]
    drawn = _figure(load_image(query), pose.keypoints, lines, pose.names, pose.scores)
    order = [int(k) for k in np.argsort(pose.scores) if pose.found[k]][:DOUBTFUL]
    doubtful = ", ".join(f"{_name(pose.names, k)} {pose.scores[k]:.2f}" for k in order)
    score = f'<span class="score" title="mean score of the keypoints">{pose.score:.2f}</span>'
    kind = "bar" if pose.score >= HALF else "bar doubtful"
    bar = f'<span class="{kind}"><i style="width: {100 * pose.score:.0f}%"></i></span>'
    told = f"<small>least certain: {escape(doubtful)}</small>"
    return f"<figure>{drawn}<figcaption>{score}{escape(title)}{bar}{told}</figcaption></figure>"


def _given(support: Support) -> list[Line]:
    return [Line(edge) for edge in support.skeleton or ()]


def _predicted(prompt: Prompt) -> Iterator[Line]:
    edges, strength = graph_edges(prompt.weights)
    for (i, j), weight in zip(edges, strength, strict=True):
        ends = f"{_name(prompt.names, i)} – {_name(prompt.names, j)}"
        yield Line((i, j), weight, bool(prompt.prior[i, j]), f"{ends}: weight {prompt.weights[i, j]:.2f}")


def _skeleton(support: Support) -> str:
    return "" if support.skeleton is None else f", {counted(len(support.skeleton), 'edge')}"


def _weights(prompt: Prompt) -> str:
    """How heavy the edges became that were given, and those that were not."""
    upper = np.triu(np.ones_like(prompt.prior, dtype=bool), 1)
    given, other = prompt.weights[upper & (prompt.prior > 0)], prompt.weights[upper & (prompt.prior == 0)]
    told = [
        f"{what} {_between(weights)}"
        for what, weights in (("white: given, weight", given), (f"violet: {other.size} others, weight", other))
        if weights.size
    ]
    return "; ".join(told)


def _between(values: NDArray[np.float32]) -> str:
    low, high = f"{values.min():.2f}", f"{values.max():.2f}"
    return low if low == high else f"{low} to {high}"


def _figure(
    photo: RGB,
    keypoints: NDArray[np.float32],
    lines: Sequence[Line],
    names: Sequence[str] | None,
    scores: NDArray[np.float32] | None = None,
) -> str:
    """A photo with points and lines over it that stay sharp at any size."""
    height, width = photo.shape[:2]
    unit = max(height, width) / 100
    certainty = np.ones(len(keypoints)) if scores is None else scores.clip(0, 1)
    opacity = FAINT + (1 - FAINT) * certainty
    places = {k: keypoints[k] for k in np.flatnonzero(np.isfinite(keypoints).all(axis=1)).tolist()}
    size = f'width="{width}" height="{height}"'
    drawn = [f'<svg viewBox="0 0 {width} {height}" role="img"><image {size} href="{_jpeg(photo)}"/>']
    for line in lines:
        i, j = line.ends
        if i in places and j in places:
            strength = min(opacity[i], opacity[j]) * (0.15 + 0.75 * line.weight)
            ends = " ".join(
                f'{axis}{n}="{places[k][a]:.1f}"' for n, k in ((1, i), (2, j)) for a, axis in enumerate("xy")
            )
            told = f"<title>{escape(line.told)}</title>" if line.told else ""
            wide = unit * (0.3 + 0.8 * line.weight)
            if line.given:
                drawn.append(
                    f'<line {ends} stroke="#141414" stroke-width="{1.8 * wide:.2f}" opacity="{strength:.2f}"/>'
                )
            colour = "#fff" if line.given else "#c800ff"
            drawn.append(
                f'<line {ends} stroke="{colour}" stroke-width="{wide:.2f}" opacity="{strength:.2f}">{told}</line>'
            )
    for k, rgb in enumerate(palette(len(keypoints))):
        if k in places:
            told = _name(names, k) + ("" if scores is None else f": {scores[k]:.2f}")
            drawn.append(
                f'<circle cx="{places[k][0]:.1f}" cy="{places[k][1]:.1f}" r="{1.3 * unit:.2f}" fill="rgb{rgb}" '
                f'stroke="#141414" stroke-width="{0.4 * unit:.2f}" opacity="{opacity[k]:.2f}">'
                f"<title>{escape(told)}</title></circle>"
            )
    return "".join(drawn) + "</svg>"


def _jpeg(photo: RGB) -> str:
    """As an address that holds the picture itself."""
    from PIL import Image

    scale = min(1.0, LONGEST / max(photo.shape[:2]))
    content = io.BytesIO()
    Image.fromarray(photo if scale == 1 else resized(photo, scale)).save(content, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode()


def _name(names: Sequence[str] | None, k: int) -> str:
    return f"keypoint {k}" if names is None else names[k].replace("_", " ")


def counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
