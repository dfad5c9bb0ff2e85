"""How well a decoder does on encoded episodes: as they are, with queries partly covered, and with wrong skeletons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from edgecape.errors import DataError
from edgecape.evaluation.metrics import THRESHOLDS, Floats, pck
from edgecape.geometry import PADDING
from edgecape.matching.alignment import linear_map
from edgecape.matching.network import MatchingNetwork
from edgecape.matching.settings import VotingSettings
from edgecape.matching.voting import mean_shift_mode, vote
from edgecape.model.graph import add_random_edges
from edgecape.model.pose_graph import pose_graph
from edgecape.model.proposals import locate
from edgecape.training.decoder import decode
from edgecape.training.encoded import ROUNDED, SUFFIX, Encoded, load_part

AT_ONCE = 25
WRONG_EDGES = 16
TOGETHER, APART = 0.05, 0.15  # in longer sides of the box
Change = Callable[[Tensor, torch.Generator], Tensor]  # of a skeleton (K, K)


def permuted(prior: Tensor, generator: torch.Generator) -> Tensor:
    """As many edges, between other keypoints."""
    order = torch.randperm(len(prior), generator=generator)
    return prior[order][:, order]


def with_wrong_edges(prior: Tensor, generator: torch.Generator) -> Tensor:
    return add_random_edges(prior, generator, WRONG_EDGES)


SKELETONS: Mapping[str, Change] = {"permuted": permuted, "wrong edges": with_wrong_edges}


def load_parts(folder: Path) -> dict[str, Encoded]:
    """Encoded pairs by category."""
    parts = {path.name.removesuffix(SUFFIX): load_part(path) for path in sorted(folder.glob(f"*{SUFFIX}"))}
    if not parts:
        raise DataError(f"{folder} holds no encoded episodes; make them first")
    return parts


@torch.inference_mode()
def predictions(network: MatchingNetwork | None, part: Encoded, change: Change | None = None) -> Tensor:
    """Coordinates (P, K, 2). network: None for the peaks of the similarity, where all decoders start."""
    generator, found = torch.Generator().manual_seed(0), []
    for start in range(0, len(part.usable), AT_ONCE):
        rows = {name: value[start : start + AT_ONCE] for name, value in part._asdict().items()}
        episodes = Encoded(**{name: value.float() if name in ROUNDED else value for name, value in rows.items()})
        if network is None:
            found.append(locate(episodes.similarity).peak)
        else:
            if change is not None:
                changed = torch.stack([change(one, generator) for one in episodes.prior])
                episodes = episodes._replace(prior=changed)
            found.append(decode(network, episodes).coordinates[-1])
    return torch.cat(found)


def off_by(points: Tensor, part: Encoded) -> Floats:
    """Distances of points (P, K, 2) to the truth (P, K), relative to the longer side of the query's box; nan where a
    keypoint does not count."""
    away = PADDING * (points - part.target).norm(dim=-1)
    return away.masked_fill(~part.weight, float("nan")).double().numpy()


def distances(network: MatchingNetwork | None, part: Encoded, change: Change | None = None) -> Floats:
    return off_by(predictions(network, part, change), part)


def by_votes(part: Encoded) -> Tensor:
    """Coordinates (P, K, 2) by affine voting along the skeleton, without any training: what a decoder has to beat."""
    graph, settings = pose_graph(part.prior, part.prior, part.usable), VotingSettings()
    votes = vote(part.similarity.float(), part.places, part.usable, graph.normalised, settings)
    return mean_shift_mode(votes.heatmap, settings.near)


def best_of_peaks(part: Encoded, number: int) -> Floats:
    """Distances (P, K) if one could choose among the highest separate peaks of the similarity: what there is to win by
    choosing alone."""
    logits, found = part.similarity.float(), []
    h, w = logits.shape[-2:]
    for _ in range(number):
        found.append(off_by(locate(logits).peak, part))
        highest = F.one_hot(logits.flatten(2).argmax(dim=-1), h * w).float().unflatten(-1, (h, w))
        logits = logits.masked_fill(F.max_pool2d(highest, 5, stride=1, padding=2) > 0, -1e4)
    return np.min(found, axis=0)


def bend(part: Encoded) -> Floats:
    """How far the keypoints of support and query are from being joined by one affine map (P,): what is left in the
    query, relative to the longer side of its box; nan where fewer than four keypoints count."""
    weight = part.weight.double()
    linear, here, there = linear_map(part.places.double(), part.target.double(), weight)
    off = PADDING * ((part.places.double() - here) @ linear + there - part.target.double())
    number = weight.sum(dim=1)
    left = ((off.square().sum(dim=-1) * weight).sum(dim=1) / number.clamp(min=1)).sqrt()
    return left.masked_fill(number < 4, float("nan")).numpy()


def collapsed(points: Tensor, part: Encoded) -> Floats:
    """Which keypoints (P, K) that count were put in one place with another one that is elsewhere in truth; nan for the
    others."""
    both = part.weight[:, :, None] & part.weight[:, None] & ~torch.eye(part.weight.shape[1], dtype=torch.bool)
    found, true = (PADDING * torch.cdist(where, where) for where in (points, part.target))
    together = (both & (found < TOGETHER) & (true > APART)).any(dim=-1)
    return together.double().masked_fill(~part.weight, float("nan")).numpy()


def score(distance: Floats) -> float:
    """mPCK@5 in per cent."""
    return 100 * float(pck(distance, THRESHOLDS).mean())


class DecoderValidation:
    """Callable on a network; returns mPCK@5 on the pairs of all categories of a folder, and of some groups of them."""

    def __init__(self, folder: Path, groups: Mapping[str, list[str]]):
        self.plain, self.covered, self.groups = load_parts(folder / "val"), load_parts(folder / "covered"), groups

    def __call__(self, network: MatchingNetwork | None) -> dict[str, float]:
        scores = {}
        for name, parts in (("val", self.plain), ("covered", self.covered)):
            each = {category: score(distances(network, part)) for category, part in parts.items()}
            scores[name] = float(np.mean(list(each.values())))
            for group, members in self.groups.items():
                scores[f"{name}, {group}"] = float(np.mean([each[category] for category in members]))
        return {name: round(value, 3) for name, value in scores.items()}
