"""What a model costs, counted and timed on the path that predicts: all backbone passes, all views."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from edgecape.matching.multiview import MultiView, Shots
from edgecape.model.backbone import Backbone
from edgecape.model.network import Network
from edgecape.predictor import EdgeCape
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
    query: int  # operations per query, multiply and add counted as two
    prompt: int  # operations per prompt of one support


def count_costs(network: Network, backbone: Backbone, keypoints: int = 17) -> list[Part]:
    """The backbone, with all its passes, and the parts of the head."""
    multiview = MultiView(network.eval())
    height, width = backbone.settings.image_size
    with torch.no_grad():
        once, features = _operations({}, lambda: backbone.eval()(torch.zeros(1, 3, height, width)))
        pictures = len(multiview.pictures)
        features = features[None, :, None]  # (B, P, S, C, h, w)
        places = torch.rand(1, pictures, 1, keypoints, 2)
        shots = Shots(features.expand(-1, pictures, -1, -1, -1, -1), places)
        visible = torch.ones(1, 1, keypoints, dtype=torch.bool)
        prior = torch.from_numpy(fully_connected(keypoints))[None]
        children = dict(network.named_children())
        prompt, support = _operations(children, lambda: multiview.encode(shots, visible, prior))
        passes = len(multiview.query_views)
        query, _ = _operations(children, lambda: multiview(features[:, 0].expand(-1, passes, -1, -1, -1), support))
    parameters = Counter({name: _parameters(child) for name, child in children.items()})
    parameters["keypoint_proj"] += network.mask_token.numel()
    parts = [Part("backbone", _parameters(backbone), passes * once[REST], pictures * once[REST])]
    for title in dict.fromkeys((*(PARTS.get(name, name) for name in children), REST)):
        names = [name for name in (*children, REST) if PARTS.get(name, name) == title]
        parts.append(Part(title, *(sum(table[name] for name in names) for table in (parameters, query, prompt))))
    return parts


def _operations(children: dict[str, nn.Module], run: Callable[[], Given]) -> tuple[Counter[str], Given]:
    """Operations of a computation in each of these modules, and besides; and what it gave."""
    counted: Counter[str] = Counter()
    with FlopCounterMode(display=False) as counter:

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


def measure_speed(
    runtime: TorchRuntime, keypoints: int, repeats: int = 9, batch: int = 16
) -> Iterator[tuple[str, float, float]]:
    """(what, seconds, multiple of t_b), medians of one run. t_b is one plain forward of the backbone on one frame; it
    is timed between all others, because a busy machine is slower one moment than the next."""
    model, (height, width) = EdgeCape(runtime), runtime.size
    rng = np.random.default_rng(0)
    photo = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    support = Support(photo, rng.random((keypoints, 2)) * (width, height))
    prompt, pixels = model.prompt(support), torch.zeros(1, 3, height, width, device=runtime.device)
    tasks: dict[str, tuple[Callable[[], object], int]] = {
        "backbone, one frame (t_b)": (lambda: runtime.backbone(pixels), 1),
        "one query": (lambda: model.predict(prompt, photo), 1),
        f"a query in a batch of {batch}": (lambda: model.predict(prompt, [photo] * batch, batch_size=batch), batch),
        "one prompt, one support": (lambda: model.prompt(support), 1),
    }
    times: dict[str, list[float]] = {name: [] for name in tasks}
    with torch.inference_mode():
        for round_ in range(repeats + 1):
            for name, (run, number) in tasks.items():
                start = time.perf_counter()
                run()
                if round_:  # the first one warms up
                    times[name].append((time.perf_counter() - start) / number)
    unit = statistics.median(next(iter(times.values())))
    for name, values in times.items():
        seconds = statistics.median(values)
        yield name, seconds, seconds / unit
