"""Frozen image features: DINOv2 with the release's position grid, or any feature-map backbone of `transformers`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgecape.errors import SettingsError
from edgecape.model.dinov2 import Dinov2, Dinov2Shape, FusedBlock
from edgecape.model.settings import BackboneSettings

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def normalise_pixels(frames: Tensor) -> Tensor:
    """RGB uint8 frames (B, h, w, 3) → (B, 3, h, w) with ImageNet mean and deviation removed."""
    pixels = frames.permute(0, 3, 1, 2).float() / 255
    mean = torch.tensor(IMAGENET_MEAN, device=pixels.device)[:, None, None]
    std = torch.tensor(IMAGENET_STD, device=pixels.device)[:, None, None]
    return (pixels - mean) / std


def resample_position_grid(position: Tensor, height: int, width: int) -> Tensor:
    """DINOv2's position embedding (1, 1+n², d) for a grid of height × width patches, exactly as the release does it.

    The release adds 0.1 to the target size before dividing, and samples with that *factor* instead of the size;
    other libraries resample to the size and get features that differ by several per cent.
    """
    class_token, patches = position[:, :1].float(), position[:, 1:].float()
    if patches.shape[1] == height * width:
        return position.float()
    side = round(patches.shape[1] ** 0.5)
    patches = patches.unflatten(1, (side, side)).permute(0, 3, 1, 2)
    factor = ((height + 0.1) / side, (width + 0.1) / side)
    patches = F.interpolate(patches, scale_factor=factor, mode="bicubic", antialias=False)
    return torch.cat((class_token, patches.flatten(2).transpose(1, 2)), dim=1)


# Our names of DINOv2's attention are those of transformers 5; checkpoints keep the names of before
RENAMED = {".attention.o_proj.": ".attention.output.dense."} | {
    f".attention.{new}_proj.": f".attention.attention.{old}."
    for new, old in (("q", "query"), ("k", "key"), ("v", "value"))
}


def checkpoint_name(name: str, state: dict[str, Tensor]) -> str:
    """The checkpoint's name of a parameter of ours."""
    if name not in state:
        for new, old in RENAMED.items():
            name = name.replace(new, old)
    return name


class Backbone(nn.Module):
    """Frames in, one feature map out; frozen unless the settings say otherwise."""

    def __init__(self, config: Any, settings: BackboneSettings):
        """config: a `Dinov2Shape`, or a `transformers` configuration of a model with a backbone class."""
        super().__init__()
        self.settings = settings
        self.is_dinov2 = isinstance(config, Dinov2Shape)
        stages = 1 + config.blocks if self.is_dinov2 else len(config.stage_names)  # stage 0 is the stem
        for layer in settings.layers:
            if not -stages < layer < stages or layer == 0:
                raise SettingsError(f"backbone layer {layer} does not exist; {settings.name} has 1 to {stages - 1}")
        layers = sorted({layer % stages for layer in settings.layers})
        self.norm = None
        if self.is_dinov2:
            height, width = settings.image_size
            # The grid of positions is resampled once, at load time, and fits every frame.
            self.model: Any = Dinov2(config, (height // config.patch, width // config.patch), layers)
        else:
            from transformers import AutoBackbone

            config.out_indices, config.image_size = layers, settings.image_size[0]
            self.model = AutoBackbone.from_config(config)
            # transformers' SwinV2 backbone leaves out the model's final norm, which earlier CAPE work applies
            if config.model_type == "swinv2" and max(layers) == stages - 1:
                self.norm = nn.LayerNorm(self.model.channels[-1])
        self.requires_grad_(settings.trainable)

    @property
    def channels(self) -> int:
        return sum(self.model.channels)

    def load(self, state: dict[str, Tensor]) -> None:
        """Load tensors under the names of hub checkpoints, DINOv2 at the position grid it was trained with."""
        prefix = "dinov2." if self.is_dinov2 else f"{self.model.config.model_type}."
        state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
        if self.is_dinov2:
            key = "embeddings.position_embeddings"
            state[key] = resample_position_grid(state[key], *self.model.grid)
        if self.norm is not None:
            self.norm.load_state_dict({kind: state[f"layernorm.{kind}"] for kind in ("weight", "bias")})
        self.model.load_state_dict({name: state[checkpoint_name(name, state)] for name in self.model.state_dict()})

    def checkpoint_state(self) -> dict[str, Tensor]:
        """Tensors that `load` of a backbone with the same settings takes back; the position grid is as resampled."""
        state = dict(self.model.state_dict())
        if self.norm is not None:
            state |= {f"layernorm.{kind}": tensor for kind, tensor in self.norm.state_dict().items()}
        return state

    def train(self, mode: bool = True) -> Backbone:
        """A frozen backbone stays in eval mode."""
        return super().train(mode and self.settings.trainable)

    def forward(self, pixels: Tensor) -> Tensor:
        """Normalised pixels (B, 3, H, W) → features (B, C, h, w)."""
        return self.lower(pixels)

    def below(self, blocks: int) -> int:
        """How many blocks lie below the last `blocks` in use."""
        wanted = self.model.out_indices
        below = max(wanted) - blocks
        if not (self.is_dinov2 and 0 <= below < min(wanted)):
            raise SettingsError(
                f"the last {blocks} blocks cannot be split off layers {self.settings.layers} of {self.settings.name}: "
                "it must be a DINOv2, and no layer may come from below these blocks"
            )
        return below

    def lower(self, pixels: Tensor, blocks: int = 0) -> Tensor:
        """Tokens (B, 1 + hw, C) below the last `blocks` blocks in use; the features themselves if blocks is 0."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.settings.trainable):
            if blocks:
                tokens: Tensor = self.model.embeddings(pixels)
                for block in self.model.encoder.layer[: self.below(blocks)]:
                    tokens = block(tokens)
                return tokens
            maps = list(self.model(pixels) if self.is_dinov2 else self.model(pixels).feature_maps)
            if self.norm is not None:
                maps[-1] = self.norm(maps[-1].movedim(1, -1)).movedim(-1, 1)
            size = maps[0].shape[-2:]
            return torch.cat([m if m.shape[-2:] == size else F.interpolate(m, size=size) for m in maps], dim=1)

    def upper(self, tokens: Tensor, blocks: int = 0, weights: Sequence[Mapping[str, Tensor]] | None = None) -> Tensor:
        """What `lower` gave → features (B, C, h, w). weights: of the blocks, by name, to be used instead of theirs."""
        if not blocks:
            return tokens
        below, maps = self.below(blocks), []
        for number, block in enumerate(self.model.encoder.layer[below:]):
            own = {} if weights is None else dict(weights[number])
            tokens = torch.func.functional_call(block, own, (tokens,))
            if below + number + 1 in self.model.out_indices:
                maps.append(self.model.as_map(tokens))
        return torch.cat(maps, dim=1)

    def sharing(self) -> Backbone:
        """A copy with the same weights, not with copies of them."""
        shared = {id(tensor): tensor for tensor in (*self.parameters(), *self.buffers())}
        return copy.deepcopy(self, shared)

    def fused(self) -> Backbone:
        """For prediction alone, and faster at it."""
        found = self.sharing()
        if self.is_dinov2:
            found.model.encoder.layer = nn.ModuleList(FusedBlock(block) for block in self.model.encoder.layer)
        return found
