"""The EdgeCape network on feature maps: support side → pose-graph, query side → coordinates."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgecape.model.adapter import Adapter
from edgecape.model.consistency import Agreement, agree
from edgecape.model.decoder import GraphDecoder
from edgecape.model.encoder import Encoder
from edgecape.model.pose_graph import PoseGraph, PoseGraphPredictor, pose_graph
from edgecape.model.positions import sine_of_coordinates, sine_of_grid
from edgecape.model.proposals import ProposalGenerator, Proposals, cell_centres, densest
from edgecape.model.settings import NetworkSettings
from edgecape.model.tokens import mean_over_shots, pool, pooling_from_coordinates, pooling_from_maps

GLANCE = 20.0  # similarity of a perfect match at first sight


class SupportEncoding(NamedTuple):
    """All the query side needs to know of the support: encode once, use for any number of queries."""

    tokens: Tensor  # (B, K, d)
    usable: Tensor  # (B, K) bool
    graph: PoseGraph
    places: Tensor  # (B, K, 2), of the keypoints in the supports, averaged; only read with settings.consistency

    def expand(self, queries: int) -> SupportEncoding:
        """One support (B = 1) for a batch of queries, without copying."""
        return SupportEncoding(
            self.tokens.expand(queries, -1, -1),
            self.usable.expand(queries, -1),
            PoseGraph(*(matrix.expand(queries, -1, -1) for matrix in self.graph)),
            self.places.expand(queries, -1, -1),
        )


class Matched(NamedTuple):
    """A query compared with the supports, before anything is decided."""

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
    agreement: Agreement | None = None  # with settings.consistency: where the neighbours expect each keypoint


class Network(nn.Module):
    def __init__(self, settings: NetworkSettings | None = None):
        super().__init__()
        self.settings = settings = settings or NetworkSettings()
        self.image_proj = nn.Conv2d(settings.channels, settings.width, kernel_size=1)
        self.keypoint_proj = nn.Linear(settings.channels, settings.width)
        self.encoder = Encoder(settings)
        self.proposal_generator = ProposalGenerator(settings.width, settings.direct_match)
        self.pose_graph = PoseGraphPredictor(settings) if settings.graph == "predicted" else None
        self.decoder = GraphDecoder(settings)
        self.layout_proj = nn.Linear(settings.width, settings.width) if settings.layout else None
        self.mask_token = nn.Parameter(torch.zeros(1, settings.width))  # stands for a hidden keypoint in L_adj
        adapted, layers = settings.backbone.adapted, settings.backbone.layers
        self.adapter = Adapter(adapted, settings.channels // len(layers), settings.backbone.rank) if adapted else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The reference's start: Xavier weights, no biases; steps of the decoder and residual of the graph at zero.
        The layout starts silent."""
        for name, parameter in self.named_parameters():
            if name.endswith(".bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1 and name != "mask_token" and ".table." not in name:
                nn.init.xavier_uniform_(parameter.flatten(1))
        for step in self.decoder.steps:
            nn.init.zeros_(step[-1].weight)  # type: ignore[index]
        if self.layout_proj is not None:
            nn.init.zeros_(self.layout_proj.weight)
        if self.adapter is not None:
            self.adapter.reset_parameters()

    # --- support side ------------------------------------------------------------------------------------

    def pooling(self, features: Tensor, coordinates: Tensor | None, maps: Tensor | None) -> Tensor:
        grid = (features.shape[-2], features.shape[-1])
        if maps is not None:
            return pooling_from_maps(maps, grid)
        if coordinates is None:
            raise ValueError("a support needs keypoint coordinates or keypoint maps")
        return pooling_from_coordinates(coordinates, grid, self.settings.backbone.image_size, self.settings.map_stride)

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
        graph: if it is known already, as that of another view of the same supports is."""
        K = prior.shape[-1]
        if self.settings.centred:
            features = features - features.mean(dim=(-2, -1), keepdim=True)
        pooled = pool(features, self.pooling(features, coordinates, maps))  # (B, S, K, C)
        if self.settings.graph == "none":
            prior = torch.zeros_like(prior)
        extra = max(0, self.settings.pad_keypoints_to - K)  # only the predictor ever notices padding
        pooled, visible = F.pad(pooled, (0, 0, 0, extra)), F.pad(visible, (0, extra))
        prior = F.pad(prior, (0, extra, 0, extra))

        usable = visible.any(dim=1)
        tokens = self.keypoint_proj(mean_over_shots(pooled, visible))
        if coordinates is None:
            if self.layout_proj is not None or self.settings.consistency:
                raise ValueError("a network with layout or consistency needs keypoint coordinates, not maps")
            coordinates = features.new_zeros(*visible.shape[:2], K, 2)  # nobody asks where
        coordinates = F.pad(coordinates, (0, 0, 0, extra))
        if self.layout_proj is not None:
            waves = sine_of_coordinates(coordinates, self.settings.width)
            tokens = tokens + self.layout_proj(mean_over_shots(waves, visible))
        if graph is not None:
            found = graph
        elif self.pose_graph is None:
            found = pose_graph(prior, prior, usable)
        else:
            shot_tokens = self.keypoint_proj(pooled * visible[..., None])
            found = self.pose_graph(features, shot_tokens, tokens, visible, self.position(features), prior)
        places = mean_over_shots(coordinates, visible)
        found = PoseGraph(*(matrix[:, :K, :K] for matrix in found))
        return SupportEncoding(tokens[:, :K], usable[:, :K], found, places[:, :K])

    # --- query side --------------------------------------------------------------------------------------

    def position(self, features: Tensor) -> Tensor:
        h, w = features.shape[-2:]
        return sine_of_grid(h, w, self.settings.width, features.device)

    def centre_query(self, query: Tensor) -> Tensor:
        """Without its mean, each cell pooled as a support keypoint at the cell's centre would be: like with like."""
        grid = (query.shape[-2], query.shape[-1])
        query = query - query.mean(dim=(-2, -1), keepdim=True)
        pooling = self.pooling(query, cell_centres(*grid, query.device), None).to(query.dtype)  # (hw, h, w)
        return (query.flatten(2) @ pooling.flatten(1).T).unflatten(2, grid)

    def localise(self, query: Tensor, support: SupportEncoding, hidden: Tensor | None = None) -> Output:
        """query (B, C, h, w) features; hidden (B, K) bool: keypoints to hide in a second decoder pass for L_adj."""
        return self.settle(self.match(query, support), support, hidden)

    def cells(self, query: Tensor) -> Tensor:
        """What enters the encoder of a query: (B, C, h, w) → (B, width, h, w)."""
        projected: Tensor = self.image_proj(self.centre_query(query) if self.settings.centred else query)
        return projected

    def glance(self, cells: Tensor, support: SupportEncoding) -> Tensor:
        """Similarity (B, K, h, w) of what enters the encoder, without the encoder: of `cells` with the supports."""
        cosine = torch.einsum("bkd,bdhw->bkhw", F.normalize(support.tokens, dim=-1), F.normalize(cells, dim=1))
        return GLANCE * cosine

    def match(self, query: Tensor, support: SupportEncoding) -> Matched:
        """Encoder and proposals."""
        grid = (query.shape[-2], query.shape[-1])
        position = self.position(query)
        image = self.cells(query).flatten(2).transpose(1, 2)  # (B, hw, d)
        entered = (image, support.tokens)
        image, keypoints = self.encoder(image, position, support.tokens, support.usable)
        return Matched(image, keypoints, self.proposal_generator(image, keypoints, grid, entered))

    def settle(self, matched: Matched, support: SupportEncoding, hidden: Tensor | None = None) -> Output:
        """Consistency, if the settings want it, and decoder."""
        agreement = self.agree(matched, support) if self.settings.consistency else None
        return self.decode(matched, support, agreement, hidden)

    def agree(self, matched: Matched, support: SupportEncoding) -> Agreement:
        """What the keypoints make of each other's places."""
        return agree(matched.proposals, support.places, support.usable, support.graph.normalised)

    def decode(
        self, matched: Matched, support: SupportEncoding, agreement: Agreement | None, hidden: Tensor | None = None
    ) -> Output:
        """The decoder, from where the keypoints agree to be, or from the proposals."""
        image, keypoints, proposals = matched
        position = self.position(proposals.similarity)
        start = proposals.peak if agreement is None else densest(agreement.mass)
        decoded = self.decoder(keypoints, image, position, start, support.usable, support.graph)
        reconstruction = None
        if hidden is not None:
            reconstruction = self.reconstruct(keypoints, image, position, start, support, hidden)
        return Output(decoded.coordinates, proposals, support.usable, support.graph, reconstruction, agreement)

    def reconstruct(
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
        return self.localise(query, self.encode_support(support, visible, prior, coordinates, maps), hidden)
