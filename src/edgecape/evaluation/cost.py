"""What a model costs, counted and timed on the path that predicts: all backbone passes, all views."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from edgecape.errors import require
from edgecape.io.files import atomic_path
from edgecape.matching.multiview import UPRIGHT_VIEWS, MultiView, SupportViews
from edgecape.model.backbone import Backbone
from edgecape.model.linear import HAS_ONEDNN, Linear
from edgecape.model.network import Network
from edgecape.predictor import EdgeCape
from edgecape.runtime.base import Effort, Frames
from edgecape.skeleton import fully_connected
from edgecape.types import Support

if TYPE_CHECKING:
    from edgecape.runtime.torch_runtime import TorchRuntime

PARTS = {
    "image_proj": "projections",
    "keypoint_proj": "projections",
    "layout_proj": "projections",
    "lora": "LoRA (folded into the backbone)",
    "proposal_generator": "proposals",
    "pose_graph": "pose-graph predictor",
    "decoder": "graph decoder",
}
Given = TypeVar("Given")
REST = "similarity, votes, views"


class Part(NamedTuple):
    name: str
    parameters: int
    fast: int  # operations per query at effort "fast", multiply and add counted as two
    best: int  # … at effort "best"
    prompt: int  # operations per prompt of one support, as it is made: upright views only


def count_costs(network: Network, backbone: Backbone, keypoints: int = 17) -> list[Part]:
    """The backbone, with all its passes, and the parts of the head."""
    multiview = MultiView(network.eval())
    height, width = backbone.settings.image_size
    upright, passes = multiview.views[:UPRIGHT_VIEWS], len(multiview.query_views)
    crops = len(multiview.settings.views.scales)
    with torch.no_grad():
        once, features = _operations({}, lambda: backbone.eval()(torch.zeros(1, 3, height, width)))
        places = torch.rand(1, 1, crops, keypoints, 2)  # of one support
        seen = torch.ones(1, 1, crops, keypoints, dtype=torch.bool)
        prior = torch.from_numpy(fully_connected(keypoints))[None]
        shown = features[:, None, None].expand(-1, -1, crops, -1, -1, -1)

        def encode() -> SupportViews:
            tokens, where, graph = multiview.encode_view(shown, places, seen, prior)
            for _ in upright[1:]:
                multiview.encode_view(shown, places, seen, prior, graph)
            tokens, where = (x[:, :, None].expand(-1, -1, len(multiview.views), -1, -1) for x in (tokens, where))
            return SupportViews(tokens, where, seen[:, 0, 0], graph, torch.arange(keypoints))

        children = dict(network.named_children())
        prompt, support = _operations(children, encode)
        query = features[:, None].expand(-1, passes, -1, -1, -1)
        run = functools.partial(multiview, query, support)
        fast, best = (_operations(children, functools.partial(run, way))[0] for way in (True, False))
    parameters = Counter({name: _parameters(child) for name, child in children.items()})
    parameters["keypoint_proj"] += network.mask_token.numel()
    operations = once[REST]
    parts = [
        Part("backbone", _parameters(backbone), operations, passes * operations, crops * len(upright) * operations)
    ]
    for title in dict.fromkeys((*(PARTS.get(name, name) for name in children), REST)):
        names = [name for name in (*children, REST) if PARTS.get(name, name) == title]
        tables = (parameters, fast, best, prompt)
        parts.append(Part(title, *(sum(table[name] for name in names) for table in tables)))
    return parts


def _of_linear(x: Sequence[int], weight: Sequence[int], *_: object, **__: object) -> int:
    """Operations of a product by oneDNN, which torch does not count; told the shapes."""
    return 2 * math.prod(x) * weight[0]


_BY_ONEDNN = {torch.ops.mkldnn._linear_pointwise: _of_linear} if HAS_ONEDNN else {}


def stock(backbone: Backbone) -> Backbone:
    """The same, with matrix products as torch does them by itself: what others pay for a pass."""
    plain = copy.deepcopy(backbone)
    for part in plain.modules():
        if isinstance(part, Linear):
            part.__class__ = nn.Linear  # type: ignore[assignment]
    return plain


def _operations(children: dict[str, nn.Module], run: Callable[[], Given]) -> tuple[Counter[str], Given]:
    """Operations of a computation in each of these modules, and besides; and what it gave."""
    counted: Counter[str] = Counter()
    with FlopCounterMode(display=False, custom_mapping=_BY_ONEDNN) as counter:

        def entered(*_: object) -> None:
            begun.append(counter.get_total_flops())

        def left(name: str) -> Callable[..., None]:
            def note(*_: object) -> None:
                counted[name] += counter.get_total_flops() - begun.pop()

            return note

        begun: list[int] = []
        hooks = [child.register_forward_pre_hook(entered) for child in children.values()]
        hooks += [child.register_forward_hook(left(name)) for name, child in children.items()]
        found = run()
        for hook in hooks:
            hook.remove()
    counted[REST] = counter.get_total_flops() - counted.total()
    return counted, found


def _parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


class Timing(NamedTuple):
    what: str
    at: int  # how many keypoints, photos in a batch, or supports
    seconds: float  # median
    ratio: float  # to t_b, one forward of the backbone on one frame with torch's own matrix products


def measure_speed(
    runtime: TorchRuntime,
    keypoints: Sequence[int] = (17, 68, 300),
    batches: Sequence[int] = (4, 16),
    shots: Sequence[int] = (1, 3, 5),
    repeats: int = 9,
    model: EdgeCape | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Timing]:
    """Queries and prompts as `predict` and `prompt` run them, in multiples of t_b, which is timed before and after
    each, because a busy machine is slower one moment than the next. model: the same one in another runtime, to be
    timed beside the plain backbone in torch. clock: another one, such as `time.process_time`."""
    # Threads of a runtime keep a core busy for a while after their work, which is not the other runtime's cost.
    pause = 0.0 if model is None else 0.1
    model = model or EdgeCape(runtime)
    (height, width), rng = runtime.size, np.random.default_rng(0)
    photos = list(rng.integers(0, 256, (max((*batches, *shots)) + 1, height, width, 3), dtype=np.uint8))
    pixels = torch.zeros(1, 3, height, width, device=runtime.device)
    plain = stock(runtime.backbone)

    def support(photo: Frames, number: int = keypoints[0], edges: int = 4) -> Support:
        points = np.random.default_rng(number).random((number, 2)) * (width, height)
        return Support(photo, points, [(k, k + 1) for k in range(min(edges, number - 1))])

    def passes(module: Backbone, size: int = 1) -> None:
        with torch.inference_mode():
            module(pixels.expand(size, -1, -1, -1))

    backbone = functools.partial(passes, plain)

    def time_(run: Callable[[], object], number: int = 1, before: Callable[[], object] | None = None) -> list[float]:
        """Seconds and ratio."""
        took, units = [], []
        for _ in range(repeats + 1):  # the first one warms up
            if before is not None:
                before()
            before_it, own, after_it = (_seconds(it, pause, clock) for it in (backbone, run, backbone))
            units.append((before_it + after_it) / 2)
            took.append(own / number)
        ratios = [mine / unit for mine, unit in zip(took[1:], units[1:], strict=True)]
        return [statistics.median(took[1:]), statistics.median(ratios)]

    found = [Timing("backbone (t_b)", 1, *time_(backbone))]
    found.append(Timing("backbone, as it predicts", 1, *time_(functools.partial(passes, runtime.folded))))
    prompts = {number: model.prompt(support(photos[0], number)) for number in keypoints}
    efforts: tuple[Effort, ...] = ("fast", "best")
    for number, prompt in prompts.items():
        for effort in efforts:
            one = functools.partial(model.predict, prompt, photos[0], effort=effort)
            found.append(Timing(f"query, {effort}", number, *time_(one)))
    for size in batches:
        found.append(Timing("backbone, each of a batch", size, *time_(functools.partial(passes, plain, size), size)))
        for effort in efforts:
            some = functools.partial(
                model.predict, prompts[keypoints[0]], photos[:size], batch_size=size, effort=effort
            )
            found.append(Timing(f"query, {effort}, each of a batch", size, *time_(some, size)))
    for number in shots:
        supports = [support(photo) for photo in photos[: number + 1]]
        make = functools.partial(model.prompt, supports[:number])
        several = make()
        for effort in efforts:
            one = functools.partial(model.predict, several, photos[0], effort=effort)
            found.append(Timing(f"query, {effort}, beside supports", number, *time_(one)))
        found.append(Timing("prompt", number, *time_(make, before=model.runtime.forget)))

        def known(make: Callable[[], object] = make) -> None:
            model.runtime.forget()
            make()

        more = functools.partial(model.prompt, supports)
        found.append(Timing("prompt, one more support", number, *time_(more, before=known)))
    edges = itertools.cycle((3, 4))
    found.append(Timing("prompt, another edge", 1, *time_(lambda: model.prompt(support(photos[0], edges=next(edges))))))
    steps = itertools.count(1)

    def moved() -> None:
        marked = support(photos[0])
        model.prompt(Support(photos[0], marked.keypoints * (1 - 1e-4 * next(steps)), marked.skeleton))

    found.append(Timing("prompt, keypoints moved", 1, *time_(moved)))
    return found


def _seconds(run: Callable[[], object], pause: float, clock: Callable[[], float]) -> float:
    time.sleep(pause)
    start = clock()
    run()
    return clock() - start


def save_plot(timings: Sequence[Timing], path: str | os.PathLike[str]) -> None:
    """Cost against keypoints, photos in a batch and supports, and of what is edited, beside the backbone."""
    require("train", "a plot", "matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7), layout="constrained")
    panels = {
        "one query": ("keypoints", ("query, best", "query, fast")),
        "each query of a batch": (
            "photos in the batch",
            ("query, best, each of a batch", "query, fast, each of a batch", "backbone, each of a batch"),
        ),
        "one query beside several supports": (
            "supports",
            ("query, best, beside supports", "query, fast, beside supports"),
        ),
        "one prompt": (
            "supports",
            ("prompt", "prompt, one more support", "prompt, keypoints moved", "prompt, another edge"),
        ),
    }
    for axis, (title, (along, kinds)) in zip(figure.subplots(2, 2).flat, panels.items(), strict=True):
        for what in kinds:
            points = sorted((timing.at, timing.ratio) for timing in timings if timing.what == what)
            if points:
                label = what.removesuffix(", each of a batch").removesuffix(", beside supports")
                axis.plot(*zip(*points, strict=True), marker="o", label=label)
        axis.axhline(1, color="grey", linestyle=":", label="one plain backbone pass (t_b)")
        axis.set(title=title, xlabel=along, ylabel="t_b", ylim=(0, None))
        axis.legend(fontsize=7)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=100)
