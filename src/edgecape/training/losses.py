"""What training minimises: L_offset + λ·L_adj. Coordinates are (x, y) in [0, 1] of the query frame."""

from __future__ import annotations

import torch
from torch import Tensor

from edgecape.model.network import Output


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    """Of values (B, K): over the keypoints of a sample that count, then over the batch."""
    counts = weight.to(values.dtype)
    return ((values * counts).sum(dim=-1) / counts.sum(dim=-1).clamp(min=1)).mean()


def mean_distance(coordinates: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """L1 distance of points (B, K, 2), summed over x and y, averaged over the keypoints of a sample that count
    (weight (B, K), bool) and then over the batch. A sample without such keypoints adds 0."""
    return _mean((coordinates - target).abs().sum(dim=-1), weight)


def offset_loss(output: Output, target: Tensor, weight: Tensor) -> dict[str, Tensor]:
    """The terms of L_offset: the proposals and each decoder layer against the true coordinates (B, K, 2).

    weight (B, K): keypoints that are visible in the query and usable in the support.
    """
    terms = {"proposal_loss": mean_distance(output.proposals.expected, target, weight)}
    for layer, coordinates in enumerate(output.coordinates):
        terms[f"l1_loss_layer{layer}"] = mean_distance(coordinates, target, weight)
    return terms


def adjacency_loss(reconstruction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """L_adj: how far *all* keypoints, hidden and shown, are off when some were hidden from the decoder."""
    return mean_distance(reconstruction, target, weight)


def similarity_loss(similarity: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Cross-entropy of the similarity logits (B, K, h, w) against the true place, shared among the four cells round it.

    L1 of an expectation is content with mass on both sides of the truth; this wants the mass *at* the truth.
    """
    h, w = similarity.shape[-2:]
    x, y = target[..., 0] * w - 0.5, target[..., 1] * h - 0.5  # in cells, counted from their centres
    rows = (1 - (torch.arange(h, device=y.device) - y[..., None]).abs()).clamp(min=0)  # (B, K, h)
    columns = (1 - (torch.arange(w, device=x.device) - x[..., None]).abs()).clamp(min=0)
    truth = (rows[..., :, None] * columns[..., None, :]).flatten(2)
    truth = truth / truth.sum(-1, keepdim=True).clamp(min=1e-6)  # at the border the four cells are fewer
    entropy = -(truth * similarity.flatten(2).log_softmax(-1)).sum(-1)  # (B, K)
    return _mean(entropy, weight)
