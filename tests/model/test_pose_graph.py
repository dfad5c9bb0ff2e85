"""The parts of the pose-graph predictor; the whole of it is tested with the network."""

from __future__ import annotations

import pytest
import torch

from edgecape.model.pose_graph import ResidualEdges

import tiny


@pytest.mark.parametrize("kind", ["cosine", "mlp", "attention"])
@torch.no_grad()
def test_residual_edges_are_symmetric_and_made_pair_by_pair(kind):
    torch.manual_seed(0)
    residual = ResidualEdges(tiny.settings(residual=kind))
    x = torch.randn(2, 5, 32)
    edges = residual(x)
    assert edges.shape == (2, 5, 5)
    torch.testing.assert_close(edges, edges.transpose(1, 2))
    torch.testing.assert_close(residual(x[:, [1, 3]]), edges[:, [1, 3]][:, :, [1, 3]])
    if kind == "cosine":
        expected = torch.nn.functional.cosine_similarity(x[:, :, None], x[:, None], dim=-1)
        torch.testing.assert_close(edges, expected)


@torch.no_grad()
def test_cosine_of_nothing_is_zero():
    assert not ResidualEdges(tiny.settings())(torch.zeros(1, 3, 32)).any()


@pytest.mark.parametrize("refinement", ["averaged", "independent"])
@torch.no_grad()
def test_a_keypoint_is_refined_by_the_shots_that_show_it(refinement):
    """Another picture in a shot changes the keypoints seen there and leaves the one that is not."""
    network = tiny.network(shot_refinement=refinement)
    episode = tiny.episode(5, shots=3, seed=2, hide=0.0)
    episode.visible[:, 1, 2] = False
    tokens = torch.randn(1, 5, 32, generator=torch.Generator().manual_seed(0))
    per_shot = tokens[:, None].expand(-1, 3, -1, -1)
    other = episode.support.clone()
    other[:, 1] += 1

    def refine(features):
        position = network.position(features)
        return network.pose_graph.refine(features, per_shot, tokens, episode.visible, position, episode.prior)

    before, after = refine(episode.support), refine(other)
    assert torch.equal(before[:, 2], after[:, 2])
    for keypoint in (0, 1, 3, 4):
        assert not torch.allclose(before[:, keypoint], after[:, keypoint], atol=1e-4)


@torch.no_grad()
def test_shots_start_from_the_average_or_from_themselves():
    episode = tiny.episode(5, shots=2, seed=2, hide=0.0)
    tokens = torch.randn(1, 2, 5, 32, generator=torch.Generator().manual_seed(0))
    for refinement in ("averaged", "independent"):
        predictor = tiny.network(shot_refinement=refinement).pose_graph
        position = torch.zeros(16, 32)
        arguments = (episode.support, tokens, tokens.mean(1), episode.visible, position, episode.prior)
        found = predictor.refine(*arguments)
        swapped = predictor.refine(episode.support, tokens.flip(1), *arguments[2:])
        assert torch.equal(found, swapped) is (refinement == "averaged")
