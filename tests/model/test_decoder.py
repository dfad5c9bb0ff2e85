"""The parts of the graph decoder; the whole of it is tested with the network."""

from __future__ import annotations

import pytest
import torch

from edgecape.model.decoder import MarkovBias, ShortestPathBias, bias_structure
from edgecape.model.pose_graph import pose_graph

import graphs
import tiny


def weighted_graph():
    """A path 0 – 1 – 2 – 3 whose middle edge the predictor has weakened; keypoint 4 is not usable."""
    prior = graphs.adjacency([(0, 1), (1, 2), (2, 3), (3, 4)], 5)[None]
    weights = prior.clone()
    weights[0, 1, 2] = weights[0, 2, 1] = 0.25
    return pose_graph(prior, weights, torch.tensor([[True, True, True, True, False]]))


def test_markov_bias_looks_at_walks_on_the_predicted_graph():
    found = bias_structure(weighted_graph(), tiny.settings(bias="markov", hops=3))
    assert found.shape == (4, 1, 5, 5)
    assert torch.equal(found[0, 0], torch.eye(5))
    step = torch.tensor([[0, 1, 0, 0, 0], [0.8, 0, 0.2, 0, 0], [0, 0.2, 0, 0.8, 0], [0, 0, 1, 0, 0], [0.0] * 5])
    for hops in (1, 2, 3):
        torch.testing.assert_close(found[hops, 0], torch.linalg.matrix_power(step, hops))


def test_shortest_path_bias_looks_at_distances_on_the_prior():
    found = bias_structure(weighted_graph(), tiny.settings(bias="shortest_path", hops=2))
    assert found[0, 0].tolist() == [0, 1, 2, 3, 3]  # 3: farther than two hops, or no path
    assert found[0, 4].tolist() == [3, 3, 3, 3, 0]


def test_no_bias_looks_at_nothing():
    assert bias_structure(weighted_graph(), tiny.settings(bias="off")) is None


@pytest.mark.parametrize("heads", [1, 8])
@torch.no_grad()
def test_biases_are_made_pair_by_pair_and_differ_between_heads(heads):
    markov, distance = MarkovBias(4, heads), ShortestPathBias(4, heads)
    torch.nn.init.normal_(distance.table.weight)
    powers, lengths = torch.rand(5, 2, 3, 3), torch.randint(0, 6, (2, 3, 3))
    found = markov(powers)
    assert found.shape == (2, heads, 3, 3)
    torch.testing.assert_close(found[1, :, 0, 2], markov.mlp(powers[:, 1, 0, 2]))
    assert torch.equal(distance(lengths)[1, :, 0, 2], distance.table.weight[lengths[1, 0, 2]])


def test_what_a_layer_reports_teaches_the_step_before_it_and_no_earlier_one():
    network = tiny.network(decoder_layers=3)
    network(*tiny.episode(6, seed=1)).coordinates[-1].sum().backward()
    reached = [any(bool(parameter.grad.any()) for parameter in step.parameters()) for step in network.decoder.steps]
    assert reached == [False, True, True]
