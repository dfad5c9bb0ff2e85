from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F

from edgecape.model.network import Network
from edgecape.model.positions import sine_of_grid
from edgecape.training.initialise import content_basis, start_from_matching

from toy import NETWORK

WIDE = replace(NETWORK, width=128, heads=4, encoder_layers=3, graph="fixed", bias="off")


def features(n: int = 6, seed: int = 0) -> torch.Tensor:
    mean = 3 * torch.randn(24, 1, 1, generator=torch.Generator().manual_seed(99))  # all photos share it
    return mean + torch.randn(n, 24, 8, 8, generator=torch.Generator().manual_seed(seed))


def test_content_is_orthogonal_to_every_position_and_to_the_constant():
    basis = content_basis(128, (8, 8))
    torch.testing.assert_close(basis.T @ basis, torch.eye(basis.shape[1]), atol=1e-5, rtol=0)
    assert (sine_of_grid(8, 8, 128) @ basis).abs().max() < 2e-3
    assert (torch.ones(128) @ basis).abs().max() < 1e-3
    assert basis.shape[1] >= 128 - 33  # 16 rows, 16 columns, one constant


def test_untrained_proposals_are_nearest_feature_matching():
    """The best cell is the one whose centred feature has the largest cosine with the support's."""
    torch.manual_seed(0)
    network = Network(WIDE).eval()
    start_from_matching(network, features(64))
    support, query = features(1, seed=1), features(1, seed=2)
    query[:, :, 2:6, 2:6] = support[:, :, 1:5, 3:7] + 0.3 * torch.randn(1, 24, 4, 4)
    K = 64
    cells = torch.stack(torch.meshgrid(torch.arange(8), torch.arange(8), indexing="xy"), -1).reshape(K, 2)
    maps = torch.zeros(1, 1, K, 8, 8)
    maps[0, 0, torch.arange(K), cells[:, 1], cells[:, 0]] = 1
    with torch.inference_mode():
        similarity = network(
            query, support[:, None], torch.ones(1, K, dtype=torch.bool), torch.zeros(1, K, K), maps=maps
        ).proposals.similarity
    mean = features(64).mean(dim=(0, 2, 3))[:, None]
    tokens = support[0].flatten(1)[:, cells[:, 1] * 8 + cells[:, 0]] - mean
    cosine = F.normalize(tokens, dim=0).T @ F.normalize(query[0].flatten(1) - mean, dim=0)
    agreed = similarity[0].flatten(1).argmax(-1) == cosine.argmax(-1)
    x, y = cells.T
    matched = (x >= 3) & (x < 7) & (y >= 1) & (y < 5)  # those that the query shows
    assert agreed[matched].all()
    assert agreed.float().mean() > 0.8  # the others have no clear match; norms decide between near ties


def test_a_keypoint_finds_itself_and_coordinates_start_at_the_proposals():
    torch.manual_seed(0)
    network = Network(WIDE).eval()
    start_from_matching(network, features(64))
    photo = features(1, seed=5)
    coordinates = torch.rand(1, 1, 10, 2) * 0.8 + 0.1
    with torch.inference_mode():
        output = network(
            photo, photo[:, None], torch.ones(1, 10, dtype=torch.bool), torch.zeros(1, 10, 10), coordinates
        )
    assert (output.proposals.peak - coordinates[0]).norm(dim=-1).median() < 0.08
    torch.testing.assert_close(output.coordinates[-1], output.proposals.peak, atol=1e-5, rtol=0)


def test_gradients_reach_the_silent_layers():
    network = Network(WIDE)
    start_from_matching(network, features(32))
    coordinates = torch.rand(2, 1, 5, 2)
    output = network(
        features(2), features(2)[:, None], torch.ones(2, 5, dtype=torch.bool), torch.zeros(2, 5, 5), coordinates
    )
    output.proposals.expected.sum().backward()
    for layer in network.encoder.layers:
        assert layer.attention.out_proj.weight.grad.abs().max() > 0  # type: ignore[union-attr]
