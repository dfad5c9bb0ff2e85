"""A predictor of edge weights that cannot shut: A' = (A_prior + f) · exp(s · ΔA).

The published A' = ReLU(A_prior + c · ΔA + b) closes for every edge that was not drawn as soon as c · ΔA + b falls
below 0, and no gradient opens it again; and ΔA, the cosine of refined tokens, is near 1 for all pairs, because the
tokens share most of what they are. Here weights are multiplied, so that each stays above 0, and what all keypoints of
an object share is removed before the cosine, so that it tells pairs apart.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from edgecape.model.pose_graph import PoseGraphPredictor
from edgecape.model.settings import NetworkSettings

FAINT = 0.05  # weight of an edge that was not drawn, at the start


class LogLinearPoseGraph(PoseGraphPredictor):
    def __init__(self, settings: NetworkSettings):
        super().__init__(settings)
        del self.c, self.b
        self.scale = nn.Parameter(torch.ones(1))  # s
        self.log_faint = nn.Parameter(torch.full((1,), math.log(FAINT)))  # log f

    def weigh(self, prior: Tensor, refined: Tensor, usable: Tensor) -> Tensor:
        counts = usable[..., None].to(refined.dtype)
        shared = (refined * counts).sum(dim=1, keepdim=True) / counts.sum(dim=1, keepdim=True).clamp(min=1)
        change = self.residual(refined - shared)  # ΔA
        others = 1 - torch.eye(prior.shape[-1], dtype=prior.dtype, device=prior.device)  # no edge to itself
        return others * (prior + self.log_faint.exp()) * torch.exp(self.scale * change)
