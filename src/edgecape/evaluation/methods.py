"""Methods to evaluate: the network, and baselines that were never trained. What they take: protocol.Task."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from edgecape.errors import SettingsError
from edgecape.evaluation.evaluate import Localiser, Task
from edgecape.model.aspects import Shots, at_turn, best_turn, compare, encode_turns, settle_best
from edgecape.model.backbone import Backbone
from edgecape.model.network import Matched, Network, Output
from edgecape.model.proposals import cell_centres, locate
from edgecape.model.tokens import pool, pooling_from_coordinates

Graph = Literal["none", "fixed", "predicted"]
GRAPHS: tuple[Graph, ...] = ("none", "fixed", "predicted")  # each can be run with less than it was trained with
MAP_CELLS = 64  # the keypoint maps that pool support features are as fine as the network's


# --- baselines -----------------------------------------------------------------------------------------------


def copy_support(task: Task) -> Tensor:
    """Where the keypoints are in the supports, on average: what is gained without looking at the query at all."""
    return task.coordinates.mean(dim=0).expand(len(task.query), -1, -1)


def nearest_feature(channels: slice = slice(None), centred: bool = True, sharpness: float = 10.0) -> Localiser:
    """Training-free matching: the cell of the query whose feature is most like the supports' under the keypoint.

    channels: those of one layer if the backbone gives several. centred: remove the mean feature of the supports and of
    the query, which says what they show but not where. sharpness: of the softmax that finds the place between cells,
    in the 3×3 window round the best one.
    """

    def localise(task: Task) -> Tensor:
        features, query = task.features[:, channels], task.query[:, channels]
        if centred:
            features = features - features.mean(dim=(0, 2, 3), keepdim=True)
            query = query - query.mean(dim=(2, 3), keepdim=True)
        grid = (query.shape[-2], query.shape[-1])

        def pooled(image: Tensor, places: Tensor) -> Tensor:
            """Features (n, C, h, w) under places (n or 1, P, 2) → (n, P, C)."""
            return pool(image, pooling_from_coordinates(places, grid, (MAP_CELLS, MAP_CELLS), stride=1.0))

        keypoints = pooled(features, task.coordinates).mean(dim=0)  # (K, C)
        cells = pooled(query, cell_centres(*grid)[None])  # (Q, hw, C), as smooth as what they are compared with
        return _best_match(keypoints, cells, grid, sharpness)

    return localise


def whitened_matching(network: Network, sharpness: float = 20.0) -> Localiser:
    """Matching with what enters the network's encoder, without the layout: its projections and nothing else of it.

    Training-free as long as features and projections are: to be given features without the network's adapter; the
    matching start sets the projections to the whitening of unlabelled training features, and the recipe `small` freezes
    them there. Another recipe may train them.
    """

    def localise(task: Task) -> Tensor:
        device = network.mask_token.device
        features, coordinates, query = (x.to(device) for x in (task.features, task.coordinates, task.query))
        if network.settings.centred:
            features = features - features.mean(dim=(-2, -1), keepdim=True)
            query = network.centre_query(query)
        pooled = pool(features, network.pooling(features, coordinates, None))  # (S, K, C)
        keypoints = network.keypoint_proj(pooled.mean(dim=0))
        cells = network.image_proj(query).flatten(2).transpose(1, 2)  # (Q, hw, d)
        return _best_match(keypoints, cells, (query.shape[-2], query.shape[-1]), sharpness)

    return localise


def _best_match(keypoints: Tensor, cells: Tensor, grid: tuple[int, int], sharpness: float) -> Tensor:
    """Where the cosine of keypoints (K, C) with cells (Q, hw, C) is largest: (Q, K, 2)."""
    cosine = F.normalize(keypoints, dim=-1) @ F.normalize(cells, dim=-1).transpose(1, 2)  # (Q, K, hw)
    return locate(sharpness * cosine.unflatten(-1, grid)).peak


def layer_channels(backbone: Backbone) -> dict[int, slice]:
    """Which channels of the features come from which layer."""
    widths: list[int] = backbone.model.channels
    return {
        layer: slice(end - width, end)
        for layer, width, end in zip(backbone.model.out_indices, widths, accumulate(widths), strict=True)
    }


def baselines(backbone: Backbone) -> dict[str, Localiser]:
    """Copying, and matching with each layer of the features."""
    matching = {f"nearest feature, layer {n}": nearest_feature(part) for n, part in layer_channels(backbone).items()}
    return {"copy support": copy_support, **matching}


# --- the network ---------------------------------------------------------------------------------------------


class Runner:
    """A network, put into eval mode, on one task after another, an episode's queries in one batch.

    The same weights may be told more or less of the graph, and the same queries may come with several skeletons:
    comparing queries with supports depends on neither and is done once.
    """

    def __init__(self, network: Network):
        self.network = network.eval()
        self._query: Tensor | None = None
        self._turn = torch.zeros(0, dtype=torch.long)
        self._matched: list[Matched] = []

    def __call__(self, task: Task, network: Network | None = None) -> Output:
        """network: the same weights with another graph."""
        network = network or self.network
        settings, device = network.settings, network.mask_token.device

        def look(mirror: bool, turn: int) -> Shots:
            if settings.looks == (1.0,) and not mirror and not turn:
                return Shots(task.features.to(device)[None], task.coordinates.to(device)[None])
            assert task.looks is not None
            sizes = settings.looks[:1] if turn else settings.looks
            return Shots(*(x.to(device) for x in task.looks(sizes, mirror, turn)))

        encoded = encode_turns(
            network,
            look,
            task.visible.to(device)[None, None],
            task.prior.to(device)[None],
            None if task.order is None else task.order.to(device),
        )
        turns = tuple(aspects.expand(len(task.query)) for aspects in encoded)
        if task.query is not self._query:
            query, mirrored = task.query.to(device), None
            if settings.mirror_query:
                assert task.mirrored is not None
                mirrored = task.mirrored().to(device)
            self._query, self._turn = task.query, best_turn(network, query, turns, mirrored)
            self._matched = compare(network, query, at_turn(turns, self._turn), mirrored)
        return settle_best(network, self._matched, at_turn(turns, self._turn))


def refined(runner: Runner, network: Network | None = None) -> Localiser:
    """The final coordinates."""
    return lambda task: runner(task, network).coordinates[-1]


def proposals(runner: Runner) -> Localiser:
    """The first guess, by similarity alone."""
    return lambda task: runner(task).proposals.peak


def with_graph(network: Network, graph: Graph) -> Network:
    """The same weights told less of the graph: the prior instead of the predicted graph, or nothing."""
    if GRAPHS.index(graph) > GRAPHS.index(network.settings.graph):
        raise SettingsError(f"a network trained with graph '{network.settings.graph}' cannot be run with '{graph}'")
    with torch.device("meta"):  # takes over the weights, so it needs none of its own
        other = Network(replace(network.settings, graph=graph))
    state = network.state_dict()
    other.load_state_dict({name: state[name] for name in other.state_dict()}, assign=True)
    return other.eval()


def variants(network: Network) -> dict[str, Localiser]:
    """The network's proposals, and its coordinates with no graph, the prior, and the predicted graph, as far as it was
    trained with them; and, if it makes use of them, without the names of the keypoints."""
    able, runner = GRAPHS[: GRAPHS.index(network.settings.graph) + 1], Runner(network)
    rows = {"model, proposals": proposals(runner)}
    if network.settings.mirror:
        unnamed = refined(Runner(network))  # names have a say in the turn, so nothing is shared
        rows["model, not told left and right"] = lambda task: unnamed(task._replace(order=None))
    return rows | {f"model, graph {graph}": refined(runner, with_graph(network, graph)) for graph in able}
