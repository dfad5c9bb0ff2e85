"""Graph decoder: keypoints look at each other along the graph and at the image, and move step by step."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgecape.model import graph
from edgecape.model.attention import Attention, GraphFeedForward, PositionedCrossAttention, key_bias
from edgecape.model.linear import Linear
from edgecape.model.pose_graph import PoseGraph
from edgecape.model.positions import sine_of_coordinates
from edgecape.model.settings import NetworkSettings


class Decoded(NamedTuple):
    coordinates: Tensor  # (layers, B, K, 2), the reported coordinates of every layer
    last_reference: Tensor  # (B, K, 2), the reference point after the last layer: what L_adj compares


def inverse_sigmoid(x: Tensor, eps: float = 1e-3) -> Tensor:
    x = x.clamp(0, 1)
    return torch.log(x.clamp(min=eps) / (1 - x).clamp(min=eps))


class MarkovBias(nn.Module):
    """Probability of walking from i to j in 0, 1, … hops → one bias per head."""

    def __init__(self, hops: int, heads: int):
        super().__init__()
        self.hops = hops
        self.mlp = nn.Sequential(Linear(hops + 1, hops + heads), nn.ReLU(), Linear(hops + heads, heads))

    def forward(self, structure: Tensor) -> Tensor:
        """Hop powers (hops+1, B, K, K) → (B, heads, K, K)."""
        return self.mlp(structure.permute(1, 2, 3, 0)).permute(0, 3, 1, 2)


class ShortestPathBias(nn.Module):
    """Discrete alternative: a learned bias per head and path length (0 … hops, and farther)."""

    def __init__(self, hops: int, heads: int):
        super().__init__()
        self.table = nn.Embedding(hops + 2, heads)
        nn.init.zeros_(self.table.weight)

    def forward(self, structure: Tensor) -> Tensor:
        """Distances (B, K, K) as integers → (B, heads, K, K)."""
        return self.table(structure).permute(0, 3, 1, 2)


def bias_structure(pose_graph: PoseGraph, settings: NetworkSettings) -> Tensor | None:
    """What the structural bias looks at."""
    if settings.bias == "markov":
        # Ã once more divided by its row sums, as the reference does; it changes rounding only
        return graph.hop_powers(graph.row_normalise(pose_graph.normalised), settings.hops)
    if settings.bias == "shortest_path":
        return graph.hop_distances(pose_graph.prior, settings.hops)
    return None


class DecoderLayer(nn.Module):
    def __init__(self, settings: NetworkSettings):
        super().__init__()
        width, heads, dropout = settings.width, settings.heads, settings.dropout
        self.self_attention = Attention(width, heads, dropout)
        self.structural_bias: nn.Module | None = None
        if settings.bias == "markov":
            self.structural_bias = MarkovBias(settings.hops, heads)
        elif settings.bias == "shortest_path":
            self.structural_bias = ShortestPathBias(settings.hops, heads)
        self.to_image = PositionedCrossAttention(width, heads, dropout)
        self.ffn = GraphFeedForward(width, settings.ffn, dropout, neighbours=settings.graph != "none")
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.adds_position = settings.decoder_positions

    def forward(
        self,
        x: Tensor,
        x_position: Tensor,
        image: Tensor,
        position: Tensor,
        usable: Tensor,
        A_norm: Tensor,
        structure: Tensor | None,
    ) -> Tensor:
        """x and its position (B, K, d), image (B, hw, d) and its position (hw, d), usable (B, K), Ã (B, K, K)."""
        bias = key_bias(usable)
        if self.structural_bias is not None:
            bias = bias + self.structural_bias(structure)
        q = x + x_position if self.adds_position else x
        x = self.norm1(x + self.dropout(self.self_attention(q, q, x, bias)))
        x = self.norm2(x + self.dropout(self.to_image(x, x_position, image, position)))
        return self.norm3(x + self.dropout(self.ffn(x, usable, A_norm)))


class CoordinateMLP(nn.Sequential):
    """Moves a keypoint in logit space; starts by not moving it."""

    def __init__(self, width: int):
        hidden: list[nn.Module] = []
        for _ in range(3):
            hidden += [Linear(width, width), nn.GELU()]
        last = Linear(width, 2)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        super().__init__(*hidden, last)


class GraphDecoder(nn.Module):
    def __init__(self, settings: NetworkSettings):
        super().__init__()
        width = settings.width
        self.settings = settings
        self.layers = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.decoder_layers))
        self.steps = nn.ModuleList(CoordinateMLP(width) for _ in range(settings.decoder_layers))
        self.position_mlp = nn.Sequential(Linear(width, width), nn.GELU(), Linear(width, width))
        self.norm = nn.LayerNorm(width)

    def forward(
        self,
        keypoints: Tensor,
        image: Tensor,
        position: Tensor,
        start: Tensor,
        usable: Tensor,
        pose_graph: PoseGraph,
    ) -> Decoded:
        """keypoints (B, K, d), image (B, hw, d), position (hw, d), start (B, K, 2), usable (B, K)."""
        A_norm = pose_graph.normalised
        if self.settings.aggregate_transposed:
            A_norm = A_norm.transpose(1, 2)
        structure = bias_structure(pose_graph, self.settings)
        x, point = keypoints, start.detach()
        reported = []
        for layer, step in zip(self.layers, self.steps, strict=True):
            fixed = point.detach()
            x_position = self.position_mlp(sine_of_coordinates(fixed, x.shape[-1]))
            x = layer(x, x_position, image, position, usable, A_norm, structure)
            # Reported: a step from the *normalised* feature; handed on: one from the raw feature (released code).
            # What a layer reports also teaches the step before it: `point` keeps the gradient of that one step.
            reported.append(torch.sigmoid(inverse_sigmoid(point) + step(self.norm(x))))
            point = torch.sigmoid(inverse_sigmoid(fixed) + step(x))
        return Decoded(torch.stack(reported), point)
