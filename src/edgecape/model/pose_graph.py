"""Pose-graph predictor: from the prior skeleton and the support images to a weighted graph, f(A_prior, F_s, F_s^k)."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgecape.model import graph
from edgecape.model.attention import Attention, GraphFeedForward, PositionedCrossAttention, key_bias
from edgecape.model.linear import Linear
from edgecape.model.settings import NetworkSettings
from edgecape.model.tokens import mean_over_shots


class PoseGraph(NamedTuple):
    prior: Tensor  # A_prior (B, K, K)
    weights: Tensor  # A (B, K, K), symmetric, before normalisation
    normalised: Tensor  # Ã (B, K, K), rows sum to 1 or 0

    def expand(self, batch: int) -> PoseGraph:
        """One graph (B = 1) for a batch, without copying."""
        return PoseGraph(*(matrix.expand(batch, -1, -1) for matrix in self))


def pose_graph(prior: Tensor, weights: Tensor, usable: Tensor) -> PoseGraph:
    weights = graph.mask_adjacency(weights, usable)
    return PoseGraph(graph.mask_adjacency(prior, usable), weights, graph.row_normalise(weights))


class DualAttentionLayer(nn.Module):
    """Keypoint self-attention → keypoint←image → graph FFN with Ã_prior → image←keypoint."""

    def __init__(self, settings: NetworkSettings):
        super().__init__()
        width, heads, dropout = settings.width, settings.heads, settings.dropout
        self.self_attention = Attention(width, heads, dropout)
        self.ffn = GraphFeedForward(width, settings.ffn, dropout, neighbours=True)
        self.norm1, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.leaks_padding = settings.pad_keypoints_to > 0
        self.sees_image = settings.predictor_sees_image
        if self.sees_image:
            self.to_keypoints = PositionedCrossAttention(width, heads, dropout)
            self.to_image = PositionedCrossAttention(width, heads, dropout)
            self.norm2, self.norm4 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(
        self, keypoints: Tensor, image: Tensor, position: Tensor, usable: Tensor, prior_norm: Tensor
    ) -> tuple[Tensor, Tensor]:
        """keypoints (N, K, d), image (N, hw, d), position (hw, d), usable (N, K), Ã_prior (N, K, K)."""
        bias = key_bias(usable)
        x = keypoints
        x = self.norm1(x + self.dropout(self.self_attention(x, x, x, bias)))
        if self.sees_image:
            x = self.norm2(x + self.dropout(self.to_keypoints(x, None, image, position)))
        x = self.norm3(x + self.dropout(self.ffn(x, usable, prior_norm)))
        if self.sees_image:
            visible = None if self.leaks_padding else bias
            image = self.norm4(image + self.dropout(self.to_image(image, position, x, None, visible)))
        return x, image


class ResidualEdges(nn.Module):
    """ΔA (B, K, K), symmetric, from refined keypoint features (B, K, d)."""

    def __init__(self, settings: NetworkSettings):
        super().__init__()
        self.kind, self.heads = settings.residual, settings.heads
        width = settings.width
        if self.kind == "mlp":
            self.pair = nn.Sequential(Linear(2 * width, width), nn.ReLU(), Linear(width, 1))
        elif self.kind == "attention":
            self.q_proj, self.k_proj = Linear(width, width), Linear(width, width)
            self.mix = Linear(settings.heads, 1)

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "cosine":
            unit = x / x.norm(dim=-1, keepdim=True).clamp(min=1e-8)
            return unit @ unit.transpose(1, 2)
        K = x.shape[1]
        if self.kind == "mlp":
            pairs = torch.cat((x[:, :, None].expand(-1, -1, K, -1), x[:, None].expand(-1, K, -1, -1)), dim=-1)
            edges = self.pair(pairs)[..., 0]
        else:
            q = self.q_proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, heads, K, d / heads)
            k = self.k_proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            edges = self.mix((q @ k.transpose(-1, -2)).permute(0, 2, 3, 1))[..., 0]
        return (edges + edges.transpose(1, 2)) / 2


class PoseGraphPredictor(nn.Module):
    def __init__(self, settings: NetworkSettings):
        super().__init__()
        self.shot_refinement, self.pad_keypoints_to = settings.shot_refinement, settings.pad_keypoints_to
        self.sees_image = settings.predictor_sees_image
        if self.sees_image:
            self.image_proj = nn.Conv2d(settings.channels, settings.width, kernel_size=1)
        self.layers = nn.ModuleList(DualAttentionLayer(settings) for _ in range(settings.predictor_layers))
        self.residual = ResidualEdges(settings)
        self.c = nn.Parameter(torch.zeros(1))  # training starts from the prior
        self.b = nn.Parameter(torch.zeros(1))

    def weigh(self, prior: Tensor, refined: Tensor, usable: Tensor) -> Tensor:
        """A' (B, K, K), from the prior (B, K, K) and refined keypoint features (B, K, d)."""
        return F.relu(prior + self.c * self.residual(refined) + self.b)  # eq. of A'

    def refine(
        self, features: Tensor, shot_tokens: Tensor, tokens: Tensor, visible: Tensor, position: Tensor, prior: Tensor
    ) -> Tensor:
        """Keypoint features (B, K, d), refined in every shot and averaged over those that show the keypoint."""
        B, S, _ = visible.shape
        start = shot_tokens if self.shot_refinement == "independent" else tokens[:, None].expand(-1, S, -1, -1)
        x = start.flatten(0, 1)  # one long batch of B · S images
        seen = visible.flatten(0, 1)
        if self.sees_image:
            image = self.image_proj(features.flatten(0, 1)).flatten(2).transpose(1, 2)
        else:
            image = x.new_zeros(B * S, len(position), x.shape[-1])
        prior = graph.mask_adjacency(prior[:, None].expand(-1, S, -1, -1), visible).flatten(0, 1)
        prior_norm = graph.row_normalise(prior)
        for layer in self.layers:
            x, image = layer(x, image, position, seen, prior_norm)
        return mean_over_shots(x.unflatten(0, (B, S)), visible)

    def forward(
        self,
        features: Tensor,
        shot_tokens: Tensor,
        tokens: Tensor,
        visible: Tensor,
        position: Tensor,
        prior: Tensor,
        nothing: Tensor,
    ) -> PoseGraph:
        """features (B, S, C, h, w), shot_tokens (B, S, K, d), tokens (B, K, d), visible (B, S, K),
        position (hw, d), prior (B, K, K); nothing (d,): the token of a keypoint that is not there."""
        K = tokens.shape[1]
        extra = max(0, self.pad_keypoints_to - K)  # as official weights were trained; only this predictor notices
        if extra:
            padding = nothing.expand(*shot_tokens.shape[:2], extra, -1)
            shot_tokens = torch.cat((shot_tokens, padding), dim=2)
            tokens = torch.cat((tokens, padding[:, 0]), dim=1)
            visible, prior = F.pad(visible, (0, extra)), F.pad(prior, (0, extra, 0, extra))
        usable = visible.any(1)
        refined = self.refine(features, shot_tokens, tokens, visible, position, prior)
        weights = self.weigh(prior, refined, usable)
        weights = (weights + weights.transpose(1, 2)) / 2
        return PoseGraph(*(matrix[:, :K, :K] for matrix in pose_graph(prior, weights, usable)))
