"""How the network that ships differs from the published one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from edgecape.matching.multiview import PUBLISHED
from edgecape.matching.network import MatchingNetwork, build_network, cosine
from edgecape.model.network import Network

import tiny


def run(matching, episode):
    with torch.no_grad():
        return tiny.network(matching=matching)(*episode)


def test_with_all_of_it_switched_off_it_is_the_published_network():
    episode = tiny.episode(6, shots=2, batch=2, seed=1)
    published, ours = tiny.network(), build_network(tiny.settings(), PUBLISHED).eval()
    ours.load_state_dict(published.state_dict())
    with torch.no_grad():
        assert torch.equal(published(*episode).coordinates, ours(*episode).coordinates)
    assert type(build_network(tiny.settings(), None)) is Network and isinstance(ours, MatchingNetwork)


def test_centred_features_do_not_depend_on_what_a_whole_image_has_in_common():
    episode = tiny.episode(6, shots=2, seed=1)
    shifted = episode._replace(
        query=episode.query + 3, support=episode.support - torch.tensor([1.0, -2.0])[:, None, None, None]
    )
    centred = replace(tiny.NOTHING, centre=True)
    torch.testing.assert_close(run(centred, episode).coordinates, run(centred, shifted).coordinates, atol=1e-4, rtol=0)


def test_the_layout_tells_apart_keypoints_that_look_alike():
    """On a support without any texture tokens differ by their place only."""
    episode = tiny.episode(6, seed=1, hide=0.0)
    plain = episode._replace(support=torch.ones_like(episode.support))
    same, different = (run(replace(tiny.NOTHING, layout=on), plain).proposals.similarity for on in (False, True))
    torch.testing.assert_close(same[:, :1].expand_as(same), same, atol=1e-4, rtol=0)
    assert (different[:, 1:] - different[:, :1]).abs().amax(dim=(2, 3)).min() > 1e-3


def test_the_direct_cosine_is_added_to_the_similarity():
    """Its weight is what the similarity grows by where keypoint and cell have the same feature."""
    episode = tiny.episode(4, seed=1, hide=0.0)
    network = tiny.network(matching=replace(tiny.NOTHING, direct_cosine=True), graph="fixed", bias="off")
    with torch.no_grad():
        network.image_proj.weight.copy_(network.keypoint_proj.weight[..., None, None])
        network.image_proj.bias.copy_(network.keypoint_proj.bias)
        plain = episode._replace(support=torch.ones_like(episode.support), query=torch.ones_like(episode.query))
        found = []
        for weight in (0.0, 7.0):
            network.direct.fill_(weight)
            found.append(network(*plain).proposals.similarity)
    torch.testing.assert_close(found[1] - found[0], torch.full_like(found[0], 7.0), atol=1e-4, rtol=0)


def test_cosine_of_any_batch():
    tokens, cells = torch.randn(2, 8, 5, 16), torch.randn(2, 1, 16, 3, 4)
    found = cosine(tokens, cells)
    assert found.shape == (2, 8, 5, 3, 4) and (found.abs() <= 1 + 1e-6).all()
    expected = torch.nn.functional.cosine_similarity(tokens[1, 6, 2], cells[1, 0, :, 2, 3], dim=0)
    torch.testing.assert_close(found[1, 6, 2, 2, 3], expected)


def test_an_untrained_one_starts_silent():
    network = MatchingNetwork(tiny.settings(), tiny.VARIANTS["ours"]["matching"])
    assert not network.layout_proj.weight.any() and network.direct.item() == pytest.approx(10)
