"""What the network costs: parameters, operations, and time relative to a plain backbone forward."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from edgecape.model.aspects import Shots, Turns, encode_turns, localise_best
from edgecape.model.backbone import Backbone
from edgecape.model.network import Network
from edgecape.model.settings import NetworkSettings
from edgecape.skeleton import fully_connected
from edgecape.weights.backbones import backbone_config

if TYPE_CHECKING:
    from edgecape.predictor import EdgeCape

PARTS = {
    "image_proj": "projections",
    "keypoint_proj": "projections",
    "layout_proj": "projections",
    "adapter": "changes to the backbone",
    "encoder": "encoder",
    "proposal_generator": "proposals",
    "pose_graph": "pose-graph predictor",
    "decoder": "graph decoder",
}


class Part(NamedTuple):
    name: str
    parameters: int
    flops: int  # multiply and add counted as two


def _parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def count_costs(settings: NetworkSettings | None = None, keypoints: int = 17) -> list[Part]:
    """The backbone and the parts of the head, for one query and one support; nothing is loaded."""
    settings = settings or NetworkSettings()
    height, width = settings.backbone.image_size
    backbone = Backbone(backbone_config(settings.backbone.name), settings.backbone).eval()
    network = Network(settings).eval()
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        features = backbone(torch.zeros(1, 3, height, width))
    parts = {"backbone": [_parameters(backbone), counter.get_total_flops()]}
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        network(
            features,
            features[:, None],
            torch.ones(1, keypoints, dtype=torch.bool),
            torch.from_numpy(fully_connected(keypoints))[None],
            coordinates=torch.rand(1, 1, keypoints, 2),
        )
    counted = counter.get_flop_counts()
    for name, module in network.named_children():
        part = parts.setdefault(PARTS[name], [0, 0])
        part[0] += _parameters(module)
        part[1] += sum(counted.get(f"Network.{name}", {}).values())
    parts["projections"][0] += network.mask_token.numel()
    return [Part(name, *numbers) for name, numbers in parts.items()]


def _median_seconds(run: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])  # the first one warms up


def measure_speed(model: EdgeCape, keypoints: int, repeats: int = 9) -> Iterator[tuple[str, float, float]]:
    """(what, seconds, multiple of one backbone forward), medians of one run."""
    height, width = model.size
    pixels = torch.zeros(1, 3, height, width, device=model.device)
    with torch.inference_mode():
        features = model.backbone(pixels, model.network.adapter)
        visible = torch.ones(1, 1, keypoints, dtype=torch.bool, device=model.device)
        prior = torch.from_numpy(fully_connected(keypoints))[None].to(model.device)
        shots = Shots(features[:, None], torch.rand(1, 1, keypoints, 2, device=model.device))
        mirrored_query = features if model.network.settings.mirror_query else None

        looks = len(model.network.settings.looks)
        often = Shots(*(x.repeat_interleave(looks, dim=1) for x in shots))

        def encode() -> Turns:
            return encode_turns(model.network, lambda mirror, turn: shots if turn else often, visible, prior)

        turns = encode()
        tasks: list[tuple[str, Callable[[], object]]] = [
            ("backbone, one frame", lambda: model.backbone(pixels, model.network.adapter)),
            ("support side of the head", encode),
            ("query side of the head", lambda: localise_best(model.network, features, turns, mirrored_query)),
        ]
        unit = 0.0
        for name, run in tasks:
            seconds = _median_seconds(run, repeats)
            unit = unit or seconds
            yield name, seconds, seconds / unit
