"""Scores: how likely a keypoint is right, from what the network computes anyway. Fitting: evaluation/calibration.py."""

from __future__ import annotations

import reprlib
import sys
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from edgecape.errors import WeightsError
from edgecape.matching.multiview import Estimate
from edgecape.matching.settings import VotingSettings
from edgecape.matching.voting import probability_within
from edgecape.model.proposals import peak_window

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
    "near_votes",
    "near_decoder",
)
BEFORE = 13  # features of scores that were fitted before there was a decoder to ask


def score_features(estimate: Estimate, radius: float = VotingSettings.near[0]) -> Tensor:
    """Calibration features (B, K, F): how high, sharp and alone the peak of the similarity is, whether other keypoints
    claim the same cell, how far decoder and votes agree with it, how well the pose as a whole fits the supports, and
    how much of the heatmap is within a radius of the answer: of the final one, of that of the votes, and of that of our
    decoder alone, which are the same where there is no such decoder."""
    output, votes = estimate.output, estimate.votes
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
    off_neighbours = moved if votes is None else (final - votes.voted).norm(dim=-1)
    neighbours = (output.graph.normalised @ moved[..., None])[..., 0]
    distances = torch.stack(((peak - expected).norm(dim=-1), moved, off_neighbours, neighbours), dim=-1)
    shares = torch.logit(torch.stack((peak_mass, own_share), dim=-1), eps=1e-4)
    levels = torch.stack((entropy, height, second), dim=-1)
    whole = moved.new_zeros(moved.shape[0], 3) if votes is None else votes.fit
    whole = whole[:, None].expand(*moved.shape, -1)
    read = mass.unflatten(-1, (h, w)) if votes is None else votes.heatmap
    last, own = (read, read) if estimate.reread is None else estimate.reread[1:]
    within = torch.stack([probability_within(heatmap, final, radius) for heatmap in (last, read, own)], dim=-1)
    near = torch.logit(within, eps=1e-4)
    return torch.cat((shares[..., :1], levels, shares[..., 1:], (distances + 1e-3).log(), whole, near), dim=-1)


@dataclass(frozen=True)
class Calibration:
    """Logistic regression on standardised features and their squares."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    def probability(self, features: Tensor) -> Tensor:
        """Features (..., F) → probability of being right (...)."""
        weights = torch.tensor(self.weights, device=features.device)
        return torch.sigmoid(self.design(features) @ weights + self.bias)

    def design(self, features: Tensor) -> Tensor:
        mean = torch.tensor(self.mean, device=features.device)
        deviation = torch.tensor(self.deviation, device=features.device)
        x = ((features - mean) / deviation).clamp(-4, 4)
        return torch.cat((x, x**2), dim=-1)

    def widened(self, number: int) -> Calibration:
        """The same probabilities, for so many more features that have no say."""
        F, none = len(self.mean), (0.0,) * number
        weights = (*self.weights[:F], *none, *self.weights[F:], *none)
        return Calibration((*self.mean, *none), (*self.deviation, *(1.0,) * number), weights, self.bias)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> Calibration:
        """From a saved model, checked: whoever reads scores trusts them."""
        try:
            mean, deviation, weights = (_numbers(values[name]) for name in ("mean", "deviation", "weights"))
            found = cls(mean, deviation, weights, *_numbers([values["bias"]]))
        except (KeyError, TypeError) as error:
            raise WeightsError(f"this model's calibration is damaged: {error}; fit it again, or remove it") from error
        F = len(FEATURES)
        if (len(found.mean), len(found.deviation), len(found.weights)) == (BEFORE, BEFORE, 2 * BEFORE):
            found = found.widened(F - BEFORE)
        if len(found.mean) != F:
            raise WeightsError(
                f"this model's scores were fitted by another version of edgecape: to {len(found.mean)} calibration "
                f"features, where this one has {F}; use that version, or fit them again (tools/release.py)"
            )
        if (len(found.deviation), len(found.weights)) != (F, 2 * F) or min(found.deviation) <= 0:
            raise WeightsError(
                f"this model's calibration is damaged: it needs {F} deviations above 0 and {2 * F} weights, and has "
                f"{len(found.deviation)} and {len(found.weights)}; fit it again, or remove it"
            )
        return found


def _numbers(values: Any) -> tuple[float, ...]:
    if not isinstance(values, list | tuple):
        raise TypeError(f"{reprlib.repr(values)} is no list of numbers")
    for value in values:
        if type(value) not in (int, float) or not abs(value) < sys.float_info.max:  # nan is not
            raise TypeError(f"{reprlib.repr(value)} is no number")
    return tuple(map(float, values))


def probabilities(estimate: Estimate, calibration: Calibration | None) -> Tensor:
    """Probability (B, K) that a keypoint is right; without calibration, the share of similarity at its peak."""
    features = score_features(estimate)
    return torch.sigmoid(features[..., 0]) if calibration is None else calibration.probability(features)
