"""A model in torch: backbone with LoRA folded in, MultiView, calibration, on one device."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgecape.errors import WeightsError
from edgecape.matching.multiview import MultiView, SupportViews
from edgecape.matching.network import lora_of, matching_of
from edgecape.matching.scores import Calibration, probabilities
from edgecape.model.backbone import Backbone, normalise_pixels
from edgecape.model.network import Network
from edgecape.model.pose_graph import PoseGraph
from edgecape.runtime.base import Floats, Frames, Graph, Located, Runtime, Views, flip_index_of
from edgecape.types import Prompt
from edgecape.weights.backbones import fingerprint, load_backbone
from edgecape.weights.config import ModelConfig
from edgecape.weights.official import read_official
from edgecape.weights.store import find_model, load_model, save_model

FRAMES = 16  # that pass the backbone at once


class TorchRuntime(Runtime[Tensor]):
    def __init__(
        self,
        network: Network,
        backbone: Backbone,
        backbone_fingerprint: str,
        calibration: Calibration | None = None,
        training: dict[str, Any] | None = None,
        device: str | torch.device | None = None,
    ):
        super().__init__()
        if backbone.channels != network.settings.channels:
            wanted = f"the network expects {network.settings.channels}"
            raise WeightsError(f"the backbone gives {backbone.channels} channels, {wanted}; they do not go together")
        self.network, self.backbone = network.eval(), backbone.eval()
        self.backbone_fingerprint, self.calibration = backbone_fingerprint, calibration
        self.training = training or {}
        self.size = backbone.settings.image_size
        self.multiview = MultiView(self.network)
        self.scales = self.multiview.settings.views.scales
        self.views, self.query_views = self.multiview.views, self.multiview.query_views
        tensors = fingerprint(self.network.state_dict())
        self.fingerprint = hashlib.sha256(f"{tensors}{self.config.identity()}".encode()).hexdigest()[:16]
        lora = lora_of(self.network)
        self.folded = (self.backbone if lora is None else lora.fold(self.backbone)).fused()
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
        self.forget()
        return self

    # --- supports and queries ----------------------------------------------------------------------------

    @torch.inference_mode()
    def features(self, frames: Frames) -> Tensor:
        parts = [
            self.folded(normalise_pixels(torch.from_numpy(frames[start : start + FRAMES]).to(self.device)))
            for start in range(0, len(frames), FRAMES)
        ]
        return torch.cat(parts)

    def stack(self, features: Sequence[Tensor], dim: int) -> Tensor:
        return torch.stack(list(features), dim=dim)

    def grid(self, features: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
        return torch.stack(list(features)).unflatten(0, shape)

    def take(self, features: Tensor, row: Any) -> Tensor:
        return features[row]

    @torch.inference_mode()
    def encode_views(
        self, features: Tensor, places: Floats, seen: NDArray[np.bool_], prior: Floats
    ) -> tuple[Views, Graph]:
        tokens, means, graph = [], [], None
        for of_view, where in zip(features, places, strict=True):
            shown = (of_view[None], self._tensor(where), self._tensor(seen), self._tensor(prior))
            of_supports, there, graph = self.multiview.encode_view(*shown, graph=graph)
            tokens.append(of_supports[0])
            means.append(there[0])
        assert graph is not None
        found = Views(*(_numpy(torch.stack(parts, dim=1)) for parts in (tokens, means)))
        return found, Graph(*(_numpy(matrix[0]) for matrix in graph))

    @torch.inference_mode()
    def compare(
        self, features: Tensor, support: Views, prompt: Prompt, fast: bool
    ) -> tuple[Located, NDArray[np.bool_]]:
        graph = PoseGraph(*(self._tensor(matrix) for matrix in (prompt.prior, prompt.weights, prompt.graph)))
        flip = torch.from_numpy(flip_index_of(prompt)).to(self.device)
        tokens, places, usable = (self._tensor(array) for array in (*support, prompt.usable))
        views = SupportViews(tokens, places, usable, graph, flip).expand(len(features))
        estimate = self.multiview(features, views, fast)
        output = estimate.output
        found = (output.coordinates[-1], probabilities(estimate, self.calibration), output.proposals.peak)
        coordinates, scores, proposals = (_numpy(tensor) for tensor in found)
        ways = np.full(len(features), not fast)
        return Located(coordinates, scores, proposals, ways), estimate.clear.cpu().numpy()

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        """As a batch of one."""
        return torch.from_numpy(array).to(self.device)[None]


def _numpy(tensor: Tensor) -> Floats:
    return tensor.float().cpu().numpy().copy()


def best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
