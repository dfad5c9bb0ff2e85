"""Feature maps that move with the photo, as a backbone's nearly do, in all views of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from edgecape.evaluation.evaluate import Task
from edgecape.matching.multiview import MultiView, Shots
from edgecape.matching.views import Picture


def seen(features: Tensor, view: int) -> Tensor:
    """Features (..., C, h, w) in a view. What lies another way also looks another way: the channels change places (four
    steps per quarter turn; a turn to the left is one to the right in a mirror, for the channels too)."""
    turned = torch.rot90(features, view // 2, (-2, -1)).roll(4 * (view // 2), dims=-3)
    return turned.flip(-1).roll(-1, dims=-3).flip(-3) if view % 2 else turned


def moved(coordinates: Tensor, view: int) -> Tensor:
    """Coordinates (..., 2) in [0, 1] in a view."""
    x, y = coordinates.unbind(-1)
    x, y = [(x, y), (y, 1 - x), (1 - x, 1 - y), (1 - y, x)][view // 2]
    return torch.stack((1 - x if view % 2 else x, y), dim=-1)


def shots(features: Tensor, coordinates: Tensor, pictures: Sequence[Picture]) -> Shots:
    """Supports (B, S, C, h, w) with keypoints (B, S, K, 2) in pictures of them; of another scale they look the same,
    but keypoints are further from the middle."""
    placed = [0.5 + (moved(coordinates, view) - 0.5) / scale for view, scale in pictures]
    return Shots(torch.stack([seen(features, view) for view, _ in pictures], dim=1), torch.stack(placed, dim=1))


def queries(features: Tensor, views: Sequence[int]) -> Tensor:
    """(B, C, h, w) → (B, R, C, h, w)."""
    return torch.stack([seen(features, view) for view in views], dim=1)


def encode(multiview: MultiView, features: Tensor, coordinates: Tensor, visible: Tensor, prior: Tensor, flip=None):
    """As `MultiView.encode`, of supports (B, S, C, h, w)."""
    return multiview.encode(shots(features, coordinates, multiview.pictures), visible, prior, flip)


def task(
    features: Tensor, coordinates: Tensor, visible: Tensor, prior: Tensor, query: Tensor, flip: Tensor | None = None
) -> Task:
    """Of supports (S, C, h, w) and queries (Q, C, h, w)."""
    return Task(
        lambda pictures: shots(features[None], coordinates[None], pictures),
        lambda views: queries(query, views),
        visible,
        prior,
        flip,
    )
