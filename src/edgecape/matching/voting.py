"""Affine voting: keypoints that look alike are told apart by each other.

Similarity alone decides for each keypoint by itself. Here a cell first counts for the keypoint it resembles most
(`dual_softmax`). Then keypoints vote for each other's places along the pose-graph: neighbour j, found at e_j, votes for
keypoint k at e_j + M (p_k − p_j), where p are places in the support and M is the linear map from support to query that
fits all keypoints best. The similarity is read again with a Gaussian prior round the voted place. Its σ is measured:
small where most keypoints are found where they were voted, as on a face; large where they are not, as on a running dog.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from edgecape.matching.alignment import linear_map
from edgecape.matching.settings import VotingSettings
from edgecape.model.proposals import cell_centres, locate


class Votes(NamedTuple):
    voted: Tensor  # (B, K, 2), where the neighbours vote a keypoint to be
    heatmap: Tensor  # (B, K, h, w), probability of each cell, votes included; sums to 1
    fit: Tensor  # (B, 3), how well query and support fit: likelihood, log σ, distortion by M


def dual_softmax(similarity: Tensor, usable: Tensor) -> Tensor:
    """Logits (B, K, h, w) of a keypoint being at a cell *and* of the cell being this keypoint's and no other's."""
    return similarity + whose_cell(similarity, usable)


def whose_cell(similarity: Tensor, usable: Tensor) -> Tensor:
    """Log-probability (B, K, h, w) of a cell being this keypoint's and no other's; 0 for one that is not usable."""
    whose = similarity.masked_fill(~usable[..., None, None], float("-inf")).log_softmax(dim=1)
    return torch.where(usable[..., None, None], whose, 0.0)


def vote(similarity: Tensor, places: Tensor, usable: Tensor, A_norm: Tensor | None, settings: VotingSettings) -> Votes:
    """similarity (B, K, h, w), logits; places (B, K, 2): of the keypoints in the support, in [0, 1]; usable (B, K);
    Ã (B, K, K), None for no edges. Gradients of `voted` reach the graph only."""
    similarity = settings.similarity_scale * similarity.detach()
    h, w = similarity.shape[-2:]
    centres = cell_centres(h, w, similarity.device).to(similarity.dtype)
    neighbours = None if A_norm is None else within_two_hops(A_norm)
    logits = dual_softmax(similarity, usable)
    peak, logits = locate(logits).peak, logits.flatten(2)
    now = logits
    for _ in range(settings.rounds):
        mass = now.softmax(dim=-1)
        confidence = mass.amax(dim=-1) * usable  # (B, K)
        voted = from_neighbours(places, mass @ centres, confidence, neighbours, settings.ridge)
        off = (peak - voted.detach()).square().sum(dim=-1) / 2
        sigma = (_mean(off, confidence) + 1e-8).sqrt().clamp(*settings.sigma_range)  # (B,)
        away = (centres - voted.detach()[:, :, None]).square().sum(dim=-1)  # (B, K, hw)
        now = logits - away / (2 * sigma[:, None, None] ** 2)
        peak = locate(now.unflatten(-1, (h, w))).peak
    linear, _, _ = linear_map(places, peak, confidence, settings.ridge)
    distortion = (linear - torch.eye(2, device=linear.device)).flatten(1).norm(dim=-1)
    likelihood = _mean(now.amax(dim=-1), usable.to(now.dtype))
    heatmap = (settings.heatmap_scale * now).softmax(dim=-1).unflatten(-1, (h, w))
    return Votes(voted, heatmap, torch.stack((likelihood, sigma.log(), distortion), dim=-1))


def within_two_hops(A_norm: Tensor) -> Tensor:
    """How much each keypoint's vote counts for each other one (B, K, K), from Ã."""
    return (A_norm + A_norm @ A_norm) / 2 * (1 - torch.eye(A_norm.shape[-1], device=A_norm.device))


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    """Weighted over the keypoints: (B, K) → (B,)."""
    return (values * weight).sum(dim=-1) / weight.sum(dim=-1).clamp(min=1e-9)


def from_neighbours(places: Tensor, found: Tensor, confidence: Tensor, votes: Tensor | None, ridge: float) -> Tensor:
    """Where each keypoint is voted to be (B, K, 2), given where all were found (B, K, 2); votes (B, K, K) or None.
    A keypoint without neighbours is put where the map of all keypoints puts it."""
    linear, from_centre, to_centre = linear_map(places, found, confidence, ridge)
    overall = (places - from_centre) @ linear + to_centre
    if votes is None:
        return overall
    votes = votes * confidence[:, None]
    total = votes.sum(dim=-1, keepdim=True)
    offsets = (places[:, :, None] - places[:, None]) @ linear[:, None]  # (B, K, K, 2), from j to k
    local = (votes[..., None] * (found[:, None] + offsets)).sum(dim=2) / total.clamp(min=1e-6)
    return torch.where(total > 1e-4, local, overall)


def logits_of(heatmap: Tensor) -> Tensor:
    """The logarithm of probabilities, finite."""
    return heatmap.clamp(min=1e-12).log()


def heatmap_of(logits: Tensor) -> Tensor:
    """Probabilities of all cells from logits (B, K, h, w)."""
    return logits.flatten(2).softmax(dim=-1).view_as(logits)


def mean_shift_mode(heatmap: Tensor, near: tuple[float, float]) -> Tensor:
    """Where most of the probability (B, K, h, w) is *near*: (B, K, 2). Three likely cells side by side win over a
    single one elsewhere that is a little likelier than each of them."""
    h, w = heatmap.shape[-2:]
    heatmap = heatmap.flatten(2)
    centres = cell_centres(h, w, heatmap.device).to(heatmap.dtype)
    place = centres[(heatmap @ _gaussian(centres, centres, near[0])).argmax(dim=-1)]
    for _ in range(4):
        close = heatmap * _gaussian(place, centres, near[1])
        place = close @ centres / (close.sum(dim=-1, keepdim=True) + 1e-12)
    return place


def probability_within(heatmap: Tensor, points: Tensor, radius: float) -> Tensor:
    """How much of the probability (B, K, h, w) is near points (B, K, 2), by a Gaussian of that radius: (B, K)."""
    centres = cell_centres(heatmap.shape[-2], heatmap.shape[-1], heatmap.device).to(heatmap.dtype)
    return (heatmap.flatten(2) * _gaussian(points, centres, radius)).sum(dim=-1)


def _gaussian(points: Tensor, centres: Tensor, radius: float) -> Tensor:
    """Of points (..., 2) at centres (hw, 2): (..., hw), 1 where they meet."""
    away = (centres - points[..., None, :]).square().sum(dim=-1)
    return torch.exp(-away / (2 * radius**2))
