"""DINOv2 (Oquab et al., 2023), as far as features need it: patches → tokens → blocks → normed maps of chosen layers.

Written out here because importing a library for it takes longer than running it. Parameters have the names of hub
checkpoints as `transformers` 5 reads them; `tests/model/test_backbone.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgecape.model.linear import Linear
from edgecape.model.precision import dot_product_attention

EPSILON = 1e-6  # of the layer norms


@dataclass(frozen=True)
class Dinov2Shape:
    """Sizes of a released model."""

    width: int = 384
    blocks: int = 12
    heads: int = 6
    patch: int = 14
    gated: bool = False
    """SwiGLU instead of a plain MLP, as in the giant model."""


class Embeddings(nn.Module):
    def __init__(self, shape: Dinov2Shape, cells: int):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, shape.width))
        self.position_embeddings = nn.Parameter(torch.randn(1, 1 + cells, shape.width) * 0.02)
        self.patch_embeddings = nn.ModuleDict(
            {"projection": nn.Conv2d(3, shape.width, kernel_size=shape.patch, stride=shape.patch)}
        )

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) → (B, 1 + hw, d), the class token first."""
        patches = self.patch_embeddings["projection"](pixels).flatten(2).transpose(1, 2)
        first = self.cls_token.expand(patches.shape[0], -1, -1)  # not len(): an exported graph takes any batch
        return torch.cat((first, patches), dim=1) + self.position_embeddings


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj = (Linear(width, width) for _ in range(3))
        self.o_proj = Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.o_proj(attend(self.q_proj(x), self.k_proj(x), self.v_proj(x), self.heads))


def attend(q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
    """Projected (B, N, d) each → (B, N, d), heads side by side."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))  # (B, heads, N, d / heads)
    return dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class LayerScale(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.lambda1 = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.lambda1


class MLP(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.fc1, self.fc2 = Linear(width, 4 * width), Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class GatedMLP(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        hidden = (4 * width * 2 // 3 + 7) // 8 * 8
        self.weights_in, self.weights_out = Linear(width, 2 * hidden), Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.weights_in(x).chunk(2, dim=-1)
        return self.weights_out(F.silu(gate) * value)


class Block(nn.Module):
    def __init__(self, shape: Dinov2Shape):
        super().__init__()
        width = shape.width
        self.norm1, self.norm2 = nn.LayerNorm(width, EPSILON), nn.LayerNorm(width, EPSILON)
        self.attention = SelfAttention(width, shape.heads)
        self.mlp = GatedMLP(width) if shape.gated else MLP(width)
        self.layer_scale1, self.layer_scale2 = LayerScale(width), LayerScale(width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, d) → (B, N, d)."""
        x = x + self.layer_scale1(self.attention(self.norm1(x)))
        return x + self.layer_scale2(self.mlp(self.norm2(x)))


class FusedBlock(nn.Module):
    """A block for prediction: one projection for queries, keys and values, layer scales multiplied into the weights."""

    def __init__(self, block: Block):
        super().__init__()
        attention, self.norm1, self.norm2 = block.attention, block.norm1, block.norm2
        self.heads = attention.heads
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        self.qkv = _linear(*(torch.cat([getattr(p, kind) for p in projections]) for kind in ("weight", "bias")))
        self.out = _scaled(attention.o_proj, block.layer_scale1)
        if isinstance(block.mlp, MLP):
            self.mlp = nn.Sequential(block.mlp.fc1, nn.GELU(), _scaled(block.mlp.fc2, block.layer_scale2))
        else:
            self.mlp = nn.Sequential(block.mlp, block.layer_scale2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        x = x + self.out(attend(q, k, v, self.heads))
        return x + self.mlp(self.norm2(x))


def _linear(weight: Tensor, bias: Tensor) -> Linear:
    layer = Linear(weight.shape[1], weight.shape[0], device="meta")
    layer.weight, layer.bias = (nn.Parameter(x.detach(), requires_grad=False) for x in (weight, bias))
    return layer


def _scaled(layer: Linear, scale: LayerScale) -> Linear:
    return _linear(layer.weight * scale.lambda1[:, None], layer.bias * scale.lambda1)


class Dinov2(nn.Module):
    def __init__(self, shape: Dinov2Shape, grid: tuple[int, int], layers: Sequence[int]):
        """grid: rows and columns of patches; layers: whose output is wanted, counted from 1."""
        super().__init__()
        self.shape, self.grid = shape, grid
        self.out_indices = sorted(layers)
        self.embeddings = Embeddings(shape, grid[0] * grid[1])
        self.encoder = nn.Module()
        self.encoder.layer = nn.ModuleList(Block(shape) for _ in range(max(layers)))  # what is not needed is not there
        self.layernorm = nn.LayerNorm(shape.width, EPSILON)

    @property
    def channels(self) -> list[int]:
        return [self.shape.width] * len(self.out_indices)

    def forward(self, pixels: Tensor) -> list[Tensor]:
        """Normalised pixels (B, 3, H, W) → maps (B, d, h, w) of the wanted layers."""
        return self.above(self.embeddings(pixels), 0)

    def above(self, tokens: Tensor, below: int) -> list[Tensor]:
        """Tokens (B, 1 + hw, d) after the first `below` blocks → maps."""
        maps = []
        for number, block in enumerate(self.encoder.layer[below:], start=below + 1):  # type: ignore[index]
            tokens = block(tokens)
            if number in self.out_indices:
                maps.append(self.as_map(tokens))
        return maps

    def as_map(self, tokens: Tensor) -> Tensor:
        """Tokens (B, 1 + hw, d) → normed map (B, d, h, w)."""
        return self.layernorm(tokens)[:, 1:].transpose(1, 2).unflatten(2, self.grid)
