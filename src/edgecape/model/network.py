"""The EdgeCape network on feature maps: support side → pose-graph, query side → coordinates.

As published (arXiv 2411.16665) and released, nothing else. What another method changes goes through four places:
`keypoint_tokens`, `query_cells` and `similarity` can be overridden, and `decode` can be told where to start.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgecape.model.decoder import GraphDecoder
from edgecape.model.encoder import Encoder
from edgecape.model.linear import Linear
from edgecape.model.pose_graph import PoseGraph, PoseGraphPredictor, pose_graph
from edgecape.model.positions import sine_of_grid
from edgecape.model.proposals import ProposalGenerator, Proposals, locate
from edgecape.model.settings import NetworkSettings
from edgecape.model.tokens import mean_over_shots, pool, pooling_from_coordinates, pooling_from_maps


class SupportEncoding(NamedTuple):
    """All the query side needs to know of the support: encode once, use for any number of queries."""

    tokens: Tensor  # (B, K, d)
    usable: Tensor  # (B, K) bool
    graph: PoseGraph
    places: Tensor | None = None  # (B, K, 2), of the keypoints in the supports, for networks that look at them

    def expand(self, queries: int) -> SupportEncoding:
        """One support (B = 1) for a batch of queries, without copying."""
        places = None if self.places is None else self.places.expand(queries, -1, -1)
        return SupportEncoding(
            self.tokens.expand(queries, -1, -1), self.usable.expand(queries, -1), self.graph.expand(queries), places
        )


class Matched(NamedTuple):
    """A query compared with a support, before the graph has a say."""

    image: Tensor  # (B, hw, d), refined by the encoder
    keypoints: Tensor  # (B, K, d), refined by the encoder
    proposals: Proposals


class Output(NamedTuple):
    """Coordinates are (x, y) in [0, 1] of the query frame."""

    coordinates: Tensor  # (layers, B, K, 2), every decoder layer; the last is the prediction
    proposals: Proposals  # similarity (B, K, h, w), expected and peak coordinates (B, K, 2)
    usable: Tensor  # (B, K) bool
    graph: PoseGraph  # A_prior, A, Ã: (B, K, K) each
    reconstruction: Tensor | None = None  # (B, K, 2), with `hidden` only: what L_adj compares


class Network(nn.Module):
    def __init__(self, settings: NetworkSettings | None = None):
        super().__init__()
        self.settings = settings = settings or NetworkSettings()
        self.image_proj = nn.Conv2d(settings.channels, settings.width, kernel_size=1)
        self.keypoint_proj = Linear(settings.channels, settings.width)
        self.encoder = Encoder(settings)
        self.proposal_generator = ProposalGenerator(settings.width)
        self.pose_graph = PoseGraphPredictor(settings) if settings.graph == "predicted" else None
        self.decoder = GraphDecoder(settings)
        self.mask_token = nn.Parameter(torch.zeros(1, settings.width))  # stands for a hidden keypoint in L_adj
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """The reference's start: Xavier weights, no biases; steps of the decoder and residual of the graph at zero."""
        for name, parameter in self.named_parameters():
            if name.endswith(".bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1 and name != "mask_token" and ".table." not in name:
                nn.init.xavier_uniform_(parameter.flatten(1))
        for step in self.decoder.steps:
            nn.init.zeros_(step[-1].weight)  # type: ignore[index]

    # --- support side: f(A_prior, F_s, F_s^k) → Ã --------------------------------------------------------

    def encode_support(
        self,
        features: Tensor,
        visible: Tensor,
        prior: Tensor,
        coordinates: Tensor | None = None,
        maps: Tensor | None = None,
        graph: PoseGraph | None = None,
    ) -> SupportEncoding:
        """features (B, S, C, h, w); visible (B, S, K) bool; prior A (B, K, K);
        where the keypoints are: coordinates (B, S, K, 2) in [0, 1] or maps (B, S, K, H, W).
        graph: if it is known already, as it is for another view of the same supports."""
        pooled = pool(features, self.pooling(features, coordinates, maps))  # F_s^k (B, S, K, C)
        tokens = self.keypoint_tokens(pooled, visible, coordinates)  # (B, K, d)
        graph = graph or self.predict_graph(features, pooled, tokens, visible, prior)
        return SupportEncoding(tokens, visible.any(dim=1), graph)

    def pooling(self, features: Tensor, coordinates: Tensor | None, maps: Tensor | None = None) -> Tensor:
        """Weights (..., K, h, w) that average features under the Gaussian round each keypoint."""
        grid = (features.shape[-2], features.shape[-1])
        if maps is not None:
            return pooling_from_maps(maps, grid)
        if coordinates is None:
            raise ValueError("a support needs keypoint coordinates or keypoint maps")
        return pooling_from_coordinates(coordinates, grid, self.settings.backbone.image_size, self.settings.map_stride)

    def keypoint_tokens(self, pooled: Tensor, visible: Tensor, coordinates: Tensor | None) -> Tensor:
        """Plug 1. What each keypoint looks like: (B, S, K, C) → (B, K, d), averaged over the shots that show it."""
        tokens: Tensor = self.keypoint_proj(mean_over_shots(pooled, visible))
        return tokens

    def predict_graph(
        self, features: Tensor, pooled: Tensor, tokens: Tensor, visible: Tensor, prior: Tensor
    ) -> PoseGraph:
        """Ã, as far as the settings want a graph."""
        if self.settings.graph == "none":
            prior = torch.zeros_like(prior)
        if self.pose_graph is None:
            return pose_graph(prior, prior, visible.any(dim=1))
        shot_tokens = self.keypoint_proj(pooled * visible[..., None])
        position, nothing = self.position(features), self.keypoint_proj.bias
        return self.pose_graph(features, shot_tokens, tokens, visible, position, prior, nothing)

    # --- query side --------------------------------------------------------------------------------------

    def position(self, features: Tensor) -> Tensor:
        """Sine embedding (hw, d) of the cells of a feature map."""
        h, w = features.shape[-2:]
        return sine_of_grid(h, w, self.settings.width, features.device)

    def query_cells(self, query: Tensor) -> Tensor:
        """Plug 2. What enters the encoder of a query: (B, C, h, w) → (B, d, h, w)."""
        cells: Tensor = self.image_proj(query)
        return cells

    def match(self, cells: Tensor, support: SupportEncoding) -> Matched:
        """cells (B, d, h, w) of `query_cells`: computed once per picture, whatever it is compared with."""
        image = cells.flatten(2).transpose(1, 2)  # (B, hw, d)
        image, keypoints = self.encoder(image, self.position(cells), support.tokens, support.usable)
        return Matched(image, keypoints, locate(self.similarity(image, keypoints, cells, support.tokens)))

    def similarity(self, image: Tensor, keypoints: Tensor, cells: Tensor, tokens: Tensor) -> Tensor:
        """Plug 3. Logits (B, K, h, w) from refined image (B, hw, d) and keypoints (B, K, d); `cells` and `tokens` are
        what they were before the encoder."""
        similarity: Tensor = self.proposal_generator(image, keypoints)
        return similarity.unflatten(-1, cells.shape[-2:])

    def decode(
        self,
        matched: Matched,
        support: SupportEncoding,
        start: Tensor | None = None,
        hidden: Tensor | None = None,
    ) -> Output:
        """start (B, K, 2), plug 4: where the decoder begins; at the peaks of the similarity, as published, if None.
        hidden (B, K) bool: keypoints to hide in a second pass for L_adj."""
        image, keypoints, proposals = matched
        start = proposals.peak if start is None else start
        position = self.position(proposals.similarity)
        decoded = self.decoder(keypoints, image, position, start, support.usable, support.graph)
        reconstruction = None
        if hidden is not None:
            reconstruction = self._reconstruct(keypoints, image, position, start, support, hidden)
        return Output(decoded.coordinates, proposals, support.usable, support.graph, reconstruction)

    def _reconstruct(
        self,
        keypoints: Tensor,
        image: Tensor,
        position: Tensor,
        start: Tensor,
        support: SupportEncoding,
        hidden: Tensor,
    ) -> Tensor:
        """Decode with some keypoints hidden. Gradients reach the graph and the mask token only: decoder weights,
        features and proposals are constants here, so only a better graph can help."""
        shown = (keypoints.detach() * ~hidden[..., None]) + self.mask_token * (hidden & support.usable)[..., None]
        frozen = {name: parameter.detach() for name, parameter in self.decoder.named_parameters()}
        arguments = (shown, image.detach(), position, start.detach(), support.usable, support.graph)
        return torch.func.functional_call(self.decoder, frozen, arguments).last_reference

    # --- both --------------------------------------------------------------------------------------------

    def forward(
        self,
        query: Tensor,
        support: Tensor,
        visible: Tensor,
        prior: Tensor,
        coordinates: Tensor | None = None,
        maps: Tensor | None = None,
        hidden: Tensor | None = None,
    ) -> Output:
        """query (B, C, h, w) and support (B, S, C, h, w) feature maps; visible (B, S, K) or (B, K) bool;
        prior (B, K, K); support keypoints as coordinates (B, S, K, 2) in [0, 1] or as maps (B, S, K, H, W)."""
        if visible.dim() == 2:
            visible = visible[:, None].expand(-1, support.shape[1], -1)
        encoding = self.encode_support(support, visible, prior, coordinates, maps)
        return self.decode(self.match(self.query_cells(query), encoding), encoding, hidden=hidden)
