"""How the same keypoints lie in two pictures: the linear map between them, mirrored or not."""

from __future__ import annotations

import torch
from torch import Tensor

from edgecape.matching.settings import VotingSettings

RIDGE = VotingSettings.ridge


def linear_map(places: Tensor, found: Tensor, weight: Tensor, ridge: float = RIDGE) -> tuple[Tensor, Tensor, Tensor]:
    """The map M (B, 2, 2) with (p − p̄) M ≈ e − ē in the weighted least squares of all keypoints p, e (B, K, 2), drawn
    towards the identity by a ridge; and the weighted means p̄ and ē (B, 1, 2)."""
    weight = weight[..., None]
    total = weight.sum(dim=1, keepdim=True).clamp(min=1e-9)
    from_centre, to_centre = ((weight * x).sum(dim=1, keepdim=True) / total for x in (places, found))
    p, e = places - from_centre, found - to_centre
    identity = ridge * torch.eye(2, device=p.device, dtype=p.dtype)
    gram = (weight * p).transpose(1, 2) @ p + identity
    cross = (weight * p).transpose(1, 2) @ e + identity
    return adjugate(gram) @ cross / determinant(gram)[:, None, None], from_centre, to_centre


def is_mirrored(places: Tensor, others: Tensor, visible: Tensor, ridge: float = RIDGE) -> Tensor:
    """Whether keypoints (B, K, 2) lie as in a mirror to the same keypoints elsewhere (B, K, 2): (B,) bool."""
    linear, _, _ = linear_map(places, others, visible.to(places.dtype), ridge)
    return determinant(linear) < 0


def asymmetry(places: Tensor, usable: Tensor) -> Tensor:
    """How far each keypoint, seen in a mirror, is from the nearest other one, relative to their mean distance from the
    middle: places (B, K, 2), usable (B, K) → (B,), 0 for a face from the front."""
    counts = usable.to(places.dtype)[..., None]
    number = counts.sum(dim=1, keepdim=True).clamp(min=1)
    middle = places - (places * counts).sum(dim=1, keepdim=True) / number
    mirrored = middle * middle.new_tensor((-1.0, 1.0))
    apart = (mirrored[:, :, None] - middle[:, None]).norm(dim=-1).masked_fill(~usable[:, None], float("inf"))
    nearest = apart.amin(dim=-1).masked_fill(~usable, 0.0).sum(dim=1)
    extent = (middle.norm(dim=-1) * counts[..., 0]).sum(dim=1)
    return nearest / extent.clamp(min=1e-6)


def determinant(matrix: Tensor) -> Tensor:
    """Of (B, 2, 2), written out: exported graphs have no linear algebra."""
    return matrix[:, 0, 0] * matrix[:, 1, 1] - matrix[:, 0, 1] * matrix[:, 1, 0]


def adjugate(matrix: Tensor) -> Tensor:
    a, b, c, d = matrix[:, 0, 0], matrix[:, 0, 1], matrix[:, 1, 0], matrix[:, 1, 1]
    return torch.stack((d, -b, -c, a), dim=-1).unflatten(-1, (2, 2))
