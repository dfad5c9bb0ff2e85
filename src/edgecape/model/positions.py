"""Sine position embeddings of image cells and of keypoint coordinates (the same waves for both)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from edgecape.model.constants import constant

TEMPERATURE = 10000


def sine_of_coordinates(coordinates: Tensor, width: int) -> Tensor:
    """Coordinates (..., 2) as (x, y) in [0, 1] → (..., width): half of the channels for y, then half for x."""
    feats = width // 2
    index = torch.arange(feats, device=coordinates.device)
    frequency = TEMPERATURE ** (2 * torch.div(index, 2, rounding_mode="floor") / feats)
    angle = coordinates.flip(-1)[..., None] * (2 * math.pi) / frequency  # (..., 2, feats), y first
    waves = torch.stack((angle[..., 0::2].sin(), angle[..., 1::2].cos()), dim=-1)  # interleaved sin, cos
    return waves.flatten(-3)


@constant
def sine_of_grid(height: int, width: int, channels: int, device: torch.device | None = None) -> Tensor:
    """Embedding (height · width, channels) of the cells of a feature map, row by row, counted from 1."""
    y = torch.arange(1, height + 1, device=device) / (height + 1e-6)
    x = torch.arange(1, width + 1, device=device) / (width + 1e-6)
    grid = torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1)  # (height, width, 2) as (x, y)
    return sine_of_coordinates(grid, channels).flatten(0, 1)
