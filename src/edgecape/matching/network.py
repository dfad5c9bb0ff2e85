"""The network that ships. It stands on the published one and differs from it in this:

- tokens and cells are *centred*: each image's mean feature, which says what it shows but not where, is removed, and
  query cells are pooled as support keypoints are, so that like is compared with like;
- a keypoint's token also says where the keypoint lies in the support (*layout*);
- the similarity adds the cosine of what enters the encoder (*direct cosine*);
- the backbone's last blocks carry LoRA updates (lora.py);
- the decoder may be one that reads the similarity, or the heatmap of the votes, again (rereading.py);
- edge weights may be predicted by factors (edges.py).

Votes and views (voting.py, multiview.py) work on its outputs; it knows nothing of them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgecape.matching.edges import LogLinearPoseGraph
from edgecape.matching.lora import LoRA
from edgecape.matching.rereading import Reread, RereadingDecoder
from edgecape.matching.settings import MatchingSettings
from edgecape.model.constants import constant
from edgecape.model.linear import Linear, silence
from edgecape.model.network import Matched, Network, Output, SupportEncoding
from edgecape.model.pose_graph import PoseGraph
from edgecape.model.positions import sine_of_coordinates
from edgecape.model.proposals import cell_centres
from edgecape.model.settings import NetworkSettings
from edgecape.model.tokens import mean_over_shots, pool, pooling_from_coordinates


class MatchingNetwork(Network):
    def __init__(self, settings: NetworkSettings, matching: MatchingSettings):
        super().__init__(settings)
        self.matching = matching
        self.layout_proj = Linear(settings.width, settings.width) if matching.layout else None
        self.direct = nn.Parameter(torch.tensor(matching.logit_scale / 2)) if matching.direct_cosine else None
        layers = len(settings.backbone.layers)
        self.lora = LoRA(matching.lora, settings.channels // layers) if matching.lora.blocks else None
        if self.layout_proj is not None:
            silence(self.layout_proj)
        if matching.rereading is not None:
            near = matching.voting.near if matching.voting.rounds else None
            self.decoder = RereadingDecoder(settings, matching.rereading, near)  # type: ignore[assignment]
        if matching.log_linear_edges and self.pose_graph is not None:
            self.pose_graph = LogLinearPoseGraph(settings)

    def encode_support(
        self,
        features: Tensor,
        visible: Tensor,
        prior: Tensor,
        coordinates: Tensor | None = None,
        maps: Tensor | None = None,
        graph: PoseGraph | None = None,
    ) -> SupportEncoding:
        encoded = super().encode_support(self.centre(features), visible, prior, coordinates, maps, graph)
        return encoded if coordinates is None else encoded._replace(places=mean_over_shots(coordinates, visible))

    def centre(self, features: Tensor) -> Tensor:
        """Features (..., h, w) minus each image's mean."""
        return features - features.mean(dim=(-2, -1), keepdim=True) if self.matching.centre else features

    def keypoint_tokens(self, pooled: Tensor, visible: Tensor, coordinates: Tensor | None) -> Tensor:
        tokens = super().keypoint_tokens(pooled, visible, coordinates)
        if self.layout_proj is None:
            return tokens
        if coordinates is None:
            raise ValueError("a network with layout needs keypoint coordinates, not maps")
        waves = sine_of_coordinates(coordinates, self.settings.width)
        return tokens + self.layout_proj(mean_over_shots(waves, visible))

    def query_cells(self, query: Tensor) -> Tensor:
        return self.smooth(super().query_cells(self.centre(query)))  # both are linear: cheaper in this order

    def smooth(self, cells: Tensor) -> Tensor:
        """Each cell (..., h, w) pooled as a support keypoint at the cell's centre would be."""
        if not self.matching.centre:
            return cells
        grid = (cells.shape[-2], cells.shape[-1])
        pooling = smoothing(grid, self.settings.backbone.image_size, self.settings.map_stride, cells.device)
        return pool(cells, pooling.to(cells.dtype)).transpose(-1, -2).unflatten(-1, grid)

    def similarity(self, image: Tensor, keypoints: Tensor, cells: Tensor, tokens: Tensor) -> Tensor:
        refined = super().similarity(image, keypoints, cells, tokens)
        return refined if self.direct is None else refined + self.direct * cosine(tokens, cells)

    def decode(
        self, matched: Matched, support: SupportEncoding, start: Tensor | None = None, hidden: Tensor | None = None
    ) -> Output:
        if not self.rereads:
            return super().decode(matched, support, start, hidden)
        if hidden is not None:
            raise ValueError("a decoder that reads the similarity again learns from hidden keypoints by itself")
        proposals = matched.proposals
        start = proposals.peak if start is None else start
        coordinates = self.reread(matched, support, proposals.similarity, start).coordinates
        return Output(coordinates, proposals, support.usable, support.graph)

    @property
    def rereads(self) -> bool:
        return isinstance(self.decoder, RereadingDecoder)

    def reread(self, matched: Matched, support: SupportEncoding, logits: Tensor, start: Tensor) -> Reread:
        """What the decoder makes of logits (B, K, h, w): the similarity, or what votes have made of it."""
        image, keypoints, _ = matched
        found: Reread = self.decoder(keypoints, image, logits, start, support.places, support.usable, support.graph)
        return found


@constant
def smoothing(grid: tuple[int, int], image_size: tuple[int, int], stride: float, device: torch.device) -> Tensor:
    """Weights (hw, h, w) that pool features as for keypoints at the centres of the cells."""
    return pooling_from_coordinates(cell_centres(*grid, device), grid, image_size, stride)


def cosine(tokens: Tensor, cells: Tensor) -> Tensor:
    """Of keypoint tokens (..., K, d) with cells (..., d, h, w): (..., K, h, w)."""
    cells = F.normalize(cells, dim=-3)
    return (F.normalize(tokens, dim=-1) @ cells.flatten(-2)).unflatten(-1, cells.shape[-2:])


def build_network(settings: NetworkSettings, matching: MatchingSettings | None) -> Network:
    """The published network, or ours on top of it."""
    return Network(settings) if matching is None else MatchingNetwork(settings, matching)


def matching_of(network: Network) -> MatchingSettings | None:
    return network.matching if isinstance(network, MatchingNetwork) else None


def lora_of(network: Network) -> LoRA | None:
    return network.lora if isinstance(network, MatchingNetwork) else None
