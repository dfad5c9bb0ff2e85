"""Methods to evaluate: the network, and baselines that were never trained. What they take: evaluate.Task."""

from __future__ import annotations

from itertools import accumulate
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from edgecape.errors import SettingsError
from edgecape.evaluation.evaluate import Method, Task
from edgecape.matching.multiview import Compared, Estimate, MultiView, Shots, SupportViews
from edgecape.matching.network import MatchingNetwork
from edgecape.matching.scores import Calibration, probabilities
from edgecape.model.backbone import Backbone
from edgecape.model.graph import row_normalise
from edgecape.model.network import Network
from edgecape.model.pose_graph import PoseGraph
from edgecape.model.presets import preset
from edgecape.model.proposals import cell_centres, locate
from edgecape.model.tokens import pool, pooling_from_coordinates
from edgecape.predictor import SURE

Graph = Literal["none", "fixed", "predicted"]
GRAPHS: tuple[Graph, ...] = ("none", "fixed", "predicted")  # each can be run with less than it was trained with
MAP_CELLS = 64  # the keypoint maps that pool support features are as fine as the network's


# --- baselines -----------------------------------------------------------------------------------------------


def copy_support(task: Task) -> Tensor:
    """Where the keypoints are in the supports, on average: what is gained without looking at the query at all."""
    return task.coordinates.mean(dim=0).expand(len(task.query), -1, -1)


def nearest_feature(channels: slice = slice(None), centre: bool = True, logit_scale: float = 10.0) -> Method:
    """Training-free matching: the cell of the query whose feature is most like the supports' under the keypoint.

    channels: those of one layer if the backbone gives several. centre: remove the mean feature of the supports and of
    the query, which says what they show but not where. logit_scale: of the softmax that finds the place between cells,
    in the 3×3 window round the best one.
    """

    def localise(task: Task) -> Tensor:
        features, query = task.features[:, channels], task.query[:, channels]
        if centre:
            features = features - features.mean(dim=(0, 2, 3), keepdim=True)
            query = query - query.mean(dim=(2, 3), keepdim=True)
        grid = (query.shape[-2], query.shape[-1])

        def pooled(image: Tensor, places: Tensor) -> Tensor:
            """Features (n, C, h, w) under places (n or 1, P, 2) → (n, P, C)."""
            return pool(image, pooling_from_coordinates(places, grid, (MAP_CELLS, MAP_CELLS), stride=1.0))

        keypoints = pooled(features, task.coordinates).mean(dim=0)  # (K, C)
        cells = pooled(query, cell_centres(*grid)[None])  # (Q, hw, C), as smooth as what they are compared with
        return _best_match(keypoints, cells, grid, logit_scale)

    return localise


def whitened_matching(network: MatchingNetwork) -> Method:
    """Matching with what enters the network's encoder, without the layout: its projections and nothing else of it.

    Training-free as long as features and projections are: to be given features without the network's LoRA; the
    matching start sets the projections to the whitening of unlabelled training features, and the recipe `small` freezes
    them there. Another recipe may train them.
    """

    def localise(task: Task) -> Tensor:
        device = network.mask_token.device
        features, coordinates, query = (x.to(device) for x in (task.features, task.coordinates, task.query))
        features = network.centre(features)
        keypoints = network.keypoint_proj(pool(features, network.pooling(features, coordinates)).mean(dim=0))  # (K, d)
        cells = network.query_cells(query).flatten(2).transpose(1, 2)  # (Q, hw, d)
        return _best_match(keypoints, cells, (query.shape[-2], query.shape[-1]), network.matching.logit_scale)

    return localise


def _best_match(keypoints: Tensor, cells: Tensor, grid: tuple[int, int], logit_scale: float) -> Tensor:
    """Where the cosine of keypoints (K, C) with cells (Q, hw, C) is largest: (Q, K, 2)."""
    cosine = F.normalize(keypoints, dim=-1) @ F.normalize(cells, dim=-1).transpose(1, 2)  # (Q, K, hw)
    return locate(logit_scale * cosine.unflatten(-1, grid)).peak


def layer_channels(backbone: Backbone) -> dict[int, slice]:
    """Which channels of the features come from which layer."""
    widths: list[int] = backbone.model.channels
    return {
        layer: slice(end - width, end)
        for layer, width, end in zip(backbone.model.out_indices, widths, accumulate(widths), strict=True)
    }


def baselines(backbone: Backbone) -> dict[str, Method]:
    """Copying, and matching with each layer of the features."""
    matching = {f"nearest feature, layer {n}": nearest_feature(part) for n, part in layer_channels(backbone).items()}
    return {"copy support": copy_support, **matching}


# --- the network ---------------------------------------------------------------------------------------------


class ModelMethod:
    """A network, put into eval mode, on one task after another, an episode's queries in one batch.

    The same network may be told more or less of the graph, and the same queries may come with several skeletons. What
    that does not change is done once: supports are encoded per skeleton, queries are compared with them per episode.
    """

    def __init__(self, network: Network, fast: bool = False):
        """fast: one pass and one upright view instead of the best way."""
        self.network, self.fast = network.eval(), fast
        self.multiview = MultiView(self.network)
        self._last: tuple[Task, SupportViews, Compared] | None = None

    def __call__(self, task: Task, graph: Graph | None = None) -> Estimate:
        """graph: what the network is told of it, if not all that it was trained with."""
        encoded, compared = self._prepared(task)
        if graph is not None:
            encoded = encoded._replace(graph=told(graph, encoded.graph))
        return self.multiview.settle(compared, encoded.expand(len(compared.supports)))

    def encode(self, task: Task) -> SupportViews:
        """The supports alone, and the graph."""
        device = self.network.mask_token.device
        shots = Shots(*(x.to(device) for x in task.shots(self.multiview.pictures)))
        visible = task.visible.to(device)[None, None].expand(-1, shots.features.shape[2], -1)
        flip = None if task.flip_index is None else task.flip_index.to(device)
        return self.multiview.encode(shots, visible, task.prior.to(device)[None], flip)

    def _prepared(self, task: Task) -> tuple[SupportViews, Compared]:
        """What is the same as for the last task is not done again."""
        if self._last is None or any(a is not b for a, b in zip(task, self._last[0], strict=True)):
            encoded = self.encode(task)
            self._last = task, encoded, self._comparison(task, encoded)
        return self._last[1:]

    def _comparison(self, task: Task, encoded: SupportViews) -> Compared:
        """It does not depend on the skeleton."""
        if self._last is not None:
            last, _, compared = self._last
            if all(a is b for a, b in zip(task._replace(prior=last.prior), last, strict=True)):
                return compared
        query = task.queries(self.multiview.query_views).to(self.network.mask_token.device)
        return self.multiview.compare(query, encoded.expand(len(query)), self.fast)


def propagated(method: ModelMethod, calibration: Calibration | None, number: int) -> Method:
    """With the other queries of an episode, which nobody marked, as `EdgeCape.propagate` takes them: the poses that the
    model is surest of there are further supports. A query is never its own support. It is told more than published
    methods are, which see one query at a time."""
    multiview = method.multiview

    def localise(task: Task) -> Tensor:
        assert task.marked is not None
        device = method.network.mask_token.device
        first = method(task)
        places = first.output.coordinates[-1]
        sure = probabilities(first, calibration)[:, task.visible.to(device)].mean(dim=1)  # (Q,)
        if sure.mean() >= SURE:
            return places
        own, others = task.shots(multiview.pictures), task.marked(multiview.pictures, places.cpu())
        Q, S = len(places), own.features.shape[2]
        shots = Shots(*(torch.cat(parts, dim=2).to(device) for parts in zip(own, others.shots, strict=True)))
        visible = torch.cat((task.visible.expand(1, S, -1), others.visible & task.visible), dim=1).to(device)
        prior, flip = task.prior.to(device)[None], None if task.flip_index is None else task.flip_index.to(device)
        sure = sure.expand(Q, Q).masked_fill(torch.eye(Q, dtype=torch.bool, device=device), -1)
        surest = sure.argsort(dim=1, descending=True)[:, : min(number, Q - 1)]
        chosen = torch.cat((torch.arange(S, device=device).expand(Q, S), S + surest), dim=1)
        queries, found = task.queries(multiview.query_views).to(device), torch.empty_like(places)
        for supports in chosen.unique(dim=0):  # most queries have the same
            mine = (chosen == supports).all(dim=1)
            beside = Shots(*(x[:, :, supports] for x in shots))
            known = multiview.encode(beside, visible[:, supports], prior, flip).expand(int(mine.sum()))
            found[mine] = multiview(queries[mine], known, method.fast).output.coordinates[-1]
        return found

    return localise


def told(graph: Graph, known: PoseGraph) -> PoseGraph:
    """Less of a graph: the prior instead of the predicted one, or nothing."""
    if graph == "predicted":
        return known
    prior = known.prior if graph == "fixed" else torch.zeros_like(known.prior)
    return PoseGraph(prior, prior, row_normalise(prior))


def final(method: ModelMethod, graph: Graph | None = None) -> Method:
    """The final coordinates."""
    return lambda task: method(task, graph).output.coordinates[-1]


def proposals(method: ModelMethod) -> Method:
    """The first guess, by similarity alone."""
    return lambda task: method(task).output.proposals.peak


def auto(fast: ModelMethod, best: ModelMethod) -> Method:
    """What effort "auto" gives: the best way for queries that the fast one leaves open."""

    def localise(task: Task) -> Tensor:
        quick = fast(task)
        return torch.where(quick.clear[:, None, None], quick.output.coordinates[-1], final(best)(task))

    return localise


def as_preset(name: str, network: Network) -> Method:
    """The network as a method of the family: told as much of the graph as that method is."""
    wanted, has, method = preset(name), network.settings, ModelMethod(network)
    if not wanted.decodes:
        return proposals(method)
    if has.bias != wanted.bias:
        raise SettingsError(f"this model was trained with bias '{has.bias}', {name} has '{wanted.bias}'; train it anew")
    if GRAPHS.index(wanted.graph) > GRAPHS.index(has.graph):
        raise SettingsError(f"this model was trained with graph '{has.graph}', {name} needs '{wanted.graph}'")
    return final(method, wanted.graph)


def variants(network: Network) -> dict[str, Method]:
    """The network's proposals, and its coordinates with no graph, the prior, and the predicted graph, as far as it was
    trained with them; and, if it makes use of them, without the names of the keypoints and with less effort."""
    able, method = GRAPHS[: GRAPHS.index(network.settings.graph) + 1], ModelMethod(network)
    rows = {"model, proposals": proposals(method)}
    if method.multiview.settings.views.mirror:
        unnamed = final(ModelMethod(network))  # names have a say in the turn, so nothing is shared
        rows["model, not told left and right"] = lambda task: unnamed(task._replace(flip_index=None))
        fast = ModelMethod(network, fast=True)
        rows |= {"model, effort fast": final(fast), "model, effort auto": auto(fast, method)}
    return rows | {f"model, graph {graph}": final(method, graph) for graph in able}
