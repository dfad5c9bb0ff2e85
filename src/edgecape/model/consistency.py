"""Keypoints that look alike are told apart by each other (ours; not in the paper).

Similarity alone decides for each keypoint by itself. Here, first, a cell counts for the keypoint that it resembles
most: two eyes cannot both be the right one. Then the keypoints' guesses vote for each other along the pose-graph:
neighbour j, found at e_j, expects keypoint k at e_j + M (p_k − p_j), where p are places in the support and M is the
linear map from support to query that fits all guesses best. The similarity is then read again, with a preference for
the expected place. How strong the preference is, the keypoints say themselves: where most of them are found as
expected, as on a face or a wing, the others had better be too; where they are not, as on a running dog, it is weak.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from edgecape.model.proposals import Proposals, cell_centres, locate

ROUNDS = 2
SHARPNESS = 1.5  # similarity is trained to be right cell by cell; to agree it has to take sides
SPREAD = (0.08, 0.25)  # of the frame: least and most that keypoints are taken to be off their expected places
STIFFNESS = 0.005  # how much evidence it takes to believe in a turned or scaled object
DOUBT = 0.3  # how much the evidence counts when the places where a keypoint may be are weighed against each other


class Agreement(NamedTuple):
    expected: Tensor  # (B, K, 2), where the neighbours expect a keypoint
    mass: Tensor  # (B, K, h, w), how likely it is in each cell when they are listened to; sums to 1
    fit: Tensor  # (B, 3), how well query and support fit: likelihood, log of the spread, distortion by M


def claimed(similarity: Tensor, usable: Tensor) -> Tensor:
    """Logits (B, K, h, w) of a keypoint being at a cell *and* of the cell being this keypoint's and no other's."""
    whose = similarity.masked_fill(~usable[..., None, None], float("-inf")).log_softmax(dim=1)
    return similarity + torch.where(usable[..., None, None], whose, 0.0)


def agree(proposals: Proposals, places: Tensor, usable: Tensor, A_norm: Tensor) -> Agreement:
    """places (B, K, 2): of the keypoints in the support, in [0, 1]; usable (B, K); Ã (B, K, K). Gradients of `expected`
    reach the graph only."""
    similarity = SHARPNESS * proposals.similarity.detach()
    h, w = similarity.shape[-2:]
    centres = cell_centres(h, w, similarity.device).to(similarity.dtype)
    within_two_hops = (A_norm + A_norm @ A_norm) / 2 * (1 - torch.eye(A_norm.shape[-1], device=A_norm.device))
    logits = claimed(similarity, usable)
    peak, logits = locate(logits).peak, logits.flatten(2)
    now = logits
    for _ in range(ROUNDS):
        mass = now.softmax(dim=-1)
        confidence = mass.amax(dim=-1) * usable  # (B, K)
        expected = from_neighbours(places, mass @ centres, confidence, within_two_hops)
        off = (peak - expected.detach()).square().sum(dim=-1) / 2
        spread = (_mean(off, confidence) + 1e-8).sqrt().clamp(*SPREAD)  # (B,)
        away = (centres - expected.detach()[:, :, None]).square().sum(dim=-1)  # (B, K, hw)
        now = logits - away / (2 * spread[:, None, None] ** 2)
        peak = locate(now.unflatten(-1, (h, w))).peak
    linear, _, _ = linear_map(places, peak, confidence)
    distortion = (linear - torch.eye(2, device=linear.device)).flatten(1).norm(dim=-1)
    likelihood = _mean(now.amax(dim=-1), usable.to(now.dtype))
    mass = (DOUBT * now).softmax(dim=-1).unflatten(-1, (h, w))
    return Agreement(expected, mass, torch.stack((likelihood, spread.log(), distortion), dim=-1))


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    """Weighted over the keypoints: (B, K) → (B,)."""
    return (values * weight).sum(dim=-1) / weight.sum(dim=-1).clamp(min=1e-9)


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
    return adjugate(gram) @ cross / determinant(gram)[:, None, None], from_centre, to_centre


def faces_away(places: Tensor, others: Tensor, visible: Tensor) -> Tensor:
    """Whether keypoints (B, K, 2) lie as in a mirror to the same keypoints elsewhere (B, K, 2): (B,) bool."""
    linear, _, _ = linear_map(places, others, visible.to(places.dtype))
    return determinant(linear) < 0


def quarters_between(places: Tensor, others: Tensor, visible: Tensor) -> Tensor:
    """By how many quarter turns, as of `geometry.quarter_turn`, keypoints (B, K, 2) come to lie as they do elsewhere
    (B, K, 2), or nearly so: (B,), 0 to 3."""
    weight = visible.to(places.dtype)[..., None]
    number = weight.sum(dim=1, keepdim=True).clamp(min=1)
    p, e = ((x - (weight * x).sum(dim=1, keepdim=True) / number) * weight for x in (places, others))
    along = (p * e).sum(dim=(1, 2))
    across = (p[..., 0] * e[..., 1] - p[..., 1] * e[..., 0]).sum(dim=1)
    return torch.round(-torch.atan2(across, along) / (torch.pi / 2)).long() % 4


def determinant(matrix: Tensor) -> Tensor:
    """Of (B, 2, 2), written out: exported graphs have no linear algebra."""
    return matrix[:, 0, 0] * matrix[:, 1, 1] - matrix[:, 0, 1] * matrix[:, 1, 0]


def adjugate(matrix: Tensor) -> Tensor:
    a, b, c, d = matrix[:, 0, 0], matrix[:, 0, 1], matrix[:, 1, 0], matrix[:, 1, 1]
    return torch.stack((d, -b, -c, a), dim=-1).unflatten(-1, (2, 2))
