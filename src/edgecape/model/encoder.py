"""Encoder: image cells and keypoint tokens refine each other in one sequence."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgecape.model.attention import Attention, key_bias
from edgecape.model.linear import Linear
from edgecape.model.settings import NetworkSettings


class EncoderLayer(nn.Module):
    def __init__(self, settings: NetworkSettings):
        super().__init__()
        width, dropout = settings.width, settings.dropout
        self.attention = Attention(width, settings.heads, dropout)
        self.linear1 = Linear(width, settings.ffn)
        self.linear2 = Linear(settings.ffn, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, position: Tensor, bias: Tensor) -> Tensor:
        x = x + position  # into the stream itself: values and residual carry the position too
        x = self.norm1(x + self.dropout(self.attention(x, x, x, bias)))
        return self.norm2(x + self.dropout(self.linear2(self.dropout(F.relu(self.linear1(x))))))


class Encoder(nn.Module):
    def __init__(self, settings: NetworkSettings):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.encoder_layers))

    def forward(self, image: Tensor, position: Tensor, keypoints: Tensor, usable: Tensor) -> tuple[Tensor, Tensor]:
        """image (B, hw, d), position (hw, d), keypoints (B, K, d), usable (B, K) → refined image and keypoints."""
        cells = image.shape[1]
        x = torch.cat((image, keypoints), dim=1)
        position = torch.cat((position, position.new_zeros(keypoints.shape[1], position.shape[1])))
        every_cell = usable.new_ones(usable.shape[0], cells)
        bias = key_bias(torch.cat((every_cell, usable), dim=1))
        for layer in self.layers:
            x = layer(x, position, bias)
        return x[:, :cells], x[:, cells:]
