"""The supports as they are, as a mirror shows them, and turned (ours; not in the paper).

A bird that looks left has its keypoints the other way round than one that looks right. Where supports and query face
different ways, features of the same part differ and the layout misleads; seen in a mirror, the supports fit. So a query
is compared with both, and the better the mirror image fits, the more it counts. It costs a second pass of the head: the
backbone sees a query once, or twice if the settings want it (`mirror_query`): the mirrored query then has a say too, in
where each keypoint is and in which of the two fits better.

A mirror also swaps left and right. Where it is known which keypoints are left and right of each other, their labels are
swapped back, and the mirror image is a support as good as the photo itself. Where it is not known, it does not matter
between a left and a right profile, which have no paired parts in common, but on a face seen from the front it does:
keypoints that lie symmetrically are then never looked for in a mirror.

A mouse seen from above lies any way. With `turned`, the supports are also seen turned by quarters, with their mirror
images; a glance at the features tells for each query which quarter turn fits, and the head looks at that one only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from edgecape.model.consistency import Agreement, agree, faces_away, quarters_between
from edgecape.model.proposals import locate

if TYPE_CHECKING:
    from edgecape.model.network import Matched, Network, Output, SupportEncoding

FIT = (1.0, -1.0, -1.0)  # how much likelihood, log of the spread, and distortion say
MARGIN = 1.5  # how much better a mirror image has to fit to be believed as much as the photo
SOFTNESS = 2.0  # … and how much more for the odds to grow e-fold
TURN_MARGIN = 3.0  # how much better turned supports have to fit
LOPSIDED = 0.3  # how far from symmetric keypoints have to lie, relative to their extent, for a mirror to be of use


class Shots(NamedTuple):
    """The supports of a batch of episodes."""

    features: Tensor  # (B, S, C, h, w)
    coordinates: Tensor  # (B, S, K, 2), of the keypoints, in [0, 1]


Look = Callable[[bool, int], Shots]
"""Whether to look in a mirror, and at how many quarter turns after that → all supports so seen: upright at all crop
sizes of the settings, turned at the first of them only, which is enough to find the turn."""


class Aspects(NamedTuple):
    """The supports, and for networks that want it their mirror images."""

    given: SupportEncoding
    mirrored: SupportEncoding | None = None
    order: Tensor | None = None  # (K,): which keypoint a mirror shows in the place of each one; None: nobody knows

    def expand(self, queries: int) -> Aspects:
        """One support (B = 1) for a batch of queries, without copying."""
        mirrored = None if self.mirrored is None else self.mirrored.expand(queries)
        return Aspects(self.given.expand(queries), mirrored, self.order)


Turns = tuple[Aspects, ...]
"""The supports upright, and for networks that want it at one, two and three quarter turns."""


def encode_turns(network: Network, look: Look, visible: Tensor, prior: Tensor, order: Tensor | None = None) -> Turns:
    """visible (B, S or 1, K); prior (B, K, K); order: as in `Aspects`. Several supports are first brought to face and
    lie the way the first one does."""
    shots = look(False, 0)
    inside = ((shots.coordinates >= 0) & (shots.coordinates <= 1)).all(dim=-1)
    visible = visible & (inside | ~inside.any(dim=1, keepdim=True))  # a close look may miss what another one sees
    if not network.settings.mirror:
        return (Aspects(network.encode_support(shots.features, visible, prior, shots.coordinates)),)
    turns = range(4) if network.settings.turned else range(1)
    seen = {
        (mirror, turn): look(mirror, turn) if mirror or turn else shots for mirror in (False, True) for turn in turns
    }
    often = len(network.settings.looks)
    for key in [(mirror, turn) for mirror, turn in seen if turn]:  # as if looked at as often as upright ones
        seen[key] = Shots(*(x.repeat_interleave(often, dim=1) for x in seen[key]))
    away, quarters = _alignment(shots, seen[True, 0], visible)
    quarters = quarters * network.settings.turned

    def aligned(turn: int, mirror: bool) -> Shots:
        """All supports, brought to lie as the first, then turned, then seen in a mirror or not."""
        found = shots
        for was_away in (False, True):
            for quarter in turns:
                where = (away == was_away) & (quarters == quarter)
                total = (quarter + turn) % 4  # seen in a mirror, a turn to the left is one to the right
                there = seen[was_away != mirror, -total % 4 if mirror else total]
                found = Shots(*(_where(where, a, b) for a, b in zip(there, found, strict=True)))
        return found

    encoded: list[Aspects] = []
    for turn in turns:
        one, other = (aligned(turn, mirror) for mirror in (False, True))
        graph = encoded[0].given.graph if encoded else None  # the same object, and so the same graph
        given = network.encode_support(one.features, visible, prior, one.coordinates, graph=graph)
        mirrored = network.encode_support(other.features, visible, prior, other.coordinates, graph=given.graph)
        encoded.append(Aspects(given, mirrored, order))
    return tuple(encoded)


def _alignment(shots: Shots, mirrored: Shots, visible: Tensor) -> tuple[Tensor, Tensor]:
    """Which supports (B, S) face away from the first one, and by how many quarter turns they lie otherwise."""
    first = shots.coordinates[:, :1].expand_as(shots.coordinates)
    both = visible & visible[:, :1]

    def each(function: Callable[..., Tensor], coordinates: Tensor) -> Tensor:
        return function(*(x.flatten(0, 1) for x in (coordinates, first, both))).unflatten(0, visible.shape[:2])

    away = each(faces_away, shots.coordinates)
    return away, each(quarters_between, _where(away, mirrored.coordinates, shots.coordinates))


def localise_best(network: Network, query: Tensor, turns: Turns, mirrored: Tensor | None = None) -> Output:
    """query (B, C, h, w), supports of B episodes → what the aspects that fit say of each query.

    mirrored (B, C, h, w): the queries as a mirror shows them, for networks that want it.
    """
    aspects = at_turn(turns, best_turn(network, query, turns, mirrored))
    return settle_best(network, compare(network, query, aspects, mirrored), aspects)


def best_turn(network: Network, query: Tensor, turns: Turns, mirrored: Tensor | None = None) -> Tensor:
    """At which quarter turn the supports fit each query best: (B,). The graph has no say, so it is the same for all."""
    if len(turns) == 1:
        return torch.zeros(len(query), dtype=torch.long, device=query.device)
    cells = network.cells(query)
    cells_mirrored = None if mirrored is None else network.cells(mirrored)
    fits = []
    for number, aspects in enumerate(turns):
        assert aspects.mirrored is not None
        pair, agreements = (aspects.given, aspects.mirrored), []
        for support, other in (pair, pair[::-1]):
            similarity = network.glance(cells, support)
            if cells_mirrored is not None:
                similarity = _averaged(similarity, network.glance(cells_mirrored, other))
            no_graph = torch.zeros_like(support.graph.normalised)
            agreements.append(agree(locate(similarity), support.places, support.usable, no_graph))
        plain, mirror_image = (agreement.fit @ agreement.fit.new_tensor(FIT) for agreement in agreements)
        best = torch.where(_mirror_helps(aspects), torch.maximum(plain, mirror_image - MARGIN), plain)
        fits.append(best - (TURN_MARGIN if number else 0.0))
    return torch.stack(fits).argmax(dim=0)


def at_turn(turns: Turns, turn: Tensor) -> Aspects:
    """For each query the supports at its turn (B,)."""
    found = turns[0]
    for number, aspects in enumerate(turns[1:], start=1):
        where = turn == number
        given, mirrored = (
            one._replace(tokens=_where(where, two.tokens, one.tokens), places=_where(where, two.places, one.places))
            for one, two in ((found.given, aspects.given), (found.mirrored, aspects.mirrored))
            if one is not None and two is not None
        )
        found = found._replace(given=given, mirrored=mirrored)
    return found


def compare(network: Network, query: Tensor, aspects: Aspects, mirrored: Tensor | None = None) -> list[Matched]:
    """The queries beside each aspect of the supports."""
    supports = [aspects.given] if aspects.mirrored is None else [aspects.given, aspects.mirrored]
    matched = [network.match(query, support) for support in supports]
    if mirrored is None:
        return matched
    others = [network.match(mirrored, support) for support in reversed(supports)]  # it resembles the other aspect
    return [
        one._replace(proposals=locate(_averaged(one.proposals.similarity, other.proposals.similarity)))
        for one, other in zip(matched, others, strict=True)
    ]


def _averaged(similarity: Tensor, mirrored: Tensor) -> Tensor:
    """What two views of a query say, the second one seen in a mirror."""
    return (similarity + mirrored.flip(-1)) / 2


def settle_best(network: Network, matched: list[Matched], aspects: Aspects) -> Output:
    """What both aspects say of where the keypoints are, each counting as much as it is believed."""
    plain = matched[0]
    if aspects.mirrored is None:
        return network.settle(plain, aspects.given)
    mirror_image, usable = matched[1], aspects.given.usable
    one, other = network.agree(plain, aspects.given), network.agree(mirror_image, aspects.mirrored)
    share = belief(one, other, aspects)
    if aspects.order is not None:  # what looks like the left eye in a mirror is the right one
        order = aspects.order
        mirror_image = mirror_image._replace(
            keypoints=mirror_image.keypoints[:, order],
            proposals=type(mirror_image.proposals)(*(values[:, order] for values in mirror_image.proposals)),
        )
        other = other._replace(expected=other.expected[:, order], mass=other.mass[:, order])
        usable = usable[:, order]
    mirror_wins = share > 0.5
    weight = share[:, None] * usable  # (B, K): a mirror shows only those whose partner the supports show
    chosen = weight > 0.5
    combined = type(plain)(
        image=_where(mirror_wins, mirror_image.image, plain.image),
        keypoints=_where(chosen, mirror_image.keypoints, plain.keypoints),
        proposals=type(plain.proposals)(
            *(_where(chosen, b, a) for a, b in zip(plain.proposals, mirror_image.proposals, strict=True))
        ),
    )
    agreement = Agreement(
        expected=torch.lerp(one.expected, other.expected, weight[..., None]),
        mass=torch.lerp(one.mass, other.mass, weight[..., None, None]),
        fit=_where(mirror_wins, other.fit, one.fit),
    )
    return network.decode(combined, aspects.given, agreement)


def belief(plain: Agreement, mirror_image: Agreement, aspects: Aspects) -> Tensor:
    """How much the mirror image counts: (B,), between 0 and 1."""
    better = mirror_image.fit - plain.fit
    share = torch.sigmoid((better @ better.new_tensor(FIT) - MARGIN) / SOFTNESS)
    return share * _mirror_helps(aspects)


def _mirror_helps(aspects: Aspects) -> Tensor:
    """Whether a mirror is of use: (B,) bool; not for keypoints that lie symmetrically without saying left and right."""
    usable = aspects.given.usable
    if aspects.order is not None:
        return torch.ones(len(usable), dtype=torch.bool, device=usable.device)
    return lopsided(aspects.given.places, usable) > LOPSIDED


def lopsided(places: Tensor, usable: Tensor) -> Tensor:
    """How far each keypoint, seen in a mirror, is from the nearest other one, relative to their mean distance from the
    middle: places (B, K, 2), usable (B, K) → (B,), 0 for a face from the front."""
    counts = usable.to(places.dtype)[..., None]
    number = counts.sum(dim=1, keepdim=True).clamp(min=1)
    middle = places - (places * counts).sum(dim=1, keepdim=True) / number
    mirrored = middle * middle.new_tensor((-1.0, 1.0))
    apart = (mirrored[:, :, None] - middle[:, None]).norm(dim=-1).masked_fill(~usable[:, None], float("inf"))
    nearest = apart.amin(dim=-1).masked_fill(~usable, 0.0).sum(dim=1)
    extent = (middle.norm(dim=-1) * counts[..., 0]).sum(dim=1)
    return nearest / extent.clamp(min=1e-6)


def _where(condition: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """`one` where the condition is true, else `other`; its dimensions are the first of theirs."""
    return torch.where(condition.reshape(condition.shape + (1,) * (one.dim() - condition.dim())), one, other)
