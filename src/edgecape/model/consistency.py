"""Keypoints that look alike are told apart by each other (ours; not in the paper).

Similarity alone decides for each keypoint by itself. Here, first, a cell counts for the keypoint that it resembles
most: two eyes cannot both be the right one. Then the keypoints' guesses vote for each other along the pose-graph:
neighbour j, found at e_j, expects keypoint k at e_j + M (p_k − p_j), where p are places in the support and M is the
linear map from support to query that fits all guesses best. The similarity is then read again, with a preference for
the expected place.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from edgecape.model.proposals import Proposals, cell_centres, locate

ROUNDS = 2
SPREAD = 0.15  # of the frame: how far from its expected place a keypoint may well be
STIFFNESS = 0.005  # how much evidence it takes to believe in a turned or scaled object


class Agreement(NamedTuple):
    expected: Tensor  # (B, K, 2), where the neighbours expect a keypoint
    peak: Tensor  # (B, K, 2), where it is found when they are listened to


def agree(proposals: Proposals, places: Tensor, usable: Tensor, A_norm: Tensor) -> Agreement:
    """places (B, K, 2): of the keypoints in the support, in [0, 1]; usable (B, K); Ã (B, K, K). Gradients of `expected`
    reach the graph only."""
    similarity = proposals.similarity.detach()
    h, w = similarity.shape[-2:]
    centres = cell_centres(h, w, similarity.device).to(similarity.dtype)
    within_two_hops = (A_norm + A_norm @ A_norm) / 2 * (1 - torch.eye(A_norm.shape[-1], device=A_norm.device))
    whose = similarity.masked_fill(~usable[..., None, None], float("-inf")).log_softmax(dim=1)
    claimed = similarity + torch.where(usable[..., None, None], whose, 0.0)
    logits, peak = claimed.flatten(2), locate(claimed).peak
    now = logits
    for _ in range(ROUNDS):
        confidence = now.softmax(dim=-1).amax(dim=-1) * usable  # (B, K)
        expected = from_neighbours(places, peak, confidence, within_two_hops)
        away = (centres - expected.detach()[:, :, None]).square().sum(dim=-1)  # (B, K, hw)
        now = logits - away / (2 * SPREAD**2)
        peak = locate(now.unflatten(-1, (h, w))).peak
    return Agreement(expected, peak)


def from_neighbours(places: Tensor, found: Tensor, confidence: Tensor, votes: Tensor) -> Tensor:
    """Where each keypoint is expected (B, K, 2), given where the others were found (B, K, 2); votes (B, K, K).
    A keypoint without neighbours is expected where the map of all of them puts it."""
    linear, from_centre, to_centre = linear_map(places, found, confidence)
    overall = (places - from_centre) @ linear + to_centre
    votes = votes * confidence[:, None]
    total = votes.sum(dim=-1, keepdim=True)
    offsets = (places[:, :, None] - places[:, None]) @ linear[:, None]  # (B, K, K, 2), from j to k
    local = (votes[..., None] * (found[:, None] + offsets)).sum(dim=2) / total.clamp(min=1e-6)
    return torch.where(total > 1e-4, local, overall)


def linear_map(places: Tensor, found: Tensor, confidence: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The map M (B, 2, 2) with (p − p̄) M ≈ e − ē in the least squares of all keypoints, drawn towards the identity;
    and the weighted means p̄ and ē (B, 1, 2)."""
    weight = confidence[..., None]
    mass = weight.sum(dim=1, keepdim=True).clamp(min=1e-9)
    from_centre, to_centre = ((weight * x).sum(dim=1, keepdim=True) / mass for x in (places, found))
    p, e = places - from_centre, found - to_centre
    identity = STIFFNESS * torch.eye(2, device=p.device, dtype=p.dtype)
    gram = (weight * p).transpose(1, 2) @ p + identity
    cross = (weight * p).transpose(1, 2) @ e + identity
    a, b, c, d = gram[:, 0, 0], gram[:, 0, 1], gram[:, 1, 0], gram[:, 1, 1]  # inverted by hand: also in exported graphs
    adjugate = torch.stack((d, -b, -c, a), dim=-1).unflatten(-1, (2, 2))
    return adjugate @ cross / (a * d - b * c)[:, None, None], from_centre, to_centre
