"""What is minimised: localisation and graph losses, as one module, so that it can be distributed."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgecape.errors import SettingsError
from edgecape.matching.multiview import PUBLISHED
from edgecape.matching.network import lora_of, matching_of
from edgecape.matching.voting import dual_softmax, mean_shift_mode, vote
from edgecape.model.attention import GraphFeedForward
from edgecape.model.backbone import Backbone
from edgecape.model.network import Network
from edgecape.model.tokens import mean_over_shots
from edgecape.training.losses import adjacency_loss, offset_loss, similarity_loss
from edgecape.training.sampler import Batch
from edgecape.training.settings import PhaseSettings


class GraphReconstruction(nn.Module):
    """The alternative to L_adj (SDPNet's way): an auxiliary GCN restores hidden support tokens along the graph."""

    def __init__(self, width: int):
        super().__init__()
        self.mask_token = nn.Parameter(torch.zeros(width))
        self.layers = nn.ModuleList(GraphFeedForward(width, width, 0.0, neighbours=True) for _ in range(2))

    def forward(self, tokens: Tensor, usable: Tensor, A_norm: Tensor, hidden: Tensor) -> Tensor:
        truth = F.layer_norm(tokens.detach(), tokens.shape[-1:])
        x = torch.where(hidden[..., None], self.mask_token, truth)
        for layer in self.layers:
            x = x + layer(x, usable, A_norm)
        error = (x - truth).abs().mean(-1) * hidden
        return (error.sum(1) / hidden.sum(1).clamp(min=1)).mean()


class Objective(nn.Module):
    """Batch in, loss terms out."""

    def __init__(self, network: Network, phase: PhaseSettings, backbone: Backbone):
        super().__init__()
        self.network, self.phase = network, phase
        self.backbone = [backbone]  # in a list: it does not learn and is no part of this module
        self.voting = (matching_of(network) or PUBLISHED).voting
        self.reconstruction = GraphReconstruction(network.settings.width) if phase.graph_loss == "gcn" else None
        self.frozen: list[nn.Module] = []
        for name in phase.freeze:
            if not hasattr(network, name.rstrip(".")):
                raise SettingsError(f"phase '{phase.name}' freezes '{name}', which the network does not have")
            part = getattr(network, name.rstrip("."))
            if part is not None:  # without a predicted graph there is no predictor
                part.requires_grad_(False)
            if isinstance(part, nn.Module):
                self.frozen.append(part)
        if not any(value.requires_grad for name, value in network.named_parameters() if name != "mask_token"):
            raise SettingsError(f"phase '{phase.name}' freezes all that could learn")

    def train(self, mode: bool = True) -> Objective:
        """A frozen module stays in eval mode."""
        super().train(mode)
        for module in self.frozen:
            module.eval()
        return self

    def features(self, lower: Tensor) -> Tensor:
        """What a batch holds of frames → features, through LoRA if there is any."""
        lora, (backbone,) = lora_of(self.network), self.backbone
        return lower if lora is None else lora(backbone, lower)

    def forward(self, batch: Batch, hidden: Tensor) -> dict[str, Tensor]:
        phase, network, voting = self.phase, self.network, self.voting
        visible = batch.visible[:, None].expand(-1, batch.support.shape[1], -1)
        shots = self.features(batch.support.flatten(0, 1)).unflatten(0, visible.shape[:2])
        support = network.encode_support(shots, visible, batch.prior, batch.coordinates)
        matched = network.match(network.query_cells(self.features(batch.query)), support)
        terms: dict[str, Tensor] = {}
        if phase.heatmap_loss_weight:
            similarity = phase.heatmap_sharpness * matched.proposals.similarity
            if voting.rounds:
                similarity = dual_softmax(similarity, support.usable)  # what the votes start from
            heat = similarity_loss(similarity, batch.target, batch.weight)
            terms["similarity"] = phase.heatmap_loss_weight * heat
        if phase.match_only:
            return terms
        start = None
        if voting.rounds:
            places = mean_over_shots(batch.coordinates, visible)
            votes = vote(matched.proposals.similarity, places, support.usable, support.graph.normalised, voting)
            start = mean_shift_mode(votes.heatmap, voting.near)
        output = network.decode(matched, support, start, hidden if phase.graph_loss == "masked" else None)
        terms |= offset_loss(output, batch.target, batch.weight)
        if output.reconstruction is not None:
            terms["graph"] = phase.graph_loss_weight * adjacency_loss(output.reconstruction, batch.target, batch.weight)
        elif self.reconstruction is not None:
            restored = self.reconstruction(support.tokens, support.usable, support.graph.normalised, hidden)
            terms["graph"] = phase.graph_loss_weight * restored
        return terms
