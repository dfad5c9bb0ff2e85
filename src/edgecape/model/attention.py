"""The building blocks shared by encoder, predictor and decoder: attention and the graph feed-forward."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgecape.model.linear import Linear, linear
from edgecape.model.precision import dot_product_attention


def key_bias(usable: Tensor) -> Tensor:
    """Usable keys (B, N) → additive attention mask (B, 1, 1, N).

    A sample without any usable key attends evenly instead of to nothing, so that it stays finite.
    """
    hidden = ~usable & usable.any(dim=-1, keepdim=True)
    return torch.zeros(usable.shape, device=usable.device).masked_fill(hidden, float("-inf"))[:, None, None, :]


class Attention(nn.Module):
    """Multi-head attention; values may be narrower than queries and keys."""

    def __init__(self, width: int, heads: int, dropout: float, value_width: int | None = None):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.q_proj = Linear(width, width)
        self.k_proj = Linear(width, width)
        self.v_proj = Linear(value_width or width, width)
        self.out_proj = Linear(width, width)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None) -> Tensor:
        """query (B, N, width), key (B, M, width), value (B, M, value_width), bias (B, 1 or heads, 1 or N, M)."""
        return self.out_proj(self.attend(self.q_proj(query), self.k_proj(key), self.v_proj(value), bias))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
        """Projected queries, keys and values → (B, N, width), heads side by side."""
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (q, k, v))  # (B, heads, N, ·)
        out = dot_product_attention(q, k, v, bias, self.dropout if self.training else 0.0)
        return out.transpose(1, 2).flatten(2)


class PositionedCrossAttention(nn.Module):
    """Cross-attention on content and position *concatenated*, so that neither drowns the other.

    Written for speed where the mathematics allows: the position half of a projection is computed once for a whole
    batch (or not at all where there is no position), and the two linear maps after attention are multiplied first if
    enough is done with them. Where queries are few, keys and values are not projected at all: q · W k = Wᵀq · k, and a
    mean of W v is W times the mean of v.
    """

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.attention = Attention(2 * width, heads, dropout, value_width=width)
        self.reduce = Linear(2 * width, width)

    def forward(
        self,
        query: Tensor,
        query_position: Tensor | None,
        key: Tensor,
        key_position: Tensor | None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """query (B, N, d) and key (B, M, d); a position is (B, N, d), (N, d) for all samples, or None for zeros."""
        q = _project(self.attention.q_proj, query, query_position)
        exported = torch.compiler.is_exporting()  # one graph for any number; what it multiplies first costs nothing
        few = exported or query.shape[1] * self.attention.heads <= key.shape[1]
        dropout = self.training and self.attention.dropout > 0
        if few and bias is None and not dropout:
            attended = self._attend_by_few(q, key, key_position)
        else:
            k = _project(self.attention.k_proj, key, key_position)
            attended = self.attention.attend(q, k, self.attention.v_proj(key), bias)
        out = self.attention.out_proj
        if not exported and attended.shape[0] * attended.shape[1] < out.out_features:
            return self.reduce(out(attended))
        weight = self.reduce.weight @ out.weight
        return linear(attended, weight, linear(out.bias, self.reduce.weight, self.reduce.bias))

    def _attend_by_few(self, q: Tensor, key: Tensor, key_position: Tensor | None) -> Tensor:
        """q (B, N, 2d), projected; key (B, M, d), not projected. What all keys share, the softmax does not see."""
        heads, (k_proj, v_proj) = self.attention.heads, (self.attention.k_proj, self.attention.v_proj)
        of_content, of_position = k_proj.weight.unflatten(0, (heads, -1)).chunk(2, dim=-1)  # (heads, 2d / heads, d)
        q = q.unflatten(-1, (heads, -1)).transpose(1, 2) / (q.shape[-1] / heads) ** 0.5  # (B, heads, N, 2d / heads)
        logits = (q @ of_content).flatten(1, 2) @ key.transpose(1, 2)  # (B, heads · N, M)
        if key_position is not None:
            logits = logits + (q @ of_position).flatten(1, 2) @ key_position.transpose(-1, -2)
        mean = (logits.softmax(dim=-1) @ key).unflatten(1, (heads, -1))  # (B, heads, N, d)
        out = mean @ v_proj.weight.unflatten(0, (heads, -1)).transpose(1, 2)  # (B, heads, N, 2d / heads)
        return out.transpose(1, 2).flatten(2) + v_proj.bias


def _project(projection: Linear, content: Tensor, position: Tensor | None) -> Tensor:
    """projection([content ; position])."""
    if position is not None and position.dim() == content.dim():
        return projection(torch.cat((content, position), dim=-1))
    of_content, of_position = projection.weight.chunk(2, dim=1)
    projected = linear(content, of_content, projection.bias)
    return projected if position is None else projected + linear(position, of_position)


class GraphFeedForward(nn.Module):
    """Linear(ReLU(W_self x + Ã W_adj x)), biases inside; without neighbours it is the usual feed-forward."""

    def __init__(self, width: int, hidden: int, dropout: float, neighbours: bool):
        super().__init__()
        self.own = Linear(width, hidden)
        self.neighbours = Linear(width, hidden) if neighbours else None
        self.out = Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, usable: Tensor, A_norm: Tensor) -> Tensor:
        """x (B, K, width), usable (B, K), Ã (B, K, K)."""
        hidden = self.own(x) * usable[..., None]
        if self.neighbours is not None:
            hidden = hidden + A_norm @ self.neighbours(x)
        return self.out(self.dropout(F.relu(hidden)))
