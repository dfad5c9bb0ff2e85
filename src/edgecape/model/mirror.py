"""The supports as they are and as a mirror shows them (ours; not in the paper).

A bird that looks left has its keypoints the other way round than one that looks right. Where supports and query face
different ways, features of the same part differ and the layout misleads; seen in a mirror, the supports fit. So a query
is compared with both, and the better the mirror image fits, the more it counts. It costs a second pass of the head: the
backbone sees a query once, or twice if the settings want it (`mirror_query`): the mirrored query then has a say too, in
where each keypoint is and in which of the two fits better.

A mirror also swaps left and right. Where it is known which keypoints are left and right of each other, their labels are
swapped back, and the mirror image is a support as good as the photo itself. Where it is not known, it does not matter
between a left and a right profile, which have no paired parts in common, but on a face seen from the front it does:
keypoints that lie symmetrically are then never looked for in a mirror.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from edgecape.model.consistency import Agreement, faces_away
from edgecape.model.proposals import locate

if TYPE_CHECKING:
    from edgecape.model.network import Matched, Network, Output, SupportEncoding

FIT = (1.0, -1.0, -1.0)  # how much likelihood, log of the spread, and distortion say
MARGIN = 1.5  # how much better a mirror image has to fit to be believed as much as the photo
SOFTNESS = 2.0  # … and how much more for the odds to grow e-fold
LOPSIDED = 0.3  # how far from symmetric keypoints have to lie, relative to their extent, for a mirror to be of use


class Shots(NamedTuple):
    """The supports of a batch of episodes."""

    features: Tensor  # (B, S, C, h, w)
    coordinates: Tensor  # (B, S, K, 2), of the keypoints, in [0, 1]


class Aspects(NamedTuple):
    """The supports, and for networks that want it their mirror images."""

    given: SupportEncoding
    mirrored: SupportEncoding | None = None
    order: Tensor | None = None  # (K,): which keypoint a mirror shows in the place of each one; None: nobody knows

    def expand(self, queries: int) -> Aspects:
        """One support (B = 1) for a batch of queries, without copying."""
        mirrored = None if self.mirrored is None else self.mirrored.expand(queries)
        return Aspects(self.given.expand(queries), mirrored, self.order)


def encode_aspects(network: Network, shots: Shots, mirrored: Shots | None, visible: Tensor, prior: Tensor) -> Aspects:
    """visible (B, S or 1, K); prior (B, K, K). Several supports are first turned to face the way the first one does."""
    inside = ((shots.coordinates >= 0) & (shots.coordinates <= 1)).all(dim=-1)
    visible = visible & (inside | ~inside.any(dim=1, keepdim=True))  # a close look may miss what another one sees
    if mirrored is None:
        return Aspects(network.encode_support(shots.features, visible, prior, shots.coordinates))
    first = shots.coordinates[:, :1].expand_as(shots.coordinates)
    both = visible & visible[:, :1]
    away = faces_away(*(x.flatten(0, 1) for x in (shots.coordinates, first, both))).unflatten(0, visible.shape[:2])

    def turned(a: Shots, b: Shots) -> Shots:
        return Shots(*(_where(away, there, here) for here, there in zip(a, b, strict=True)))

    one, other = turned(shots, mirrored), turned(mirrored, shots)
    given = network.encode_support(one.features, visible, prior, one.coordinates)
    # the same object, and so the same graph
    mirror_image = network.encode_support(other.features, visible, prior, other.coordinates, graph=given.graph)
    return Aspects(given, mirror_image)


def localise_best(network: Network, query: Tensor, aspects: Aspects, mirrored: Tensor | None = None) -> Output:
    """query (B, C, h, w), aspects of B supports each → what both aspects together say of each query.

    mirrored (B, C, h, w): the queries as a mirror shows them, for networks that want it.
    """
    return settle_best(network, compare(network, query, aspects, mirrored), aspects)


def compare(network: Network, query: Tensor, aspects: Aspects, mirrored: Tensor | None = None) -> list[Matched]:
    """The queries beside each aspect of the supports."""
    supports = [aspects.given] if aspects.mirrored is None else [aspects.given, aspects.mirrored]
    matched = [network.match(query, support) for support in supports]
    if mirrored is None:
        return matched
    others = [network.match(mirrored, support) for support in reversed(supports)]  # it resembles the other aspect
    return [_seen_twice(one, other) for one, other in zip(matched, others, strict=True)]


def _seen_twice(one: Matched, other: Matched) -> Matched:
    """What one view says, with the similarity of both averaged; the other view is mirrored."""
    similarity = (one.proposals.similarity + other.proposals.similarity.flip(-1)) / 2
    return one._replace(proposals=locate(similarity))


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
    turned = share > 0.5
    weight = share[:, None] * usable  # (B, K): a mirror shows only those whose partner the supports show
    chosen = weight > 0.5
    combined = type(plain)(
        image=_where(turned, mirror_image.image, plain.image),
        keypoints=_where(chosen, mirror_image.keypoints, plain.keypoints),
        proposals=type(plain.proposals)(
            *(_where(chosen, b, a) for a, b in zip(plain.proposals, mirror_image.proposals, strict=True))
        ),
    )
    agreement = Agreement(
        expected=torch.lerp(one.expected, other.expected, weight[..., None]),
        mass=torch.lerp(one.mass, other.mass, weight[..., None, None]),
        fit=_where(turned, other.fit, one.fit),
    )
    return network.decode(combined, aspects.given, agreement)


def belief(plain: Agreement, mirror_image: Agreement, aspects: Aspects) -> Tensor:
    """How much the mirror image counts: (B,), between 0 and 1."""
    better = mirror_image.fit - plain.fit
    share = torch.sigmoid((better @ better.new_tensor(FIT) - MARGIN) / SOFTNESS)
    if aspects.order is None:
        share = share * (lopsided(aspects.given.places, aspects.given.usable) > LOPSIDED)
    return share


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
