"""Similarity of each keypoint to each image cell, and the first guess of where the keypoint is."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DIRECT = 10.0  # weight at the start of the cosine of what enters the encoder
NEAR = (0.1, 0.05)  # of the frame: how far about it a place is supported when it is chosen, and when it is refined


class Proposals(NamedTuple):
    similarity: Tensor  # (B, K, h, w), logits
    expected: Tensor  # (B, K, 2), expectation over all cells: what the loss sees
    peak: Tensor  # (B, K, 2), expectation in the 3×3 window round the maximum: where the decoder starts


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


def mass_near(mass: Tensor, places: Tensor) -> Tensor:
    """How much of the mass (B, K, h, w) is near places (B, K, 2): (B, K)."""
    centres = cell_centres(mass.shape[-2], mass.shape[-1], mass.device).to(mass.dtype)
    return (mass.flatten(2) * _nearness(places, centres, NEAR[0])).sum(dim=-1)


def densest(mass: Tensor) -> Tensor:
    """Where most of the mass (B, K, h, w) is *near*, (B, K, 2): a keypoint that may be in one of three cells side by
    side is there rather than in a single cell elsewhere that is a little more likely than each of them."""
    h, w = mass.shape[-2:]
    mass = mass.flatten(2)
    centres = cell_centres(h, w, mass.device).to(mass.dtype)
    place = centres[(mass @ _nearness(centres, centres, NEAR[0])).argmax(dim=-1)]
    for _ in range(4):  # mean shift
        near = mass * _nearness(place, centres, NEAR[1])
        place = near @ centres / (near.sum(dim=-1, keepdim=True) + 1e-12)
    return place


def _nearness(places: Tensor, centres: Tensor, reach: float) -> Tensor:
    """Of places (..., 2) to centres (hw, 2): (..., hw), 1 where they meet."""
    away = (centres - places[..., None, :]).square().sum(dim=-1)
    return torch.exp(-away / (2 * reach**2))


class ProposalGenerator(nn.Module):
    def __init__(self, width: int, direct_match: bool = False):
        super().__init__()
        self.support_proj = nn.Linear(width, width)
        self.query_proj = nn.Linear(width, width)
        self.dynamic_proj = nn.Sequential(nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, width))
        self.direct = nn.Parameter(torch.tensor(DIRECT)) if direct_match else None

    def forward(
        self, image: Tensor, keypoints: Tensor, grid: tuple[int, int], entered: tuple[Tensor, Tensor]
    ) -> Proposals:
        """image (B, hw, d), keypoints (B, K, d), refined and as they entered the encoder."""
        support = self.support_proj(keypoints)
        support = (1 + torch.tanh(self.dynamic_proj(support))) * support
        similarity = support @ self.query_proj(image).transpose(1, 2)  # (B, K, hw)
        if self.direct is not None:
            cells, tokens = (F.normalize(x, dim=-1) for x in entered)
            similarity = similarity + self.direct * tokens @ cells.transpose(1, 2)
        return locate(similarity.unflatten(-1, grid))
