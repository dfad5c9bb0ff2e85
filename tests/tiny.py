"""Small networks and episodes, random in everything that matters: a fresh network would hide most mistakes, because
its predictor returns the prior and its decoder does not move."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgecape.matching.network import build_network
from edgecape.matching.settings import MatchingSettings, RereadingSettings, VotingSettings
from edgecape.model.settings import NetworkSettings

import graphs

SIZES: dict[str, Any] = {
    "channels": 16,
    "width": 32,
    "heads": 2,
    "ffn": 48,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "predictor_layers": 2,  # what the first one does to the image shows in the second
}

# Every combination of graph and bias, then the variants of single parts.
VARIANTS: dict[str, dict[str, Any]] = {
    **{
        f"{prior}-{bias}": {"graph": prior, "bias": bias}
        for prior in ("none", "fixed", "predicted")
        for bias in ("off", "markov", "shortest_path")
    },
    "residual-mlp": {"residual": "mlp"},
    "residual-attention": {"residual": "attention"},
    "keypoints-only": {"predictor_sees_image": False},
    "independent-shots": {"shot_refinement": "independent"},
    "graphcape": {"graph": "fixed", "bias": "off", "decoder_positions": True, "aggregate_transposed": True},
    "official-padding": {"pad_keypoints_to": 40},
    "rereading": {"matching": MatchingSettings(rereading=RereadingSettings(local_heads=1))},
    "ours": {"matching": MatchingSettings()},
}
NOTHING = MatchingSettings(centre=False, layout=False, direct_cosine=False, voting=VotingSettings(rounds=0))


class Episode(NamedTuple):
    """What `Network.forward` takes."""

    query: Tensor
    support: Tensor
    visible: Tensor
    prior: Tensor
    coordinates: Tensor | None = None
    maps: Tensor | None = None
    hidden: Tensor | None = None


def settings(**changes: Any) -> NetworkSettings:
    return NetworkSettings(**{**SIZES, **changes})


def network(seed: int = 0, matching: MatchingSettings | None = None, **changes: Any) -> Any:
    """In eval mode, with random values in every parameter; a MatchingNetwork if there are settings for one."""
    found = build_network(settings(**changes), matching).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.uniform_(-0.4, 0.4, generator=generator)
        if found.pose_graph is not None and hasattr(found.pose_graph, "c"):  # both signs of prior + c·ΔA + b occur
            found.pose_graph.c.fill_(0.7)
            found.pose_graph.b.fill_(-0.1)
    return found


def episode(
    K: int = 6, shots: int = 1, batch: int = 1, grid: tuple[int, int] = (4, 4), seed: int = 0, hide: float = 0.2
) -> Episode:
    """A random graph, and keypoints of which a share `hide` is not visible (the first always is)."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator)

    visible = random(batch, shots, K) >= hide
    visible[..., 0] = True
    upper = torch.triu(random(batch, K, K) < 0.4, diagonal=1).float()
    return Episode(
        query=torch.randn(batch, SIZES["channels"], *grid, generator=generator),
        support=torch.randn(batch, shots, SIZES["channels"], *grid, generator=generator),
        visible=visible,
        prior=upper + upper.transpose(1, 2),
        coordinates=random(batch, shots, K, 2),
    )


def pad(episode: Episode, extra: int) -> Episode:
    """The same episode with unusable keypoints behind the others. They are anywhere and connected to everything, and
    still must not matter."""
    B, S, K, _ = episode.coordinates.shape
    prior = graphs.fully_connected(K + extra).expand(B, -1, -1).clone()
    prior[:, :K, :K] = episode.prior
    anywhere = torch.rand(B, S, extra, 2, generator=torch.Generator().manual_seed(extra))
    return episode._replace(
        visible=torch.cat((episode.visible, torch.zeros(B, S, extra, dtype=torch.bool)), dim=2),
        prior=prior,
        coordinates=torch.cat((episode.coordinates, anywhere), dim=2),
    )


def concatenate(first: Episode, second: Episode) -> Episode:
    """One batch of two episodes with the same number of shots."""
    K = max(first.prior.shape[-1], second.prior.shape[-1])
    padded = [pad(part, K - part.prior.shape[-1]) for part in (first, second)]
    return Episode(*(None if a is None else torch.cat((a, b)) for a, b in zip(*padded, strict=True)))


def permute(episode: Episode, order: Tensor) -> Episode:
    """The keypoints in another order."""
    return episode._replace(
        visible=episode.visible[..., order],
        prior=episode.prior[:, order][:, :, order],
        coordinates=episode.coordinates[:, :, order],
    )
