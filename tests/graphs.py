"""Skeletons as tensors, and edges back from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from edgecape import skeleton


def adjacency(edges: Iterable[Sequence[int]], K: int) -> Tensor:
    return torch.from_numpy(skeleton.adjacency(edges, K))


def fully_connected(K: int) -> Tensor:
    return torch.from_numpy(skeleton.fully_connected(K))


def edges_of(A: Tensor, threshold: float = 0.0) -> list[tuple[int, int]]:
    """Edges i < j whose weight exceeds `threshold`."""
    i, j = torch.nonzero(torch.triu(A, diagonal=1) > threshold, as_tuple=True)
    return list(zip(i.tolist(), j.tolist(), strict=True))
