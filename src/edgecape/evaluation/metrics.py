"""PCK, mPCK, AUC, NME and EPE of pairs, and how sure one can be of their means.

A pair is a support set and a query. Its keypoint distances are relative to the longer side of the query's box, and NaN
where a keypoint does not count because it is not visible in the query and in all supports. All metrics are means over
a pair's keypoints first and over pairs then; a pair without any keypoint that counts has 0 in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

THRESHOLDS = (0.05, 0.1, 0.15, 0.2, 0.25)
AUC_THRESHOLDS = np.arange(20) / 20  # 0, .05, …, .95: nothing is below 0, so the best AUC is .95


def pck(distance: Floats, thresholds: ArrayLike) -> Floats:
    """Distances (P, K) → share of each pair's keypoints strictly below each threshold, (P, T)."""
    counted = np.maximum((~np.isnan(distance)).sum(axis=1), 1)
    limits = np.asarray(thresholds, dtype=np.float64)
    shares = np.empty((len(distance), len(limits)))
    for column, limit in enumerate(limits):
        shares[:, column] = (distance < limit).sum(axis=1) / counted
    return shares


def mean_distance(distance: Floats) -> Floats:
    """Distances (P, K) → their mean in each pair, (P,)."""
    counted = np.maximum((~np.isnan(distance)).sum(axis=1), 1)
    return np.nansum(distance, axis=1) / counted


def pair_metrics(distance: Floats, scale: Floats, thresholds: Sequence[float] = THRESHOLDS) -> dict[str, Floats]:
    """Every metric of every pair, (P,) each. scale (P,): pixels per unit of distance."""
    metrics = {
        f"PCK@{threshold:g}": column for threshold, column in zip(thresholds, pck(distance, thresholds).T, strict=True)
    }
    metrics["mPCK@4"] = pck(distance, THRESHOLDS[:4]).mean(axis=1)  # the paper's text
    metrics["mPCK@5"] = pck(distance, THRESHOLDS).mean(axis=1)  # the released code and the published tables
    metrics["AUC"] = pck(distance, AUC_THRESHOLDS).mean(axis=1)
    metrics["NME"] = mean_distance(distance)
    metrics["EPE"] = metrics["NME"] * scale
    return metrics


def categories_drawn(resamples: int, categories: int, seed: int = 1) -> Floats:
    """How often each category is drawn in resampled data (resamples, categories): with them, an interval also says what
    to expect of other categories, as far as these stand for them."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(categories, np.full(categories, 1 / categories), resamples).astype(np.float64)


def bootstrap_means(
    values: Floats,
    category: NDArray[np.int64],
    support: NDArray[np.int64],
    query: NDArray[np.int64],
    resamples: int = 1000,
    seed: int = 0,
) -> Floats:
    """Means of values (P, M) per category in resampled data: (resamples, categories that have pairs, M).

    Pairs are not independent: one support set serves 15 queries, and one object is a query in many episodes. So within
    each category support sets and query objects are resampled independently, and a pair counts as often as both its
    support set and its query were drawn (the two-way "pigeonhole" bootstrap of Owen, 2007). Resampling pairs or
    episodes would pretend that more photos were seen than there are. Categories are kept: an interval says what to
    expect of other photos of these categories, not of other categories.

    category, support and query (P,) number the pairs' category, support set and query object.
    """
    rng = np.random.default_rng(seed)
    means = []
    for index in np.unique(category):
        of = category == index
        supports, row = np.unique(support[of], return_inverse=True)
        queries, column = np.unique(query[of], return_inverse=True)
        n, m = len(supports), len(queries)
        drawn_supports = rng.multinomial(n, np.full(n, 1 / n), resamples).astype(np.float64)  # (resamples, n)
        drawn_queries = rng.multinomial(m, np.full(m, 1 / m), resamples).astype(np.float64)  # (resamples, m)
        sums = [
            ((drawn_supports @ np.bincount(row * m + column, weights, n * m).reshape(n, m)) * drawn_queries).sum(axis=1)
            for weights in (np.ones(len(row)), *values[of].T)
        ]
        with np.errstate(invalid="ignore"):  # nan if no pair was drawn, which only tiny data can do
            means.append(np.stack(sums[1:], axis=1) / sums[0][:, None])
    return np.stack(means, axis=1)
