"""Supports, their mirror images, and both turned."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from edgecape.errors import SettingsError
from edgecape.model.aspects import (
    LOPSIDED,
    Aspects,
    Shots,
    Turns,
    at_turn,
    belief,
    best_turn,
    compare,
    encode_turns,
    localise_best,
    lopsided,
)
from edgecape.model.network import Network
from edgecape.model.settings import BackboneSettings
from edgecape.training.initialise import start_from_matching

import tiny

GRID = 12
PLACES = (torch.tensor([[2, 2], [8, 3], [3, 9], [6, 6]]) + 0.5) / GRID  # no mirror symmetry
PRIOR = torch.tensor([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 1], [0, 1, 1, 0]]).float()
SHOWN = torch.ones(1, 1, 4, dtype=torch.bool)


def mirrored(shots: Shots) -> Shots:
    """Features that move with the photo, as a backbone's nearly do."""
    coordinates = shots.coordinates.clone()
    coordinates[..., 0] = 1 - coordinates[..., 0]
    return Shots(in_a_mirror(shots.features), coordinates)


def in_a_mirror(features: torch.Tensor) -> torch.Tensor:
    """A turn to the left becomes one to the right, for the channels too (see `turned`)."""
    return features.flip(-1).roll(-1, dims=-3).flip(-3)


def turned(shots: Shots, quarters: int) -> Shots:
    """To the left. What lies another way also looks another way: the channels change places."""
    x, y = shots.coordinates.unbind(-1)
    places = [(x, y), (y, 1 - x), (1 - x, 1 - y), (1 - y, x)][quarters % 4]
    features = torch.rot90(shots.features, quarters, (-2, -1)).roll(4 * quarters, dims=-3)
    return Shots(features, torch.stack(places, dim=-1))


def encode(network: Network, given: Shots, shown: torch.Tensor, prior: torch.Tensor = PRIOR, order=None) -> Turns:
    def look(mirror: bool, turn: int) -> Shots:
        return turned(mirrored(given) if mirror else given, turn)

    return encode_turns(network, look, shown, prior[None], order)


def upright(network: Network, given: Shots, shown: torch.Tensor = SHOWN, **options) -> Aspects:
    (aspects,) = encode(network, given, shown, **options)
    return aspects


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
    aspects = upright(matching, given).expand(2)
    queries = torch.cat((photo(), in_a_mirror(photo())))  # the support itself, and its mirror image
    found = localise_best(matching, queries, (aspects,))
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
    symmetric = (half + in_a_mirror(half)) / 2
    given = shots(symmetric, PLACES[None])
    aspects = upright(matching, given)
    found = localise_best(matching, symmetric, (aspects,))
    assert (found.coordinates[-1, 0] - PLACES).norm(dim=-1).max() < 0.06


# Keypoints 0 and 1 are a left and a right one; the object is symmetric, so its mirror image shows 0 where 1 is.
PAIR = (torch.tensor([[2, 3], [9, 3], [4, 9], [6, 6]]) + 0.5) / GRID
SWAPPED = torch.tensor([1, 0, 2, 3])


@torch.inference_mode()
def test_where_left_and_right_are_known_a_mirror_image_is_relabelled(matching: Network) -> None:
    """A query that is the support in a mirror: its left is where the support's right was."""
    given = shots(photo(), PAIR[None])
    aspects = upright(matching, given)
    query = in_a_mirror(photo())
    in_mirror = mirrored(given).coordinates[0, 0]
    unaware, aware = (
        localise_best(matching, query, (aspects._replace(order=order),)).coordinates[-1, 0] for order in (None, SWAPPED)
    )
    assert (unaware - in_mirror).norm(dim=-1).max() < 0.06
    assert (aware - in_mirror[SWAPPED]).norm(dim=-1).max() < 0.06


@torch.inference_mode()
def test_a_mirror_shows_only_whose_partner_is_seen(matching: Network) -> None:
    """The support shows the left one of a pair; what a mirror shows is the right one, so the left is taken from the
    photo alone."""
    given = shots(photo(), PAIR[None])
    shown = torch.tensor([[[True, False, True, True]]])
    aspects = upright(matching, given, shown, order=SWAPPED)
    query = in_a_mirror(photo())
    plain, found = matching.localise(query, aspects.given), localise_best(matching, query, (aspects,))
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
        aspects = upright(matching, some, prior=prior, order=order)
        results.append(localise_best(matching, query, (aspects,), in_a_mirror(query)).coordinates[-1, 0])
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
    aspects = upright(matching, given)
    query = in_a_mirror(photo())
    plain = matching.localise(query, aspects.given)
    assert torch.equal(localise_best(matching, query, (aspects,)).coordinates, plain.coordinates)
    known = aspects._replace(order=torch.tensor([1, 0, 3, 2]))
    assert (localise_best(matching, query, (known,)).coordinates[-1, 0] - pair).norm(dim=-1).max() < 0.06


@torch.inference_mode()
def test_supports_are_turned_to_face_the_way_of_the_first(matching: Network) -> None:
    one = shots(photo(), PLACES[None])
    other = mirrored(one)
    pair = Shots(*(torch.cat(both, dim=1) for both in zip(one, other, strict=True)))
    shown = SHOWN.expand(-1, 2, -1)
    alone = upright(matching, one)
    together = upright(matching, pair, shown)
    for a, b in zip(alone[:2], together[:2], strict=True):
        torch.testing.assert_close(a.tokens, b.tokens, atol=1e-4, rtol=0)
        torch.testing.assert_close(a.places, b.places)
    assert torch.equal(together.given.graph.normalised, together.mirrored.graph.normalised)


@torch.inference_mode()
def test_a_query_seen_twice(matching: Network) -> None:
    """The mirrored view has its say, at its place, and corrects what the other one misses."""
    given = shots(photo(), PLACES[None])
    aspects = upright(matching, given)
    lost = photo(3)[:1]  # a view that shows something else
    alone = compare(matching, lost, aspects)[0]
    found = compare(matching, lost, aspects, mirrored=in_a_mirror(photo()))[0]
    misses = [(matched.proposals.peak - PLACES).norm(dim=-1).mean() for matched in (alone, found)]
    assert misses[1] < misses[0]
    other = matching.localise(in_a_mirror(photo()), aspects.mirrored).proposals.similarity.flip(-1)
    torch.testing.assert_close(found.proposals.similarity, (alone.proposals.similarity + other) / 2)


def test_a_mirrored_query_needs_mirrored_supports() -> None:
    with pytest.raises(SettingsError, match="mirror_query needs mirror"):
        tiny.settings(mirror_query=True)


def test_without_mirror_images_there_is_one_aspect() -> None:
    network = tiny.network()
    given = shots(photo(), PLACES[None])
    aspects = upright(network, given)
    assert aspects.mirrored is None
    direct = network.localise(
        photo(2), network.encode_support(given.features, SHOWN, PRIOR[None], given.coordinates).expand(2)
    )
    found = localise_best(network, photo(2), (aspects.expand(2),))
    assert torch.equal(found.coordinates, direct.coordinates)


def test_a_mirror_needs_a_measure_of_fit() -> None:
    with pytest.raises(SettingsError, match="mirror needs consistency"):
        tiny.settings(mirror=True)


# --- turned ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def turning(matching: Network) -> Network:
    network = Network(replace(matching.settings, turned=True)).eval()
    network.load_state_dict(matching.state_dict())
    return network


@pytest.mark.parametrize("order", [None, torch.tensor([1, 0, 2, 3])])
@torch.inference_mode()
def test_a_query_that_lies_another_way_is_found(turning: Network, matching: Network, order) -> None:
    """All eight ways a photo can lie."""
    given = shots(photo(), PLACES[None])
    turns = encode(turning, given, SHOWN, order=order)
    assert len(turns) == 4
    for quarters in range(4):
        for mirror in (False, True):
            seen = turned(mirrored(given) if mirror else given, quarters)
            query = seen.features[0]
            several = tuple(aspects.expand(1) for aspects in turns)
            found = localise_best(turning, query, several, in_a_mirror(query)).coordinates[-1, 0]
            expected = seen.coordinates[0, 0]
            if mirror and order is not None:
                expected = expected[order]
            assert (found - expected).norm(dim=-1).max() < 0.06, (quarters, mirror)
    upside_down = turned(given, 2)
    alone = localise_best(matching, upside_down.features[0], (turns[0],)).coordinates[-1, 0]
    assert (alone - upside_down.coordinates[0, 0]).norm(dim=-1).max() > 0.2  # it takes the turn


@torch.inference_mode()
def test_each_query_is_seen_at_its_own_turn_and_alone_as_in_a_batch(turning: Network) -> None:
    given = shots(photo(), PLACES[None])
    queries = torch.cat([turned(given, quarters).features[0] for quarters in (0, 3, 1)])
    turns = encode(turning, given, SHOWN)
    several = tuple(aspects.expand(3) for aspects in turns)
    turn = best_turn(turning, queries, several)
    assert turn.tolist() == [0, 3, 1]
    for index, quarters in enumerate(turn.tolist()):
        picked = at_turn(several, turn)
        for one, two in zip(picked[:2], turns[quarters][:2], strict=True):
            assert torch.equal(one.tokens[index], two.tokens[0]) and torch.equal(one.places[index], two.places[0])
    together = localise_best(turning, queries, several).coordinates[-1]
    for index in range(3):
        alone = localise_best(turning, queries[index : index + 1], turns).coordinates[-1, 0]
        torch.testing.assert_close(together[index], alone, atol=1e-5, rtol=0)


@torch.inference_mode()
def test_what_fits_as_well_upright_is_not_turned(turning: Network) -> None:
    """A photo that looks the same from all sides."""
    one = shots(photo(), PLACES[None])
    round_thing = sum(turned(one, quarters).features for quarters in range(4))
    turns = encode(turning, Shots(round_thing, one.coordinates), SHOWN)
    assert best_turn(turning, round_thing[0], turns).tolist() == [0]


@torch.inference_mode()
def test_supports_that_lie_and_face_any_way_are_brought_to_lie_as_the_first(turning: Network) -> None:
    one = shots(photo(), PLACES[None])
    ways = [one, turned(one, 1), mirrored(one), turned(mirrored(one), 2), mirrored(turned(one, 3))]
    many = Shots(*(torch.cat(parts, dim=1) for parts in zip(*ways, strict=True)))
    alone, together = encode(turning, one, SHOWN), encode(turning, many, SHOWN.expand(-1, len(ways), -1))
    for first, second in zip(alone, together, strict=True):
        for a, b in zip(first[:2], second[:2], strict=True):
            torch.testing.assert_close(a.places, b.places)
            torch.testing.assert_close(a.tokens, b.tokens, atol=1e-4, rtol=0)


def test_turning_needs_mirrors_and_a_square() -> None:
    with pytest.raises(SettingsError, match="turned needs mirror"):
        tiny.settings(turned=True)
    with pytest.raises(SettingsError, match="square frame"):
        tiny.settings(turned=True, mirror=True, consistency=True, backbone=BackboneSettings(image_size=(224, 112)))
