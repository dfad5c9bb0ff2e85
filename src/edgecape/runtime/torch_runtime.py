"""A model in torch: backbone with LoRA folded in, MultiView, calibration, on one device."""

from __future__ import annotations

import hashlib
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgecape.errors import WeightsError
from edgecape.matching.multiview import MultiView, Shots, SupportViews
from edgecape.matching.network import lora_of, matching_of
from edgecape.matching.scores import Calibration, probabilities
from edgecape.matching.views import Picture, show
from edgecape.model.backbone import Backbone, normalise_pixels
from edgecape.model.network import Network
from edgecape.model.pose_graph import PoseGraph
from edgecape.runtime.base import Floats, Frames, Located, SupportArrays
from edgecape.types import Prompt
from edgecape.weights.backbones import fingerprint, load_backbone
from edgecape.weights.config import ModelConfig
from edgecape.weights.official import read_official
from edgecape.weights.store import find_model, load_model, save_model

FRAMES = 16  # that pass the backbone at once


class TorchRuntime:
    def __init__(
        self,
        network: Network,
        backbone: Backbone,
        backbone_fingerprint: str,
        calibration: Calibration | None = None,
        training: dict[str, Any] | None = None,
        device: str | torch.device | None = None,
    ):
        if backbone.channels != network.settings.channels:
            wanted = f"the network expects {network.settings.channels}"
            raise WeightsError(f"the backbone gives {backbone.channels} channels, {wanted}; they do not go together")
        self.network, self.backbone = network.eval(), backbone.eval()
        self.backbone_fingerprint, self.calibration = backbone_fingerprint, calibration
        self.training = training or {}
        self.multiview = MultiView(self.network)
        tensors = fingerprint(self.network.state_dict())
        self.fingerprint = hashlib.sha256(f"{tensors}{self.config.identity()}".encode()).hexdigest()[:16]
        lora = lora_of(self.network)
        self.folded = self.backbone if lora is None else lora.fold(self.backbone)
        self.to(device or best_device())

    # --- loading and saving ------------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        source: str | os.PathLike[str] | None = None,
        device: str | torch.device | None = None,
        phase: int | None = None,
    ) -> TorchRuntime:
        """The default model, a saved folder, a hub id, or an official checkpoint (.pth)."""
        if source is not None and Path(source).suffix in (".pth", ".pt"):
            official = read_official(Path(source), phase)
            network = Network(official.settings)
            network.load_state_dict(official.head)
            backbone, found = load_backbone(official.settings.backbone, official.backbone)
            return cls(network, backbone, found, training={"converted_from": Path(source).name}, device=device)
        stored = load_model(find_model(source))
        config = stored.config
        network = stored.network()
        backbone, found = load_backbone(config.network.backbone, stored.backbone)
        trained_on = config.backbone_fingerprint
        if stored.backbone is not None:
            found = trained_on or found  # stored at its resampled grid, so it hashes to something else
        elif trained_on not in (None, found):
            warnings.warn(
                f"this head was trained on backbone {trained_on}, but {found} is used; results may differ", stacklevel=3
            )
        calibration = None if config.calibration is None else Calibration.from_dict(config.calibration)
        return cls(network, backbone, found, calibration, config.training, device)

    @property
    def config(self) -> ModelConfig:
        return ModelConfig(
            self.network.settings,
            matching_of(self.network),
            self.backbone_fingerprint,
            None if self.calibration is None else self.calibration.to_dict(),
            self.training,
        )

    def save(
        self, folder: str | os.PathLike[str], with_backbone: bool = False, dtype: torch.dtype = torch.float32
    ) -> None:
        """Write config.json and model.safetensors; with_backbone makes the folder self-contained."""
        backbone = self.backbone.checkpoint_state() if with_backbone else None
        save_model(folder, self.config, self.network.state_dict(), backbone, dtype)

    def to(self, device: str | torch.device) -> TorchRuntime:
        self.device = torch.device(device)
        for part in (self.network, self.backbone, self.folded):
            part.to(self.device)
        return self

    # --- supports and queries ----------------------------------------------------------------------------

    @property
    def size(self) -> tuple[int, int]:
        return self.backbone.settings.image_size

    @property
    def pictures(self) -> tuple[Picture, ...]:
        return self.multiview.pictures

    def features(self, frames: Frames) -> Tensor:
        """Frames (n, h, w, 3) → features (n, C, h, w)."""
        parts = [
            self.folded(normalise_pixels(torch.from_numpy(frames[start : start + FRAMES]).to(self.device)))
            for start in range(0, len(frames), FRAMES)
        ]
        return torch.cat(parts)

    @torch.inference_mode()
    def encode(
        self,
        frames: Frames,
        coordinates: Floats,
        visible: NDArray[np.bool_],
        prior: Floats,
        flip_index: NDArray[np.int64] | None,
    ) -> SupportArrays:
        features = self.features(frames.reshape(-1, *frames.shape[2:])).unflatten(0, frames.shape[:2])
        shots = Shots(features[None], self._tensor(coordinates))
        flip = None if flip_index is None else torch.from_numpy(flip_index).to(self.device)
        found = self.multiview.encode(shots, self._tensor(visible), self._tensor(prior), flip)
        views = np.array([(view % 2, view // 2) for view in self.multiview.views], dtype=np.int64)
        arrays = (tensor[0].float().cpu().numpy().copy() for tensor in (found.tokens, found.places, *found.graph))
        tokens, places, prior, weights, graph = arrays
        return SupportArrays(tokens, places, views, prior, weights, graph)

    @torch.inference_mode()
    def locate(self, frames: Frames, prompt: Prompt) -> Located:
        pictures = np.stack([show(frame, view) for frame in frames for view in self.multiview.query_views])
        query = self.features(pictures).unflatten(0, (len(frames), -1))  # (N, R, C, h, w)
        estimate = self.multiview(query, self._support(prompt).expand(len(frames)))
        found = (estimate.output.coordinates[-1], probabilities(estimate, self.calibration))
        return Located(*(tensor.cpu().numpy() for tensor in (*found, estimate.output.proposals.peak)))

    def _support(self, prompt: Prompt) -> SupportViews:
        graph = PoseGraph(*(self._tensor(matrix) for matrix in (prompt.prior, prompt.weights, prompt.graph)))
        flip = None if prompt.flip_index is None else torch.from_numpy(prompt.flip_index).to(self.device)
        tokens, places, usable = (self._tensor(array) for array in (prompt.tokens, prompt.places, prompt.usable))
        return SupportViews(tokens, places, usable, graph, flip)

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        """As a batch of one."""
        return torch.from_numpy(array).to(self.device)[None]


def best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
