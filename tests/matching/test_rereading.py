"""The decoder that reads the similarity again: a silent start, and what it can be told."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from edgecape.errors import SettingsError
from edgecape.matching.network import build_network
from edgecape.matching.rereading import Waves, seen_near, start_local
from edgecape.matching.settings import MatchingSettings, RereadingSettings, VotingSettings
from edgecape.matching.voting import dual_softmax
from edgecape.model.attention import PositionedCrossAttention
from edgecape.model.proposals import cell_centres, locate
from edgecape.weights.config import ModelConfig

import tiny

REACH = RereadingSettings.reach
TOLD = MatchingSettings(voting=VotingSettings(rounds=0), rereading=RereadingSettings(rivals=True, local_heads=1))
UNTOLD = replace(TOLD, layout=False, rereading=RereadingSettings(places=False, votes=False, local_heads=1))


@torch.no_grad()
def test_a_local_head_starts_by_looking_round_its_point():
    """With cells that hold their own place, what it sees is where it looks."""
    width, side = 64, 16
    waves, centres = Waves(width, REACH), cell_centres(side, side)
    attention = PositionedCrossAttention(width, 2, 0.0).eval()
    start_local(attention, 1, waves.power())
    cells = torch.zeros(1, side * side, width)
    cells[0, :, :2] = centres
    for projection in (attention.attention.v_proj, attention.attention.out_proj, attention.reduce):
        nn.init.zeros_(projection.bias)
        nn.init.eye_(projection.weight)
    points = torch.tensor([[[0.5, 0.5], [0.3, 0.7], [0.75, 0.4]]])
    seen = attention(torch.randn(1, 3, width), waves(points), cells, waves(centres))[..., :2]
    assert (seen - points).abs().max() < REACH / 2


def test_the_product_of_two_places_is_a_bell():
    waves, width = Waves(256, REACH), 256
    middle, away = torch.tensor([0.4, 0.6]), torch.linspace(0, 0.6, 25)[:, None]
    for direction in ((1.0, 0.0), (0.0, -1.0), (0.6, 0.8)):
        there = middle + away * torch.tensor(direction)
        product = waves(there) @ waves(middle) / width
        torch.testing.assert_close(product, torch.exp(-(away[:, 0] ** 2) / (2 * REACH**2)), atol=0.03, rtol=0)
    torch.testing.assert_close(waves(torch.rand(50, 2)).norm(dim=-1), torch.full((50,), 16.0))


def untrained(matching: MatchingSettings, **changes: object):
    torch.manual_seed(0)
    return build_network(tiny.settings(**changes), matching).eval()


@torch.no_grad()
def test_an_untrained_one_repeats_what_matching_says():
    output = untrained(TOLD)(*tiny.episode(5, batch=2))
    for coordinates in output.coordinates:
        assert torch.equal(coordinates, output.proposals.peak)


@torch.no_grad()
def test_rivals_are_those_of_the_dual_softmax():
    network = untrained(TOLD)
    network.decoder.layers[0].yielding.fill_(1.0)
    output = network(*tiny.episode(5, batch=2))
    torch.testing.assert_close(
        output.coordinates[0], locate(dual_softmax(output.proposals.similarity, output.usable)).peak
    )


@pytest.mark.parametrize("matching", [TOLD, UNTOLD])
@torch.no_grad()
def test_the_graph_matters_where_there_is_one_and_nowhere_else(matching):
    episode = tiny.episode(6, seed=3, hide=0.0, grid=(6, 6))
    bare = episode._replace(prior=torch.zeros_like(episode.prior))
    for graph, matters in (("none", False), ("fixed", True), ("predicted", True)):
        network = tiny.network(matching=matching, graph=graph, bias="off")
        found, without = (network(*one).coordinates[-1] for one in (episode, bare))
        assert torch.equal(found, without) != matters, graph


@torch.no_grad()
def test_only_one_that_is_told_knows_where_keypoints_lie_in_the_support():
    """On a support without texture nothing but their places tells keypoints apart."""
    episode = tiny.episode(6, seed=3, hide=0.0, grid=(6, 6))
    plain = episode._replace(support=torch.ones_like(episode.support), prior=torch.zeros_like(episode.prior))
    for matching, differ in ((replace(TOLD, layout=False), True), (UNTOLD, False)):
        network = tiny.network(matching=matching, graph="fixed", bias="off")
        encoded = network.encode_support(plain.support, plain.visible, plain.prior, plain.coordinates)
        image, keypoints, proposals = network.match(network.query_cells(plain.query), encoded)
        seen = (keypoints, image, *proposals[::2])
        logits = network.decoder(*seen, encoded.places, encoded.usable, encoded.graph).logits[0]
        assert ((logits - logits[:, :1]).abs().max() > 1e-3) == differ


def test_places_that_are_not_given_are_asked_for():
    network, episode = tiny.network(matching=replace(TOLD, layout=False)), tiny.episode(4)
    encoded = network.encode_support(episode.support, episode.visible, episode.prior, episode.coordinates)
    matched = network.match(network.query_cells(episode.query), encoded)
    with pytest.raises(ValueError, match="places"):
        network.decode(matched, encoded._replace(places=None))


def test_heads_that_there_are_not():
    with pytest.raises(SettingsError, match="local_heads is 2; give 0 to 1, of 2 heads"):
        build_network(tiny.settings(), MatchingSettings(rereading=RereadingSettings(local_heads=2)))


def test_it_is_saved_with_a_model_and_part_of_its_identity():
    with_it, without = (ModelConfig(tiny.settings(), matching) for matching in (TOLD, MatchingSettings()))
    assert ModelConfig.from_dict(with_it.to_dict()) == with_it
    assert ModelConfig.from_dict(without.to_dict()) == without
    content = without.to_dict()
    del content["matching"]["rereading"]  # as models were saved before there was such a decoder
    assert ModelConfig.from_dict(content).identity() == without.identity() != with_it.identity()


def test_settings_that_contradict():
    with pytest.raises(SettingsError, match="votes need places"):
        RereadingSettings(places=False)
    with pytest.raises(SettingsError, match="reach 0"):
        RereadingSettings(reach=0)
    with pytest.raises(SettingsError, match="share is 1.5"):
        RereadingSettings(share=1.5)


@torch.no_grad()
def test_a_share_of_what_it_says_is_between_what_it_reads_and_what_it_says():
    episode = tiny.episode(5, seed=3, grid=(6, 6))
    networks = {
        share: tiny.network(matching=replace(TOLD, rereading=replace(TOLD.rereading, share=share)), dropout=0.0)
        for share in (0.0, 0.5, 1.0)
    }
    found, learning = {}, []
    for share, network in networks.items():
        encoded = network.encode_support(episode.support, episode.visible, episode.prior, episode.coordinates)
        matched = network.match(network.query_cells(episode.query), encoded)
        read = matched.proposals.similarity
        found[share] = network.reread(matched, encoded, read, matched.proposals.peak)
        assert torch.equal(found[share].logits, found[0.0].logits)  # what it says by itself
        learning.append(network.train().reread(matched, encoded, read, matched.proposals.peak).final)
    assert torch.equal(found[0.0].final, read)
    for final in learning:  # whatever the share, it is judged by what it says itself
        torch.testing.assert_close(final, found[1.0].final)
    assert torch.equal(found[1.0].final, found[1.0].logits[-1])
    torch.testing.assert_close(found[0.5].final, (read + found[1.0].final) / 2)
    torch.testing.assert_close(found[0.5].coordinates[-1], locate(found[0.5].final).peak)


@torch.no_grad()
def test_votes_bring_a_keypoint_without_similarity_where_the_others_want_it():
    """Query and support lie alike; the third keypoint looks like nothing, its neighbours are found."""
    decoder = untrained(TOLD, graph="fixed", bias="off").decoder
    places = cell_centres(6, 6)[[7, 10, 25, 28]][None]
    logits = torch.zeros(1, 4, 36)
    for k, cell in enumerate((7, 10, 25, 28)):
        logits[0, k, cell] = 0.0 if k == 2 else 40.0
    square = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 0, 1], [0, 1, 1, 0]]) / 2
    voted = decoder.votes(logits.unflatten(-1, (6, 6)), places, torch.ones(1, 4, dtype=torch.bool), square[None])
    torch.testing.assert_close(voted[0, 2], places[0, 2], atol=0.03, rtol=0)


@torch.no_grad()
def test_neighbours_that_are_seen_draw_a_keypoint_near():
    """A chain of three: the middle one looks where its ends are seen, and one that may be anywhere says little."""
    waves, side = Waves(256, REACH), 16
    centres = cell_centres(side, side)
    cells, chain = waves(centres), torch.tensor([[[0.0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]]])
    place = centres[5 * side + 4]
    seen = -50.0 * (centres - place).square().sum(dim=-1)  # logits of a clear peak
    unseen = torch.zeros(side * side)
    logits = torch.stack((seen, unseen, unseen))[None].unflatten(-1, (side, side))
    near = seen_near(logits, cells, chain)[0]
    pull = near @ cells.T  # (3, hw)
    assert centres[pull[1].argmax()].sub(place).norm() < 0.1
    assert pull[1].std() > 3 * pull[0].std()


def test_edges_learn_from_where_neighbours_are_seen():
    torch.manual_seed(0)
    chain = torch.rand(2, 3, 3, requires_grad=True)
    near = seen_near(torch.randn(2, 3, 4, 4), torch.randn(16, 8), chain)
    near.square().sum().backward()
    assert chain.grad.abs().min() > 0
