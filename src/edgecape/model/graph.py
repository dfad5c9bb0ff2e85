"""Pose-graphs as tensors: normalisation, hop powers, distances, wrong and dropped edges.

Pure functions on tensors. An adjacency is (..., K, K), symmetric, without self-loops unless said otherwise;
`mask` is (..., K) and true where a keypoint is usable."""

from __future__ import annotations

import torch
from torch import Tensor

EPS = 1e-8  # of the reference's row normalisation


def mask_adjacency(A: Tensor, mask: Tensor) -> Tensor:
    """Remove all edges of unusable keypoints."""
    usable = mask.to(A.dtype)
    return A * usable[..., :, None] * usable[..., None, :]


def row_normalise(A: Tensor) -> Tensor:
    """Ã: each row divided by its sum; the row of an isolated keypoint stays 0."""
    return A / (A.sum(dim=-1, keepdim=True) + EPS)


def hop_powers(A_norm: Tensor, hops: int) -> Tensor:
    """[I, Ã, Ã², …, Ã^hops]: (..., K, K) → (hops+1, ..., K, K)."""
    identity = torch.eye(A_norm.shape[-1], dtype=A_norm.dtype, device=A_norm.device).expand_as(A_norm)
    powers = [identity]
    for _ in range(hops):
        powers.append(powers[-1] @ A_norm)
    return torch.stack(powers)


def hop_distances(A: Tensor, limit: int) -> Tensor:
    """Shortest-path length between keypoints as integers, `limit` + 1 where it is longer or there is no path."""
    step = (A > 0).to(A.dtype)
    reached = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device).expand_as(A)
    distance = torch.full_like(A, limit + 1)
    distance[reached > 0] = 0
    for hop in range(1, limit + 1):
        reached = ((reached + reached @ step) > 0).to(A.dtype)
        distance = torch.where((reached > 0) & (distance > hop), torch.full_like(distance, hop), distance)
    return distance.long()


def add_random_edges(A: Tensor, generator: torch.Generator, n: int) -> Tensor:
    """`A` (K, K) with up to n wrong edges among the pairs that are not connected."""
    i, j = torch.nonzero(torch.triu(1 - (A > 0).to(A.dtype), diagonal=1), as_tuple=True)
    chosen = torch.randperm(len(i), generator=generator)[:n]
    noisy = A.clone()
    noisy[i[chosen], j[chosen]] = noisy[j[chosen], i[chosen]] = 1.0
    return noisy


def drop_random_edges(A: Tensor, generator: torch.Generator, share: float) -> Tensor:
    """`A` (K, K) with each edge removed with probability `share`."""
    i, j = torch.nonzero(torch.triu(A, diagonal=1), as_tuple=True)
    dropped = torch.rand(len(i), generator=generator) < share
    thinned = A.clone()
    thinned[i[dropped], j[dropped]] = thinned[j[dropped], i[dropped]] = 0.0
    return thinned
