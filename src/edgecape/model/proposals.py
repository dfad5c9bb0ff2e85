"""Similarity of each keypoint to each image cell, and the first guess of where the keypoint is."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgecape.model.constants import constant
from edgecape.model.linear import Linear


class Proposals(NamedTuple):
    similarity: Tensor  # (B, K, h, w), logits
    expected: Tensor  # (B, K, 2), expectation over all cells: what the loss sees
    peak: Tensor  # (B, K, 2), expectation in the 3×3 window round the maximum: where the decoder starts


@constant
def cell_centres(h: int, w: int, device: torch.device | None = None) -> Tensor:
    """Centres (h · w, 2) of the cells of a feature map as (x, y) in [0, 1]."""
    y, x = torch.meshgrid(torch.arange(h, device=device), torch.arange(w, device=device), indexing="ij")
    return torch.stack(((x.flatten() + 0.5) / w, (y.flatten() + 0.5) / h), dim=-1)


def peak_window(mass: Tensor, h: int, w: int) -> Tensor:
    """1 in the 3×3 window round the largest of masses (B, K, hw), cut at the border; 0 elsewhere."""
    best = F.one_hot(mass.argmax(dim=-1), h * w).to(mass.dtype).unflatten(-1, (h, w))
    return F.max_pool2d(best, kernel_size=3, stride=1, padding=1).flatten(2)


def locate(similarity: Tensor) -> Proposals:
    """Coordinates from similarity logits (B, K, h, w)."""
    h, w = similarity.shape[-2:]
    centres = cell_centres(h, w, similarity.device).to(similarity.dtype)
    mass = similarity.flatten(2).softmax(dim=-1)  # (B, K, hw)
    local = mass * peak_window(mass, h, w)
    local = local / (local.sum(dim=-1, keepdim=True) + 1e-10)
    return Proposals(similarity, mass @ centres, local @ centres)


class ProposalGenerator(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.support_proj = Linear(width, width)
        self.query_proj = Linear(width, width)
        self.dynamic_proj = nn.Sequential(Linear(width, width // 2), nn.ReLU(), Linear(width // 2, width))

    def forward(self, image: Tensor, keypoints: Tensor) -> Tensor:
        """Refined image (B, hw, d) and keypoints (B, K, d) → similarity (B, K, hw)."""
        support = self.support_proj(keypoints)
        support = (1 + torch.tanh(self.dynamic_proj(support))) * support
        return support @ self.query_proj(image).transpose(1, 2)
