"""Fitting scores on some categories and checking them on others.

Keypoints are seen in all ways in which a model is used: with one support and with five, with the names of the
keypoints, which tell left and right, and without.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from edgecape.data.dataset import Dataset
from edgecape.data.features import FeatureStore
from edgecape.evaluation.episodes import Episode, protocol_episodes
from edgecape.evaluation.evaluate import Task, evaluate
from edgecape.evaluation.methods import ModelMethod
from edgecape.matching.scores import Calibration, score_features
from edgecape.model.network import Network

RIGHT_WITHIN = 0.1  # of the box's longer side
SHOTS = (1, 5)
PENALTY = 0.01  # of coefficients: the most honest on categories that were left out (docs/experiments/scores.md)
WAYS = {"names told": True, "names not told": False}


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

    @staticmethod
    def together(parts: Iterable[Samples]) -> Samples:
        return Samples(*map(torch.cat, zip(*parts, strict=True)))


@torch.inference_mode()
def collect(
    network: Network, dataset: Dataset, episodes: Sequence[Episode], store: FeatureStore, named: bool = True
) -> Samples:
    """Run a network through episodes and keep what its scores are computed from. named: told left and right, where the
    data set knows them."""
    from accelerate.utils import gather_object

    model = ModelMethod(network)
    seen: list[Tensor] = []

    def localise(task: Task) -> Tensor:
        estimate = model(task if named else task._replace(flip_index=None))
        seen.extend(score_features(estimate).cpu())
        return estimate.output.coordinates[-1]

    result = evaluate(dataset, episodes, {"network": localise}, store)["network"]
    seen = [one for part in gather_object([seen]) for one in part]  # of all processes, in the result's order
    distances = torch.from_numpy(result.distance)
    counted = [torch.isfinite(row[: len(features)]) for row, features in zip(distances, seen, strict=True)]
    features = torch.cat([found[chosen] for found, chosen in zip(seen, counted, strict=True)])
    near = [row[: len(chosen)][chosen] < RIGHT_WITHIN for row, chosen in zip(distances, counted, strict=True)]
    category = torch.from_numpy(result.category).repeat_interleave(torch.tensor([len(row) for row in near]))
    return Samples(features, torch.cat(near), category)


def both_ways(network: Network, dataset: Dataset, store: FeatureStore, episodes: int) -> dict[str, Samples]:
    """The keypoints of a data set, named and not, each way apart; without shots that no category has objects for."""
    most = max(map(len, dataset.by_category)) - 1
    drawn = [protocol_episodes(dataset, shots, episodes)[0] for shots in SHOTS if shots <= most]
    return {
        way: Samples.together([collect(network, dataset, some, store, named) for some in drawn])
        for way, named in WAYS.items()
    }


def fit_balanced(samples: Samples) -> Calibration | None:
    """With all categories counting the same; None if keypoints are all right or all wrong, which teaches nothing."""
    if bool(samples.right.all()) or not bool(samples.right.any()):
        return None
    return fit(samples.features, samples.right, samples.balance)


def fit(features: Tensor, right: Tensor, weight: Tensor | None = None, penalty: float = PENALTY) -> Calibration:
    """Features (n, F) of keypoints and whether each was right (n,) → calibration.

    weight (n,): how much each counts, for instance so that all categories count the same.
    """
    mean, deviation = features.mean(0), features.std(0).clamp(min=1e-6)
    blank = Calibration(tuple(mean.tolist()), tuple(deviation.tolist()), (), 0.0)
    x = blank.design(features).double()
    x = torch.cat((x, x.new_ones(len(x), 1)), dim=1)
    theta = logistic_regression(x, right, weight, penalty)
    return Calibration(blank.mean, blank.deviation, tuple(theta[:-1].tolist()), float(theta[-1]))


def logistic_regression(x: Tensor, y: Tensor, weight: Tensor | None = None, penalty: float = PENALTY) -> Tensor:
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
    auroc: float | None
    """Chance that a right keypoint scores above a wrong one, half of it for equal scores; None if not both exist."""
    bins: list[tuple[float, float, int]]  # mean score, share right, number, of each bin that has any

    def __str__(self) -> str:
        return f"ECE {self.error:.3f}, AUROC {'–' if self.auroc is None else format(self.auroc, '.3f')}"


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
    return Reliability(error, above / (good * bad) if good and bad else None, table)
