"""Fitting scores on some categories and checking them on others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from edgecape.calibration import RIGHT_WITHIN, score_features
from edgecape.data.dataset import Dataset
from edgecape.data.features import FeatureStore
from edgecape.evaluation.episodes import Episode
from edgecape.evaluation.evaluate import Task, evaluate
from edgecape.evaluation.methods import Runner
from edgecape.model.network import Network


class Observed(NamedTuple):
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
def observe(network: Network, dataset: Dataset, episodes: Sequence[Episode], store: FeatureStore) -> Observed:
    """Run a network through episodes and keep what its scores are made of."""
    run = Runner(network)
    seen: list[Tensor] = []

    def localise(task: Task) -> Tensor:
        output = run(task)
        seen.extend(score_features(output))
        return output.coordinates[-1]

    result = evaluate(dataset, episodes, {"network": localise}, store)["network"]
    distances = torch.from_numpy(result.distance)
    counted = [torch.isfinite(row[: len(features)]) for row, features in zip(distances, seen, strict=True)]
    features = torch.cat([found[chosen] for found, chosen in zip(seen, counted, strict=True)])
    near = [row[: len(chosen)][chosen] < RIGHT_WITHIN for row, chosen in zip(distances, counted, strict=True)]
    category = torch.from_numpy(result.category).repeat_interleave(torch.tensor([len(row) for row in near]))
    return Observed(features, torch.cat(near), category)


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
