"""Fitting scores on some categories and checking them on others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from edgecape.data.dataset import Dataset
from edgecape.data.features import FeatureStore
from edgecape.evaluation.episodes import Episode
from edgecape.evaluation.evaluate import Task, evaluate
from edgecape.evaluation.methods import ModelMethod
from edgecape.matching.scores import Calibration, score_features
from edgecape.model.network import Network

RIGHT_WITHIN = 0.1  # of the box's longer side


class Samples(NamedTuple):
    """All counted keypoints of an evaluation."""

    features: Tensor  # (n, F), what the score is computed from
    right: Tensor  # (n,) bool, within 10 % of the box's longer side
    category: Tensor  # (n,) index

    @property
    def balance(self) -> Tensor:
        """Weights (n,) that make all categories count the same."""
        number = self.category.bincount()
        return 1.0 / number[self.category]


@torch.inference_mode()
def collect(
    network: Network, dataset: Dataset, episodes: Sequence[Episode], store: FeatureStore, named: bool = True
) -> Samples:
    """Run a network through episodes and keep what its scores are computed from. named: told left and right, where the
    data set knows them."""
    model = ModelMethod(network)
    seen: list[Tensor] = []

    def localise(task: Task) -> Tensor:
        estimate = model(task if named else task._replace(flip_index=None))
        seen.extend(score_features(estimate))
        return estimate.output.coordinates[-1]

    result = evaluate(dataset, episodes, {"network": localise}, store)["network"]
    distances = torch.from_numpy(result.distance)
    counted = [torch.isfinite(row[: len(features)]) for row, features in zip(distances, seen, strict=True)]
    features = torch.cat([found[chosen] for found, chosen in zip(seen, counted, strict=True)])
    near = [row[: len(chosen)][chosen] < RIGHT_WITHIN for row, chosen in zip(distances, counted, strict=True)]
    category = torch.from_numpy(result.category).repeat_interleave(torch.tensor([len(row) for row in near]))
    return Samples(features, torch.cat(near), category)


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


class Reliability(NamedTuple):
    error: float  # expected calibration error
    auroc: float  # chance that a right keypoint scores above a wrong one, half of it for equal scores
    bins: list[tuple[float, float, int]]  # mean score, share right, number, of each bin that has any


def reliability(probability: Tensor, right: Tensor, bins: int = 15) -> Reliability:
    """How honest probabilities (n,) are about `right` (n,)."""
    place = (probability * bins).long().clamp(max=bins - 1)
    table: list[tuple[float, float, int]] = []
    error = 0.0
    for index in range(bins):
        chosen = place == index
        number = int(chosen.sum())
        if number:
            mean, share = float(probability[chosen].mean()), float(right[chosen].float().mean())
            table.append((mean, share, number))
            error += abs(mean - share) * number / len(right)
    _, level, equal = probability.unique(return_inverse=True, return_counts=True)
    rank = (equal.cumsum(0) - (equal.double() - 1) / 2)[level]  # equal scores share their mean rank
    good, bad = int(right.sum()), int((~right).sum())
    above = float(rank[right].sum()) - good * (good + 1) / 2
    return Reliability(error, above / max(good * bad, 1), table)
