"""A small world for tests that train or predict: drawn lamps, a convolution as backbone, a tiny network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from edgecape.data.dataset import Dataset
from edgecape.data.features import FeatureStore
from edgecape.data.objects import read_coco
from edgecape.examples.lamps import EDGES, NAMES, draw_lamp
from edgecape.matching.network import build_network
from edgecape.matching.settings import MatchingSettings
from edgecape.model.backbone import normalise_pixels
from edgecape.model.dinov2 import Dinov2Shape
from edgecape.model.settings import BackboneSettings, NetworkSettings
from edgecape.predictor import EdgeCape
from edgecape.runtime.torch_runtime import TorchRuntime
from edgecape.training.initialise import start_from_matching
from edgecape.training.sampler import EpisodeSettings
from edgecape.training.settings import PHASES, PhaseSettings, TrainSettings

TINY_WIDTH = 12  # of tiny_dinov2
BACKBONE = BackboneSettings(name="toy", image_size=(112, 112))
CHANNELS = 24
NETWORK = NetworkSettings(
    channels=CHANNELS, width=32, heads=2, ffn=48, encoder_layers=1, decoder_layers=2, predictor_layers=1, dropout=0.0,
    backbone=BACKBONE,
)  # fmt: skip


class ToyBackbone(nn.Module):
    """Patches of 14 × 14 pixels through one random convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = BACKBONE
        self.channels = CHANNELS
        self.convolution = nn.Conv2d(3, CHANNELS, kernel_size=14, stride=14)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / 20)

    def forward(self, pixels: Tensor) -> Tensor:
        return torch.tanh(self.convolution(pixels))

    def lower(self, pixels: Tensor, blocks: int = 0) -> Tensor:
        return self(pixels)

    def fused(self) -> ToyBackbone:
        return self


def tiny_dinov2(layers: int = 3) -> Dinov2Shape:
    """A DINOv2 of the usual shape, but thin and shallow."""
    return Dinov2Shape(TINY_WIDTH, layers, heads=2)


def write_lamps(folder: Path, number: int = 8, categories: tuple[str, ...] = ("lamp",)) -> Path:
    """A COCO file of drawn lamps with their pictures; returns the file, pictures are beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    content: dict[str, list[dict[str, Any]]] = {"images": [], "annotations": [], "categories": []}
    for category, name in enumerate(categories, start=1):
        content["categories"].append(
            {
                "id": category,
                "name": name,
                "supercategory": "furniture",
                "keypoints": [f"{part} of {name}" for part in NAMES],
                "skeleton": [list(edge) for edge in EDGES],
            }
        )
        for index in range(number):
            pose = (float(rng.uniform(70, 110)), float(rng.uniform(-60, 30)), float(rng.uniform(-40, 60)))
            picture, keypoints = draw_lamp(pose, hue=20 * index % 180, ground=220, seed=category * 100 + index)
            key = category * 1000 + index
            Image.fromarray(picture).save(folder / f"{key}.png")
            height, width = picture.shape[:2]
            content["images"].append({"id": key, "file_name": f"{key}.png", "width": width, "height": height})
            low, high = keypoints.min(0) - 12, keypoints.max(0) + 12
            content["annotations"].append(
                {
                    "id": key,
                    "image_id": key,
                    "category_id": category,
                    "bbox": [*low.tolist(), *(high - low).tolist()],
                    "area": float(np.prod(high - low)),
                    "iscrowd": 0,
                    "num_keypoints": len(keypoints),
                    "keypoints": [value for x, y in keypoints.tolist() for value in (x, y, 2)],
                }
            )
    path = folder / "lamps.json"
    path.write_text(json.dumps(content))
    return path


def lamps(folder: Path, number: int = 8, categories: tuple[str, ...] = ("lamp",)) -> Dataset:
    return read_coco(write_lamps(folder, number, categories), folder)


def store(cache: Path | None = None) -> FeatureStore:
    return FeatureStore(ToyBackbone(), "toy", cache)  # type: ignore[arg-type]


def training(
    steps: int = 6, epochs: int = 1, phases: tuple[PhaseSettings, ...] | None = None, **changes: Any
) -> TrainSettings:
    """Three short phases on small batches."""
    from dataclasses import replace

    chosen = (
        phases
        if phases is not None
        else tuple(
            replace(phase, epochs=epochs, learning_rate=1e-3, warmup=2, self_supervised=0.3)
            for phase in PHASES.values()
        )
    )
    values: dict[str, Any] = {
        "network": NETWORK,
        "phases": chosen,
        "episodes": EpisodeSettings(steps_per_epoch=steps, views=3),
        "batch": 4,
        "save_every": 4,
        "validation_episodes": 2,
        "ema": 0.9,
    }
    return TrainSettings(**{**values, **changes})


def estimator(seed: int = 0, matching: MatchingSettings | None = None, **changes: Any) -> EdgeCape:
    """An EdgeCape that matches features, disturbed in every part so that none is silent."""
    from dataclasses import replace

    torch.manual_seed(seed)
    network, backbone = build_network(replace(NETWORK, width=64, **changes), matching), ToyBackbone()
    poses = [(75.0 + 5 * index, 20.0 - 10 * index, 10.0 * index) for index in range(8)]
    frames = [draw_lamp(pose, hue=20 * n, ground=220, seed=n)[0][::2, ::2][:112, :112] for n, pose in enumerate(poses)]
    with torch.no_grad():
        start_from_matching(network, backbone(normalise_pixels(torch.from_numpy(np.stack(frames)))))
        for parameter in network.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape))
    return EdgeCape(TorchRuntime(network, backbone, "toy", device="cpu"))  # type: ignore[arg-type]


def saved_model(folder: Path) -> Path:
    """A model folder that any process can load, with a thin DINOv2 for a backbone."""
    from dataclasses import replace

    from transformers import Dinov2Config, Dinov2Model

    from edgecape.weights.backbones import load_backbone

    torch.manual_seed(0)
    config = Dinov2Config(
        hidden_size=TINY_WIDTH, num_hidden_layers=1, num_attention_heads=2, patch_size=14, image_size=518
    )
    Dinov2Model(config).save_pretrained(folder / "backbone")
    settings = replace(BACKBONE, name=str(folder / "backbone"))
    network = build_network(replace(NETWORK, channels=TINY_WIDTH, width=64, backbone=settings), None)
    backbone, found = load_backbone(settings)
    EdgeCape(TorchRuntime(network, backbone, found, device="cpu")).save_pretrained(folder / "model")
    return folder / "model"
