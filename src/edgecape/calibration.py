"""Scores: how likely a keypoint is right, from what the network computes anyway."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from edgecape.model.network import Output
from edgecape.model.proposals import peak_window

RIGHT_WITHIN = 0.1  # of the box's longer side
FEATURES = (
    "peak_mass",
    "entropy",
    "peak_to_expected",
    "moved",
    "last_step",
    "neighbours_moved",
)


def score_features(output: Output) -> Tensor:
    """(B, K, F): how sharp the similarity is, and how far the layers and the neighbours agree."""
    similarity, expected, peak = output.proposals
    mass = similarity.flatten(2).softmax(dim=-1)
    h, w = similarity.shape[-2:]
    peak_mass = (mass * peak_window(mass, h, w)).sum(-1)
    entropy = -(mass * (mass + 1e-12).log()).sum(-1)
    final = output.coordinates[-1]
    before = output.coordinates[-2] if len(output.coordinates) > 1 else peak
    moved = (final - peak).norm(dim=-1)
    neighbours = (output.graph.normalised @ moved[..., None])[..., 0]
    distances = torch.stack(((peak - expected).norm(dim=-1), moved, (final - before).norm(dim=-1), neighbours), dim=-1)
    logs = (distances + 1e-3).log()
    return torch.cat((torch.logit(peak_mass, eps=1e-4)[..., None], entropy[..., None], logs), dim=-1)


@dataclass(frozen=True)
class Calibration:
    """Logistic regression on standardised features and their squares."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    def __call__(self, output: Output) -> Tensor:
        return self.probability(score_features(output))

    def probability(self, features: Tensor) -> Tensor:
        """Features (..., F) → probability of being right (...)."""
        weights = torch.tensor(self.weights, device=features.device)
        return torch.sigmoid(self.design(features) @ weights + self.bias)

    def design(self, features: Tensor) -> Tensor:
        mean = torch.tensor(self.mean, device=features.device)
        deviation = torch.tensor(self.deviation, device=features.device)
        x = ((features - mean) / deviation).clamp(-4, 4)
        return torch.cat((x, x**2), dim=-1)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Calibration:
        return cls(tuple(values["mean"]), tuple(values["deviation"]), tuple(values["weights"]), float(values["bias"]))


def fit(features: Tensor, right: Tensor, penalty: float = 1e-3) -> Calibration:
    """Features (n, F) of keypoints and whether each was right (n,) → calibration, by Newton steps."""
    mean, deviation = features.mean(0), features.std(0).clamp(min=1e-6)
    blank = Calibration(tuple(mean.tolist()), tuple(deviation.tolist()), (), 0.0)
    x = blank.design(features).double()
    x = torch.cat((x, x.new_ones(len(x), 1)), dim=1)
    y = right.double()
    theta = x.new_zeros(x.shape[1])
    ridge = penalty * torch.eye(len(theta), dtype=x.dtype)
    ridge[-1, -1] = 0
    for _ in range(50):
        p = torch.sigmoid(x @ theta)
        gradient = x.T @ (p - y) / len(y) + ridge @ theta
        hessian = (x.T * (p * (1 - p))) @ x / len(y) + ridge
        step = torch.linalg.solve(hessian, gradient)
        theta = theta - step
        if step.abs().max() < 1e-8:
            break
    return Calibration(blank.mean, blank.deviation, tuple(theta[:-1].tolist()), float(theta[-1]))
