"""Scores: how likely a keypoint is right, from what the network computes anyway."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from edgecape.errors import WeightsError
from edgecape.model.network import Output
from edgecape.model.proposals import mass_near, peak_window

RIGHT_WITHIN = 0.1  # of the box's longer side
FEATURES = (
    "peak_mass",
    "entropy",
    "height",
    "second_peak",
    "own_share",
    "peak_to_expected",
    "moved",
    "off_neighbours",
    "neighbours_moved",
    "likelihood",
    "spread",
    "distortion",
    "near",
)


def score_features(output: Output) -> Tensor:
    """(B, K, F): how high, sharp and alone the peak of the similarity is, whether other keypoints claim the same
    place, how far the decoder and the neighbours agree with it, how well the pose as a whole fits the supports, and how
    likely the keypoint is near where it is said to be when all of that is taken together."""
    similarity, expected, peak = output.proposals
    h, w = similarity.shape[-2:]
    logits = similarity.flatten(2)  # (B, K, hw)
    mass = logits.softmax(dim=-1)
    window = peak_window(mass, h, w)
    peak_mass = (mass * window).sum(-1)
    entropy = -(mass * (mass + 1e-12).log()).sum(-1)
    height, cell = logits.max(dim=-1)
    second = height - logits.masked_fill(window > 0, float("-inf")).amax(-1)
    rivals = logits.masked_fill(~output.usable[..., None], float("-inf")).softmax(dim=1)  # whose is this cell?
    own_share = rivals.nan_to_num().gather(-1, cell[..., None])[..., 0]
    final = output.coordinates[-1]
    moved = (final - peak).norm(dim=-1)
    off_neighbours = moved if output.agreement is None else (final - output.agreement.expected).norm(dim=-1)
    neighbours = (output.graph.normalised @ moved[..., None])[..., 0]
    distances = torch.stack(((peak - expected).norm(dim=-1), moved, off_neighbours, neighbours), dim=-1)
    shares = torch.logit(torch.stack((peak_mass, own_share), dim=-1), eps=1e-4)
    levels = torch.stack((entropy, height, second), dim=-1)
    whole = moved.new_zeros(len(moved), 3) if output.agreement is None else output.agreement.fit
    whole = whole[:, None].expand(*moved.shape, -1)
    likely = mass.unflatten(-1, (h, w)) if output.agreement is None else output.agreement.mass
    near = torch.logit(mass_near(likely, final), eps=1e-4)[..., None]
    return torch.cat((shares[..., :1], levels, shares[..., 1:], (distances + 1e-3).log(), whole, near), dim=-1)


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
        if len(values["mean"]) != len(FEATURES):
            raise WeightsError(
                "this model's scores were fitted by another version of edgecape: to "
                f"{len(values['mean'])} signs of a keypoint being right, where this one has {len(FEATURES)}; "
                "use that version, or fit them again (tools/release.py)"
            )
        return cls(tuple(values["mean"]), tuple(values["deviation"]), tuple(values["weights"]), float(values["bias"]))


def fit(features: Tensor, right: Tensor, weight: Tensor | None = None, penalty: float = 1e-3) -> Calibration:
    """Features (n, F) of keypoints and whether each was right (n,) → calibration.

    weight (n,): how much each counts, for instance so that all categories count the same.
    """
    mean, deviation = features.mean(0), features.std(0).clamp(min=1e-6)
    blank = Calibration(tuple(mean.tolist()), tuple(deviation.tolist()), (), 0.0)
    x = blank.design(features).double()
    x = torch.cat((x, x.new_ones(len(x), 1)), dim=1)
    theta = logistic_regression(x, right, weight, penalty)
    return Calibration(blank.mean, blank.deviation, tuple(theta[:-1].tolist()), float(theta[-1]))


def logistic_regression(x: Tensor, y: Tensor, weight: Tensor | None = None, penalty: float = 1e-3) -> Tensor:
    """Coefficients (F,) of x (n, F), whose last column is constant and not penalised, for y (n,) by Newton steps."""
    x, y = x.double(), y.double()
    share = torch.ones_like(y) if weight is None else weight.double()
    share = share / share.sum()
    theta = x.new_zeros(x.shape[1])
    ridge = penalty * torch.eye(len(theta), dtype=x.dtype)
    ridge[-1, -1] = 0
    for _ in range(50):
        p = torch.sigmoid(x @ theta)
        gradient = x.T @ (share * (p - y)) + ridge @ theta
        hessian = (x.T * (share * p * (1 - p))) @ x + ridge
        step = torch.linalg.solve(hessian, gradient)
        theta = theta - step
        if step.abs().max() < 1e-8:
            break
    return theta
