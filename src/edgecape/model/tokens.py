"""Support keypoints → tokens: the support feature map averaged under a small Gaussian round each keypoint."""

from __future__ import annotations

import torch
from torch import Tensor

SIGMA = 1.0  # of the Gaussian, in map cells
RADIUS = 3  # of its 7×7 window, in map cells


def _gaussian_rows(centre: Tensor, size: int) -> Tensor:
    """One axis of the Gaussian, cut to its window and to the map: centre (...) → (..., size)."""
    offset = torch.arange(size, device=centre.device) - centre[..., None]
    return torch.where(offset.abs() <= RADIUS, torch.exp(-(offset**2) / (2 * SIGMA**2)), 0.0)


def _resize_matrix(size: int, grid: int, like: Tensor) -> Tensor:
    """Bilinear resize (align_corners False) of `grid` feature cells to `size` map cells as a (size, grid) matrix."""
    identity = torch.eye(grid, device=like.device, dtype=like.dtype)[None]
    return torch.nn.functional.interpolate(identity, size=size, mode="linear", align_corners=False)[0].T


def gaussian_axes(coordinates: Tensor, image_size: tuple[int, int], stride: float) -> tuple[Tensor, Tensor]:
    """The separable factors (..., map height) and (..., map width) of each keypoint's Gaussian map, peak 1.

    coordinates (..., 2): (x, y) normalised to [0, 1] in the frame.
    """
    height, width = (round(side / stride) for side in image_size)
    frame = torch.tensor([image_size[1], image_size[0]], device=coordinates.device, dtype=coordinates.dtype)
    centre = torch.trunc(coordinates * frame / stride + 0.5)  # as the reference: towards 0, also outside the frame
    return _gaussian_rows(centre[..., 1], height), _gaussian_rows(centre[..., 0], width)


def pooling_from_maps(maps: Tensor, grid: tuple[int, int]) -> Tensor:
    """Keypoint maps (..., h, w) → weights (..., grid h, grid w) that pool the feature map as the maps would pool
    its bilinear enlargement: resizing is linear, so it can be applied to the maps instead of to all channels."""
    mass = maps.sum(dim=(-2, -1), keepdim=True) + 1e-8
    rows = _resize_matrix(maps.shape[-2], grid[0], maps)
    columns = _resize_matrix(maps.shape[-1], grid[1], maps)
    return rows.T @ (maps / mass) @ columns


def pooling_from_coordinates(
    coordinates: Tensor, grid: tuple[int, int], image_size: tuple[int, int], stride: float
) -> Tensor:
    """The same weights straight from coordinates (..., 2); the Gaussian is separable, so no map is ever built."""
    rows, columns = gaussian_axes(coordinates, image_size, stride)
    mass = (rows.sum(-1) * columns.sum(-1) + 1e-8)[..., None, None]
    rows = rows @ _resize_matrix(rows.shape[-1], grid[0], rows)
    columns = columns @ _resize_matrix(columns.shape[-1], grid[1], columns)
    return rows[..., :, None] * columns[..., None, :] / mass


def pool(features: Tensor, pooling: Tensor) -> Tensor:
    """features (B, S, C, h, w) under weights (B, S, K, h, w) → (B, S, K, C)."""
    return pooling.flatten(-2) @ features.flatten(-2).transpose(-1, -2)


def mean_over_shots(tokens: Tensor, visible: Tensor) -> Tensor:
    """(B, S, K, C) → (B, K, C): averaged over the shots in which a keypoint is visible (B, S, K); 0 if in none."""
    weight = visible.to(tokens.dtype)
    return (tokens * weight[..., None]).sum(1) / weight.sum(1).clamp(min=1)[..., None]
