"""A start from which the untrained proposals already do nearest-feature matching.

A standard start throws away the correspondence that the backbone's features have and has to learn it again. Here the
network's own layers are set so that similarity is the cosine of (centred, PCA-reduced) backbone features:

- keypoints and image share one projection onto the principal components of the features, placed in the subspace of
  the network's width that is orthogonal to every position embedding and to the constant vector, so that neither the
  positions added in the encoder nor the means removed by its norms disturb the match;
- encoder layers add nothing yet (their last linear maps are zero); gradients reach them all the same;
- the proposal generator is a scaled projection onto that subspace; its scale is that of the logits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from edgecape.matching.edges import LogLinearPoseGraph
from edgecape.matching.network import MatchingNetwork
from edgecape.matching.settings import MatchingSettings
from edgecape.model.decoder import MarkovBias
from edgecape.model.encoder import EncoderLayer
from edgecape.model.linear import silence
from edgecape.model.network import Network
from edgecape.model.positions import sine_of_grid

TOKEN_NORM = 16.0  # of a projected feature: what a layer norm of width 256 gives
OPEN = 0.5  # c: weight of an edge between keypoints that are all but the same
FAINT = 0.02  # weight of an edge that the skeleton does not have, at the start of the graph phase


def content_basis(width: int, grid: tuple[int, int]) -> Tensor:
    """Orthonormal columns (width, n) spanning what no position embedding and no constant reaches."""
    occupied = torch.cat((sine_of_grid(*grid, width), torch.ones(1, width)))
    _, values, directions = torch.linalg.svd(occupied.double(), full_matrices=True)
    rank = int((values > 1e-4 * values[0]).sum())
    return directions[rank:].T.float()


@torch.no_grad()
def start_from_matching(network: Network, features: Tensor, whitening: float = 0.7) -> None:
    """features (n, C, h, w): of some training images. whitening: 0 keeps the variances of the principal components,
    1 makes them equal; most of the way is best (docs/experiments/features.md)."""
    logit_scale, direct = MatchingSettings.logit_scale, 0.0
    if isinstance(network, MatchingNetwork):
        features, logit_scale = network.smooth(network.centre(features)), network.matching.logit_scale
        direct = 0.0 if network.direct is None else float(network.direct)
    width, grid = network.settings.width, (features.shape[-2], features.shape[-1])
    cells = features.permute(0, 2, 3, 1).flatten(0, 2).double()  # (N, C)
    mean = cells.mean(0)
    centred = cells - mean
    values, directions = torch.linalg.eigh(centred.T @ centred / len(cells))
    basis = content_basis(width, grid)
    kept = min(basis.shape[1], directions.shape[1])
    values, directions = values.flip(0)[:kept].clamp(min=1e-8), directions.flip(1)[:, :kept]
    components = (directions * values ** (-whitening / 2)).T  # (kept, C)
    projection = basis[:, :kept].double() @ components  # (width, C)
    projection = projection * TOKEN_NORM / (centred @ projection.T).norm(dim=1).mean()
    for layer in (network.image_proj, network.keypoint_proj):
        layer.weight.copy_(projection.float().reshape(layer.weight.shape))
        assert layer.bias is not None
        layer.bias.copy_(-(projection @ mean).float())

    for block in network.encoder.layers:
        assert isinstance(block, EncoderLayer)
        silence(block.attention.out_proj)
        silence(block.linear2)

    generator = network.proposal_generator
    onto_content = basis @ basis.T
    for projection_layer in (generator.support_proj, generator.query_proj):
        projection_layer.weight.copy_(onto_content)
        projection_layer.bias.zero_()
    silence(generator.dynamic_proj[-1])  # type: ignore[arg-type]
    scale = _match_scale(network, features)
    for projection_layer in (generator.support_proj, generator.query_proj):
        projection_layer.weight.mul_(((logit_scale - direct) / scale) ** 0.5)
    start_new_parts(network)


@torch.no_grad()
def start_new_parts(network: Network) -> None:
    """What a phase adds: a structural bias starts as no bias, so that the phase continues from where the last one
    ended. Every pair of keypoints starts with a faint edge: at weight 0, the corner of the ReLU, none could grow."""
    if network.pose_graph is not None and not isinstance(network.pose_graph, LogLinearPoseGraph):  # it has some
        network.pose_graph.b.fill_(FAINT)
    for module in network.modules():
        if isinstance(module, MarkovBias):
            silence(module.mlp[-1])  # type: ignore[arg-type]


def _match_scale(network: Network, features: Tensor) -> float:
    """Similarity of a cell with itself: a support keypoint and a query cell with the same feature."""
    some = features[:8]
    position = network.position(some)
    image = network.image_proj(some).flatten(2).transpose(1, 2)
    usable = torch.ones(len(some), image.shape[1], dtype=torch.bool)
    refined_image, refined_keypoints = network.encoder(image, position, image, usable)
    generator = network.proposal_generator
    products = generator.support_proj(refined_keypoints) * generator.query_proj(refined_image)
    return float(products.sum(-1).mean())


@torch.no_grad()
def open_graph(network: Network) -> None:
    """Where c and b of a predicted graph are 0, as in the paper, a ReLU stands between edges that were not drawn and
    all that could change them, and a first step that takes b below 0 shuts them for good. The authors' code draws c
    at random: half of its trainings begin open."""
    if network.pose_graph is not None:
        network.pose_graph.c.fill_(OPEN)
