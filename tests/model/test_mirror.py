"""Supports and their mirror images."""

from __future__ import annotations

import pytest
import torch

from edgecape.errors import SettingsError
from edgecape.model.mirror import LOPSIDED, Shots, belief, compare, encode_aspects, localise_best, lopsided
from edgecape.model.network import Network
from edgecape.training.initialise import start_from_matching

import tiny

GRID = 12
PLACES = (torch.tensor([[2, 2], [8, 3], [3, 9], [6, 6]]) + 0.5) / GRID  # no mirror symmetry
PRIOR = torch.tensor([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 1], [0, 1, 1, 0]]).float()
SHOWN = torch.ones(1, 1, 4, dtype=torch.bool)


def mirrored(shots: Shots) -> Shots:
    """Features that turn with the photo, as a backbone's nearly do."""
    coordinates = shots.coordinates.clone()
    coordinates[..., 0] = 1 - coordinates[..., 0]
    return Shots(shots.features.flip(-1), coordinates)


@pytest.fixture(scope="module")
def matching() -> Network:
    """An untrained network that matches features."""
    torch.manual_seed(0)
    options = {"centred": True, "layout": True, "consistency": True, "mirror": True, "direct_match": True}
    network = Network(tiny.settings(width=64, graph="fixed", bias="off", **options)).eval()
    start_from_matching(network, photo(8))
    return network


def photo(number: int = 1) -> torch.Tensor:
    return torch.randn(number, 16, GRID, GRID, generator=torch.Generator().manual_seed(number))


def shots(features: torch.Tensor, places: torch.Tensor) -> Shots:
    return Shots(features[None], places[None])


@torch.inference_mode()
def test_a_query_that_faces_the_other_way_is_found_in_the_mirror(matching: Network) -> None:
    given = shots(photo(), PLACES[None])
    aspects = encode_aspects(matching, given, mirrored(given), SHOWN, PRIOR[None]).expand(2)
    queries = torch.cat((photo(), photo().flip(-1)))  # the support itself, and its mirror image
    found = localise_best(matching, queries, aspects)
    expected = torch.stack((PLACES, mirrored(given).coordinates[0, 0]))
    assert (found.coordinates[-1] - expected).norm(dim=-1).max() < 0.06
    outputs = [matching.localise(queries, aspect) for aspect in aspects[:2]]
    share = belief(*(output.agreement for output in outputs), aspects)
    assert share[0] < 0.2 and share[1] > 0.5
    for name, index in (("plain", 0), ("mirror image", 1)):  # what is said beside is that of the one believed more
        chosen = outputs[index]
        assert torch.equal(found.proposals.similarity[index], chosen.proposals.similarity[index]), name
        assert torch.equal(found.agreement.fit[index], chosen.agreement.fit[index]), name
    mass = found.agreement.mass
    torch.testing.assert_close(mass.sum(dim=(-2, -1)), torch.ones(2, 4))
    torch.testing.assert_close(
        mass[1], (1 - share[1]) * outputs[0].agreement.mass[1] + share[1] * outputs[1].agreement.mass[1]
    )


@torch.inference_mode()
def test_a_mirror_image_that_fits_no_better_is_not_believed(matching: Network) -> None:
    """A symmetric photo: left and right must not change places."""
    half = photo()
    symmetric = (half + half.flip(-1)) / 2
    given = shots(symmetric, PLACES[None])
    aspects = encode_aspects(matching, given, mirrored(given), SHOWN, PRIOR[None])
    found = localise_best(matching, symmetric, aspects)
    assert (found.coordinates[-1, 0] - PLACES).norm(dim=-1).max() < 0.06


# Keypoints 0 and 1 are a left and a right one; the object is symmetric, so its mirror image shows 0 where 1 is.
PAIR = (torch.tensor([[2, 3], [9, 3], [4, 9], [6, 6]]) + 0.5) / GRID
SWAPPED = torch.tensor([1, 0, 2, 3])


@torch.inference_mode()
def test_where_left_and_right_are_known_a_mirror_image_is_relabelled(matching: Network) -> None:
    """A query that is the support in a mirror: its left is where the support's right was."""
    given = shots(photo(), PAIR[None])
    aspects = encode_aspects(matching, given, mirrored(given), SHOWN, PRIOR[None])
    query = photo().flip(-1)
    in_mirror = mirrored(given).coordinates[0, 0]
    unaware, aware = (
        localise_best(matching, query, aspects._replace(order=order)).coordinates[-1, 0] for order in (None, SWAPPED)
    )
    assert (unaware - in_mirror).norm(dim=-1).max() < 0.06
    assert (aware - in_mirror[SWAPPED]).norm(dim=-1).max() < 0.06


@torch.inference_mode()
def test_a_mirror_shows_only_whose_partner_is_seen(matching: Network) -> None:
    """The support shows the left one of a pair; what a mirror shows is the right one, so the left is taken from the
    photo alone."""
    given = shots(photo(), PAIR[None])
    shown = torch.tensor([[[True, False, True, True]]])
    aspects = encode_aspects(matching, given, mirrored(given), shown, PRIOR[None])._replace(order=SWAPPED)
    query = photo().flip(-1)
    plain, found = matching.localise(query, aspects.given), localise_best(matching, query, aspects)
    assert torch.equal(found.agreement.mass[0, 0], plain.agreement.mass[0, 0])
    assert torch.equal(found.proposals.similarity[0, 0], plain.proposals.similarity[0, 0])
    assert not torch.equal(found.agreement.mass[0, 2], plain.agreement.mass[0, 2])
    assert torch.isfinite(found.coordinates).all()
    assert torch.equal(found.usable, shown[0])


@torch.inference_mode()
def test_who_is_left_and_who_is_right_does_not_depend_on_the_numbering(matching: Network) -> None:
    given = shots(photo(), PAIR[None])
    query = photo(3)[:1]
    turn = torch.tensor([3, 1, 0, 2])
    renumbered = torch.argsort(turn)[SWAPPED[turn]]
    results = []
    for places, prior, order in (
        (given.coordinates, PRIOR, SWAPPED),
        (given.coordinates[:, :, turn], PRIOR[turn][:, turn], renumbered),
    ):
        some = Shots(given.features, places)
        aspects = encode_aspects(matching, some, mirrored(some), SHOWN, prior[None])._replace(order=order)
        results.append(localise_best(matching, query, aspects, query.flip(-1)).coordinates[-1, 0])
    torch.testing.assert_close(results[0][turn], results[1], atol=1e-4, rtol=0)


def test_a_face_from_the_front_is_symmetric_and_a_profile_is_not() -> None:
    face = torch.tensor([[0.3, 0.3], [0.7, 0.3], [0.5, 0.5], [0.4, 0.7], [0.6, 0.7]])
    profile = torch.tensor([[0.2, 0.3], [0.3, 0.35], [0.6, 0.5], [0.9, 0.4], [0.7, 0.7]])
    hidden = torch.tensor([[True] * 5, [True] * 4 + [False]])
    both = lopsided(torch.stack((face, profile)), hidden)
    assert both[0] < 0.01 and both[1] > LOPSIDED
    away = torch.cat((profile[:4], torch.tensor([[0.0, 0.0]])))  # where a hidden one is does not matter
    torch.testing.assert_close(lopsided(away[None], hidden[1:]), both[1:])
    assert torch.isfinite(lopsided(face[None], torch.zeros(1, 5, dtype=torch.bool))).all()


@torch.inference_mode()
def test_keypoints_that_lie_symmetrically_are_not_looked_for_in_a_mirror(matching: Network) -> None:
    """Even if the mirror image fits perfectly and the support does not; unless left and right are known."""
    pair = (torch.tensor([[2, 3], [9, 3], [2, 8], [9, 8]]) + 0.5) / GRID
    given = shots(photo(), pair[None])
    aspects = encode_aspects(matching, given, mirrored(given), SHOWN, PRIOR[None])
    query = photo().flip(-1)
    plain = matching.localise(query, aspects.given)
    assert torch.equal(localise_best(matching, query, aspects).coordinates, plain.coordinates)
    known = aspects._replace(order=torch.tensor([1, 0, 3, 2]))
    assert (localise_best(matching, query, known).coordinates[-1, 0] - pair).norm(dim=-1).max() < 0.06


@torch.inference_mode()
def test_supports_are_turned_to_face_the_way_of_the_first(matching: Network) -> None:
    one = shots(photo(), PLACES[None])
    other = mirrored(one)
    pair = Shots(*(torch.cat(both, dim=1) for both in zip(one, other, strict=True)))
    shown = SHOWN.expand(-1, 2, -1)
    alone = encode_aspects(matching, one, other, SHOWN, PRIOR[None])
    together = encode_aspects(matching, pair, mirrored(pair), shown, PRIOR[None])
    for a, b in zip(alone[:2], together[:2], strict=True):
        torch.testing.assert_close(a.tokens, b.tokens, atol=1e-4, rtol=0)
        torch.testing.assert_close(a.places, b.places)
    assert torch.equal(together.given.graph.normalised, together.mirrored.graph.normalised)


@torch.inference_mode()
def test_a_query_seen_twice(matching: Network) -> None:
    """The mirrored view has its say, at its place, and corrects what the other one misses."""
    given = shots(photo(), PLACES[None])
    aspects = encode_aspects(matching, given, mirrored(given), SHOWN, PRIOR[None])
    lost = photo(3)[:1]  # a view that shows something else
    alone = compare(matching, lost, aspects)[0]
    found = compare(matching, lost, aspects, mirrored=photo().flip(-1))[0]
    misses = [(matched.proposals.peak - PLACES).norm(dim=-1).mean() for matched in (alone, found)]
    assert misses[1] < misses[0]
    other = matching.localise(photo().flip(-1), aspects.mirrored).proposals.similarity.flip(-1)
    torch.testing.assert_close(found.proposals.similarity, (alone.proposals.similarity + other) / 2)


def test_a_mirrored_query_needs_mirrored_supports() -> None:
    with pytest.raises(SettingsError, match="mirror_query needs mirror"):
        tiny.settings(mirror_query=True)


def test_without_mirror_images_there_is_one_aspect() -> None:
    network = tiny.network()
    given = shots(photo(), PLACES[None])
    aspects = encode_aspects(network, given, None, SHOWN, PRIOR[None])
    assert aspects.mirrored is None
    direct = network.localise(
        photo(2), network.encode_support(given.features, SHOWN, PRIOR[None], given.coordinates).expand(2)
    )
    found = localise_best(network, photo(2), aspects.expand(2))
    assert torch.equal(found.coordinates, direct.coordinates)


def test_a_mirror_needs_a_measure_of_fit() -> None:
    with pytest.raises(SettingsError, match="mirror needs consistency"):
        tiny.settings(mirror=True)
