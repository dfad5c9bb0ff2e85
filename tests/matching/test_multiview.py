"""Supports and queries in mirrors, quarter turns and crop scales: the path that ships."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecape.errors import SettingsError
from edgecape.matching import views
from edgecape.matching.alignment import asymmetry
from edgecape.matching.multiview import Estimate, MultiView, SupportViews
from edgecape.matching.network import build_network
from edgecape.matching.settings import MatchingSettings, RereadingSettings, ViewSettings, VotingSettings
from edgecape.matching.views import Picture
from edgecape.matching.voting import mean_shift_mode
from edgecape.training.initialise import start_from_matching

import tiny
from pictures import encode, moved, queries, seen, shots

GRID = 12
PLACES = (torch.tensor([[2, 2], [8, 3], [3, 9], [6, 6]]) + 0.5) / GRID  # no mirror symmetry
PRIOR = torch.tensor([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 1], [0, 1, 1, 0]]).float()
SHOWN = torch.ones(1, 1, 4, dtype=torch.bool)
MIRROR = ViewSettings(mirror=True)
TURNS = replace(MIRROR, quarter_turns=True)
SHIPPED = MatchingSettings(
    views=replace(TURNS, mirror_query=True, scales=(1.0, 0.85)),
    rereading=RereadingSettings(neighbours=True, share=0.35, local_heads=1),
    log_linear_edges=True,
)


def photo(number: int = 1) -> torch.Tensor:
    return torch.randn(number, 16, GRID, GRID, generator=torch.Generator().manual_seed(number))


def matching(look: ViewSettings) -> MultiView:
    """An untrained network that matches features."""
    torch.manual_seed(0)
    network = build_network(tiny.settings(width=64, graph="fixed", bias="off"), MatchingSettings(views=look)).eval()
    start_from_matching(network, photo(8))
    return MultiView(network)


@pytest.fixture(scope="module")
def mirroring() -> MultiView:
    return matching(MIRROR)


@pytest.fixture(scope="module")
def turning() -> MultiView:
    return matching(TURNS)


def support(
    multiview: MultiView, features=None, places=PLACES, shown=SHOWN, prior=PRIOR, flip=None, queries: int = 1
) -> SupportViews:
    features = photo() if features is None else features
    return encode(multiview, features[None], places.expand(1, len(features), -1, -1), shown, prior[None], flip).expand(
        queries
    )


@torch.inference_mode()
def find(multiview: MultiView, query: torch.Tensor, known: SupportViews) -> Estimate:
    return multiview(queries(query, multiview.query_views), known)


def only(multiview: MultiView, query: torch.Tensor, known: SupportViews, view: int) -> Estimate:
    """As if there were no other view."""
    one = matching(ViewSettings())
    one.network.load_state_dict(multiview.network.state_dict())
    alone = known._replace(tokens=known.tokens[:, :, view : view + 1], places=known.places[:, :, view : view + 1])
    return find(one, query, alone)


def final(estimate: Estimate) -> torch.Tensor:
    return estimate.output.coordinates[-1]


# --- mirrors -----------------------------------------------------------------------------------------------------


@torch.inference_mode()
def test_a_query_that_faces_the_other_way_is_found_in_the_mirror(mirroring: MultiView) -> None:
    known = support(mirroring, queries=2)
    both = torch.cat((photo(), seen(photo(), 1)))  # the support itself, and its mirror image
    found = find(mirroring, both, known)
    assert (final(found) - torch.stack((PLACES, moved(PLACES, 1)))).norm(dim=-1).max() < 0.06
    alone = [only(mirroring, both, known, view) for view in (0, 1)]
    votes, places = (one.votes for one in alone), known.places[:, 0, 0]
    weight = mirroring.mirror_weight(*votes, places, known.usable, known.flip_index)
    assert weight[0] < 0.2 and weight[1] > 0.5
    for index in (0, 1):  # what is said beside is that of the view that counts more
        similarity = alone[index].output.proposals.similarity[index]
        torch.testing.assert_close(found.output.proposals.similarity[index], similarity, atol=1e-4, rtol=0)
        torch.testing.assert_close(found.votes.fit[index], alone[index].votes.fit[index], atol=1e-4, rtol=0)
    heatmap = found.votes.heatmap
    torch.testing.assert_close(heatmap.sum(dim=(-2, -1)), torch.ones(2, 4))
    mean = (1 - weight[1]) * alone[0].votes.heatmap[1] + weight[1] * alone[1].votes.heatmap[1]
    torch.testing.assert_close(heatmap[1], mean, atol=1e-4, rtol=0)


def test_a_mirror_image_that_fits_no_better_does_not_win(mirroring: MultiView) -> None:
    """A symmetric photo: left and right must not change places."""
    symmetric = (photo() + seen(photo(), 1)) / 2
    found = find(mirroring, symmetric, support(mirroring, symmetric))
    assert (final(found)[0] - PLACES).norm(dim=-1).max() < 0.06


# Keypoints 0 and 1 are a left and a right one; the object is symmetric, so its mirror image shows 0 where 1 is.
PAIR = (torch.tensor([[2, 3], [9, 3], [4, 9], [6, 6]]) + 0.5) / GRID
FLIP = torch.tensor([1, 0, 2, 3])


def test_where_left_and_right_are_known_a_mirror_image_is_relabelled(mirroring: MultiView) -> None:
    """A query that is the support in a mirror: its left is where the support's right was."""
    known = support(mirroring, places=PAIR)
    unaware, aware = (
        final(find(mirroring, seen(photo(), 1), known._replace(flip_index=flip)))[0]
        for flip in (torch.arange(len(FLIP)), FLIP)
    )
    assert (unaware - moved(PAIR, 1)).norm(dim=-1).max() < 0.06
    assert (aware - moved(PAIR, 1)[FLIP]).norm(dim=-1).max() < 0.06


def test_a_mirror_shows_only_keypoints_whose_partner_is_seen(mirroring: MultiView) -> None:
    """The support shows the left one of a pair; what a mirror shows is the right one, so the left is taken from the
    photo alone."""
    shown = torch.tensor([[[True, False, True, True]]])
    known = support(mirroring, places=PAIR, shown=shown, flip=FLIP)
    query = seen(photo(), 1)
    plain, found = only(mirroring, query, known, 0), find(mirroring, query, known)
    torch.testing.assert_close(found.votes.heatmap[0, 0], plain.votes.heatmap[0, 0], atol=1e-5, rtol=0)
    assert (found.votes.heatmap[0, 2] - plain.votes.heatmap[0, 2]).abs().max() > 1e-3
    assert torch.isfinite(found.output.coordinates).all() and torch.equal(found.output.usable, shown[0])


def test_a_face_from_the_front_is_symmetric_and_a_profile_is_not() -> None:
    face = torch.tensor([[0.3, 0.3], [0.7, 0.3], [0.5, 0.5], [0.4, 0.7], [0.6, 0.7]])
    profile = torch.tensor([[0.2, 0.3], [0.3, 0.35], [0.6, 0.5], [0.9, 0.4], [0.7, 0.7]])
    hidden = torch.tensor([[True] * 5, [True] * 4 + [False]])
    both = asymmetry(torch.stack((face, profile)), hidden)
    assert both[0] < 0.01 and both[1] > ViewSettings().asymmetry
    away = torch.cat((profile[:4], torch.tensor([[0.0, 0.0]])))  # where a hidden one is does not matter
    torch.testing.assert_close(asymmetry(away[None], hidden[1:]), both[1:])
    assert torch.isfinite(asymmetry(face[None], torch.zeros(1, 5, dtype=torch.bool))).all()


def test_keypoints_that_lie_symmetrically_are_not_compared_in_a_mirror(mirroring: MultiView) -> None:
    """Even if the mirror image fits perfectly and the support does not; unless left and right are known."""
    pair = (torch.tensor([[2, 3], [9, 3], [2, 8], [9, 8]]) + 0.5) / GRID
    known, query = support(mirroring, places=pair), seen(photo(), 1)
    torch.testing.assert_close(final(find(mirroring, query, known)), final(only(mirroring, query, known, 0)))
    named = known._replace(flip_index=torch.tensor([1, 0, 3, 2]))
    assert (final(find(mirroring, query, named))[0] - pair).norm(dim=-1).max() < 0.06


@torch.inference_mode()
def test_a_query_seen_twice() -> None:
    """The mirrored view has its say, at its place, and corrects what the other one misses."""
    twice, once = matching(replace(MIRROR, mirror_query=True)), matching(MIRROR)
    known = support(once)
    lost = photo(3)[:1]  # a view that shows something else
    alone = once.compare(lost[:, None], known).matched[0].proposals
    found = twice.compare(torch.stack((lost, seen(photo(), 1)), dim=1), known).matched[0].proposals
    assert (found.peak - PLACES).norm(dim=-1).mean() < (alone.peak - PLACES).norm(dim=-1).mean()
    other = only(once, seen(photo(), 1), known, 1).output.proposals.similarity.flip(-1)
    torch.testing.assert_close(found.similarity, (alone.similarity + other) / 2, atol=1e-4, rtol=0)


# --- turns -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flip", [None, torch.tensor([1, 0, 2, 3])])
def test_a_query_that_lies_another_way_is_found(turning: MultiView, mirroring: MultiView, flip) -> None:
    """All eight ways a photo can lie."""
    known = support(turning, flip=flip)
    assert known.tokens.shape[1:3] == (1, 8)
    for view in range(8):
        found = final(find(turning, seen(photo(), view), known))[0]
        expected = moved(PLACES, view)
        if view % 2 and flip is not None:
            expected = expected[flip]
        assert (found - expected).norm(dim=-1).max() < 0.06, view
    upside_down = views.view_of(False, 2)
    alone = final(find(mirroring, seen(photo(), upside_down), support(mirroring)))[0]
    assert (alone - moved(PLACES, upside_down)).norm(dim=-1).max() > 0.2  # it takes the turn


@torch.inference_mode()
def test_each_query_is_seen_at_its_own_turn_and_alone_as_in_a_batch(turning: MultiView) -> None:
    several = torch.cat([seen(photo(), 2 * turns) for turns in (0, 3, 1)])
    known = support(turning, queries=3)
    chosen = turning.compare(several[:, None], known).views
    assert chosen[0][:, 0].tolist() == [0, 6, 2] and chosen[1][:, 0].tolist() == [1, 7, 3]
    together = final(find(turning, several, known))
    for index in range(3):
        alone = final(find(turning, several[index : index + 1], support(turning)))[0]
        torch.testing.assert_close(together[index], alone, atol=1e-5, rtol=0)


@torch.inference_mode()
def test_what_fits_as_well_upright_is_not_turned(turning: MultiView) -> None:
    """A photo that looks the same from all sides."""
    round_thing = sum(seen(photo(), 2 * turns) for turns in range(4))
    known = support(turning, round_thing)
    assert turning.compare(round_thing[:, None], known).views[0].tolist() == [[0]]


def shipped(**changes) -> MultiView:
    return MultiView(tiny.network(matching=SHIPPED, **changes))


@torch.no_grad()
def ship(multiview: MultiView, episode: tiny.Episode, flip: torch.Tensor | None = None) -> Estimate:
    known = encode(multiview, episode.support, episode.coordinates, episode.visible, episode.prior, flip)
    return multiview(queries(episode.query, multiview.query_views), known)


def same(first: Estimate, second: Estimate, keypoints=slice(None), samples=slice(None)) -> None:
    """The usable keypoints of the first, and those keypoints of the second."""
    usable = first.output.usable
    assert usable.any() and torch.equal(usable, second.output.usable[samples][:, keypoints])
    for one, other in (
        (first.output.coordinates[-1], second.output.coordinates[-1]),
        (first.output.proposals.peak, second.output.proposals.peak),
        (first.votes.heatmap, second.votes.heatmap),
    ):
        torch.testing.assert_close(one[usable], other[samples][:, keypoints][usable], rtol=0, atol=1e-4)


BOTH = pytest.mark.parametrize("named", [False, True], ids=["unnamed", "named"])
a_few = settings(max_examples=6, deadline=None, derandomize=True)
seeds = st.integers(0, 2**16)


def swap(K: int, named: bool) -> torch.Tensor | None:
    return torch.tensor([1, 0, *range(2, K)]) if named else None


# --- several supports --------------------------------------------------------------------------------------------


def several(multiview: MultiView, features: torch.Tensor, places: torch.Tensor, shown=None) -> SupportViews:
    shown = torch.ones(1, *places.shape[:2], dtype=torch.bool) if shown is None else shown
    return support(multiview, features, places, shown)


@torch.inference_mode()
def test_each_support_is_compared_in_its_own_view_and_one_that_does_not_fit_does_no_harm(turning: MultiView) -> None:
    """The same object lying two ways, and something else."""
    other, way = photo(3)[:1], 5
    features = torch.cat((other, seen(photo(), way), photo()))
    placed = torch.stack((PLACES.flip(0), moved(PLACES, way), PLACES))
    known = several(turning, features, placed)
    for view in (0, 3):
        query = seen(photo(), view)
        assert (final(find(turning, query, known))[0] - moved(PLACES, view)).norm(dim=-1).max() < 0.06
        assert turning.compare(query[:, None], known).supports[0, -1] == 0  # the other thing comes last


@a_few
@given(K=st.integers(3, 9), seed=seeds)
def test_supports_have_no_order(K: int, seed: int) -> None:
    multiview, episode = shipped(), tiny.episode(K, 3, seed=seed)
    order = torch.tensor([2, 0, 1])
    turned_round = episode._replace(
        support=episode.support[:, order], coordinates=episode.coordinates[:, order], visible=episode.visible[:, order]
    )
    same(ship(multiview, episode), ship(multiview, turned_round))


@torch.inference_mode()
def test_the_same_support_twice_is_that_support(turning: MultiView) -> None:
    once, twice = support(turning), several(turning, photo().expand(2, -1, -1, -1), PLACES.expand(2, -1, -1))
    query = photo(3)[1:2]
    torch.testing.assert_close(find(turning, query, once).votes.heatmap, find(turning, query, twice).votes.heatmap)


@torch.inference_mode()
def test_our_decoder_looks_at_each_support_on_its_own() -> None:
    """The same support twice gives what it gives alone; what another one says has its part in it."""
    multiview, episode = shipped(), tiny.episode(5, 2, seed=3, hide=0.0)
    alone, twice = (
        episode._replace(
            support=episode.support[:, rows], coordinates=episode.coordinates[:, rows], visible=episode.visible[:, rows]
        )
        for rows in ([0], [0, 0])
    )
    once, again, both = (ship(multiview, one) for one in (alone, twice, episode))
    for part in ("heatmap", "own"):
        torch.testing.assert_close(getattr(again.reread, part), getattr(once.reread, part))
        assert not torch.allclose(getattr(both.reread, part), getattr(once.reread, part))
    mode = mean_shift_mode(both.reread.heatmap, SHIPPED.voting.near)
    assert torch.equal(both.output.coordinates[-1], mode)


@torch.inference_mode()
def test_no_more_supports_are_compared_than_the_effort_allows(mirroring: MultiView) -> None:
    known = several(mirroring, photo().expand(7, -1, -1, -1), PLACES.expand(7, -1, -1))
    compared = [mirroring.compare(queries(photo(), (0,)), known, fast) for fast in (True, False)]
    assert [one.supports.shape[1] for one in compared] == list(ViewSettings.supports) == [2, 5]


@torch.inference_mode()
def test_what_a_support_does_not_show_is_taken_from_those_that_do(mirroring: MultiView) -> None:
    """The second shows the same object, shifted, and lacks a keypoint; the third has nothing in common with it."""
    shift = torch.tensor([0.1, -0.05])
    shown = torch.tensor([[[True] * 4, [True, True, False, True], [False, False, True, False]]])
    placed = torch.stack((PLACES, PLACES + shift, PLACES.flip(0)))
    known = several(mirroring, photo(3), placed, shown)
    expected = (PLACES[2] + shift + placed[2, 2]) / 2  # where both that show it say it would be
    torch.testing.assert_close(known.places[0, 1, 0, 2], expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(known.places[0, 1, 0, [0, 1, 3]], placed[1, [0, 1, 3]])
    torch.testing.assert_close(known.tokens[0, 1, 0, 2], known.tokens[0, [0, 2], 0, 2].mean(dim=0))
    assert known.usable.all()


# --- the path that ships -----------------------------------------------------------------------------------------


@BOTH
@a_few
@given(K=st.integers(3, 9), count=st.integers(1, 3), extra=st.integers(1, 12), seed=seeds)
def test_padding_changes_nothing(named: bool, K: int, count: int, extra: int, seed: int) -> None:
    multiview, episode = shipped(), tiny.episode(K, count, seed=seed)
    padded = ship(multiview, tiny.pad(episode, extra), swap(K + extra, named))
    same(ship(multiview, episode, swap(K, named)), padded, slice(K))


@BOTH
@a_few
@given(K=st.integers(3, 9), count=st.integers(1, 3), seed=seeds)
def test_batching_changes_nothing(named: bool, K: int, count: int, seed: int) -> None:
    multiview = shipped()
    first, second = tiny.episode(K, count, seed=seed), tiny.episode(K, count, seed=seed + 1)
    batched = ship(multiview, tiny.concatenate(first, second), swap(K, named))
    same(ship(multiview, first, swap(K, named)), batched, samples=slice(0, 1))
    same(ship(multiview, second, swap(K, named)), batched, samples=slice(1, 2))


@BOTH
@a_few
@given(K=st.integers(3, 9), count=st.integers(1, 3), seed=seeds)
def test_keypoints_have_no_order(named: bool, K: int, count: int, seed: int) -> None:
    multiview, episode = shipped(), tiny.episode(K, count, seed=seed)
    order = torch.randperm(K, generator=torch.Generator().manual_seed(seed))
    flip = swap(K, named)
    renumbered = None if flip is None else torch.argsort(order)[flip[order]]
    permuted = ship(multiview, tiny.permute(episode, order), renumbered)
    same(ship(multiview, episode, flip), permuted, torch.argsort(order))


def test_one_support_serves_many_queries() -> None:
    multiview, episode, others = shipped(), tiny.episode(6, 2, seed=1), tiny.episode(6, batch=3, seed=2)
    with torch.no_grad():
        known = encode(multiview, episode.support, episode.coordinates, episode.visible, episode.prior)
        together = multiview(queries(others.query, multiview.query_views), known.expand(3))
    for number, query in enumerate(others.query):
        same(ship(multiview, episode._replace(query=query[None])), together, samples=slice(number, number + 1))


def test_the_graph_has_no_say_in_what_is_compared() -> None:
    """So that it can be done once for several graphs."""
    multiview, episode = shipped(), tiny.episode(6, 2, seed=1, hide=0.0)
    other = episode._replace(prior=1 - episode.prior - torch.eye(6))
    with torch.no_grad():
        known, told = (encode(multiview, e.support, e.coordinates, e.visible, e.prior) for e in (episode, other))
        assert torch.equal(known.tokens, told.tokens) and not torch.equal(known.graph.weights, told.graph.weights)
        query = queries(episode.query, multiview.query_views)
        same(multiview(query, told), multiview.settle(multiview.compare(query, known), told))


@pytest.mark.parametrize("changes", [*tiny.VARIANTS.values()][:-2], ids=[*tiny.VARIANTS][:-2])
def test_around_a_published_network_it_changes_nothing(changes) -> None:
    network = tiny.network(**changes)
    multiview, episode = MultiView(network), tiny.episode(6, shots=2, batch=2, seed=3)
    assert multiview.pictures == (Picture(0, 1.0),) and multiview.query_views == (0,)
    with torch.no_grad():
        found, direct = ship(multiview, episode), network(*episode)
    assert found.votes is None
    assert torch.equal(found.output.coordinates, direct.coordinates)
    assert torch.equal(found.output.graph.normalised, direct.graph.normalised)


def test_what_is_rendered() -> None:
    multiview = shipped()
    upright = [Picture(view, scale) for view in (0, 1) for scale in SHIPPED.views.scales]
    assert multiview.pictures == (*upright, *(Picture(view, 1.0) for view in range(2, 8)))
    assert multiview.query_views == (0, 1)


def test_a_keypoint_outside_one_crop_still_counts_in_the_others() -> None:
    multiview = MultiView(tiny.network(matching=MatchingSettings(views=ViewSettings(scales=(1.0, 0.5)))))
    near, far = torch.tensor([0.5, 0.4]), torch.tensor([0.9, 0.9])  # the second lies outside a crop of half the size
    episode = tiny.episode(2, seed=1, hide=0.0)._replace(coordinates=torch.stack((near, far))[None, None])
    known = encode(multiview, episode.support, episode.coordinates, episode.visible, episode.prior)
    torch.testing.assert_close(known.places[0, 0, 0, 1], far)
    torch.testing.assert_close(known.places[0, 0, 0, 0], torch.tensor([0.5, 0.35]))


# --- views and settings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("v", range(8))
@pytest.mark.parametrize("w", range(8))
def test_views_compose_as_pictures_do(v: int, w: int) -> None:
    import numpy as np

    frame = np.arange(49, dtype=np.uint8).reshape(7, 7)
    assert np.array_equal(views.show(views.show(frame, w), v), views.show(frame, views.compose(v, w)))
    points = np.array([[0, 0], [6, 0], [2, 5]])
    from edgecape import geometry

    placed = geometry.apply(views.transform(v, (7, 7)), points).round().astype(int)
    assert [views.show(frame, v)[y, x] for x, y in placed] == [frame[y, x] for x, y in points]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ViewSettings(mirror_query=True), "mirror_query needs mirror"),
        (lambda: ViewSettings(quarter_turns=True), "quarter_turns needs mirror"),
        (lambda: ViewSettings(scales=()), "scales is"),
        (lambda: ViewSettings(supports=(0, 5)), "at least one"),
        (lambda: MatchingSettings(voting=VotingSettings(rounds=0), views=MIRROR), "need voting"),
        (lambda: VotingSettings(rounds=-1), "-1 rounds"),
        (lambda: VotingSettings(ridge=0.0), "above 0"),
        (lambda: MultiView(tiny.network(matching=SHIPPED, backbone=oblong())), "square frame"),
    ],
)
def test_settings_that_cannot_work_are_refused(make, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        make()


def oblong():
    from edgecape.model.settings import BackboneSettings

    return BackboneSettings(image_size=(224, 112))


def test_pictures_of_a_support_are_what_the_network_gets() -> None:
    """Of one shot and its views: shapes as documented."""
    multiview = shipped()
    one = shots(torch.randn(2, 3, 16, 4, 4), torch.rand(2, 3, 5, 2), multiview.pictures)
    assert one.features.shape == (2, 10, 3, 16, 4, 4) and one.coordinates.shape == (2, 10, 3, 5, 2)
