"""The supports as they are and as a mirror shows them (ours; not in the paper).

A bird that looks left has its keypoints the other way round than one that looks right. Where supports and query face
different ways, features of the same part differ and the layout misleads; seen in a mirror, the supports fit. So a query
is compared with both, and the better fit counts. It costs a second pass of the head: the backbone sees a query once,
or twice if the settings want it (`mirror_query`): the mirrored query then has a say too, in where each keypoint is and
in which of the two fits better.

A mirror also swaps left and right. That does not matter between a left and a right profile, which have no paired parts
in common, but on a face seen from the front it does: keypoints that lie symmetrically are never looked for in a mirror,
and with others the mirror image has to fit clearly better to be believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from edgecape.model.consistency import faces_away
from edgecape.model.proposals import locate

if TYPE_CHECKING:
    from edgecape.model.network import Matched, Network, Output, SupportEncoding

FIT = (1.0, -1.0, -1.0)  # how much likelihood, log of the spread, and distortion say
MARGIN = 0.75  # how much better a mirror image has to fit
LOPSIDED = 0.3  # how far from symmetric keypoints have to lie, relative to their extent, for a mirror to be of use


class Shots(NamedTuple):
    """The supports of a batch of episodes."""

    features: Tensor  # (B, S, C, h, w)
    coordinates: Tensor  # (B, S, K, 2), of the keypoints, in [0, 1]


def encode_aspects(
    network: Network, shots: Shots, mirrored: Shots | None, visible: Tensor, prior: Tensor
) -> tuple[SupportEncoding, ...]:
    """The supports, and for networks that want it their mirror images: what `localise_best` chooses from.

    visible (B, S or 1, K); prior (B, K, K). Several supports are first turned to face the way the first one does.
    """
    inside = ((shots.coordinates >= 0) & (shots.coordinates <= 1)).all(dim=-1)
    visible = visible & (inside | ~inside.any(dim=1, keepdim=True))  # a close look may miss what another one sees
    if mirrored is None:
        return (network.encode_support(shots.features, visible, prior, shots.coordinates),)
    first = shots.coordinates[:, :1].expand_as(shots.coordinates)
    both = visible & visible[:, :1]
    away = faces_away(*(x.flatten(0, 1) for x in (shots.coordinates, first, both))).unflatten(0, visible.shape[:2])

    def turned(a: Shots, b: Shots) -> Shots:
        return Shots(
            torch.where(away[:, :, None, None, None], b.features, a.features),
            torch.where(away[:, :, None, None], b.coordinates, a.coordinates),
        )

    one, other = turned(shots, mirrored), turned(mirrored, shots)
    plain = network.encode_support(one.features, visible, prior, one.coordinates)
    # the same object, and so the same graph
    mirror_image = network.encode_support(other.features, visible, prior, other.coordinates, graph=plain.graph)
    return plain, mirror_image


def localise_best(
    network: Network, query: Tensor, aspects: tuple[SupportEncoding, ...], mirrored: Tensor | None = None
) -> Output:
    """query (B, C, h, w), aspects of B supports each → for each query the output of the aspect that fits best.

    mirrored (B, C, h, w): the queries as a mirror shows them, for networks that want it.
    """
    return settle_best(network, compare(network, query, aspects, mirrored), aspects)


def compare(
    network: Network, query: Tensor, aspects: tuple[SupportEncoding, ...], mirrored: Tensor | None = None
) -> list[Matched]:
    """The queries beside each aspect of the supports."""
    matched = [network.match(query, support) for support in aspects]
    if mirrored is None:
        return matched
    others = [network.match(mirrored, support) for support in reversed(aspects)]  # it resembles the other aspect
    return [_seen_twice(one, other) for one, other in zip(matched, others, strict=True)]


def settle_best(network: Network, matched: list[Matched], aspects: tuple[SupportEncoding, ...]) -> Output:
    """For each query the output of the aspect that fits best."""
    outputs = [network.settle(one, support) for one, support in zip(matched, aspects, strict=True)]
    if len(outputs) == 1:
        return outputs[0]
    plain, mirror_image = outputs
    turned = mirror_image_fits(plain, mirror_image) & (lopsided(aspects[0].places, aspects[0].usable) > LOPSIDED)
    return _choose(turned, mirror_image, plain)


def _seen_twice(one: Matched, other: Matched) -> Matched:
    """What one view says, with the similarity of both averaged; the other view is mirrored."""
    similarity = (one.proposals.similarity + other.proposals.similarity.flip(-1)) / 2
    return one._replace(proposals=locate(similarity))


def mirror_image_fits(plain: Output, mirror_image: Output) -> Tensor:
    """Whether a query fits the supports' mirror image better than the supports: (B,) bool."""
    assert plain.agreement is not None
    assert mirror_image.agreement is not None
    better = mirror_image.agreement.fit - plain.agreement.fit
    return better @ better.new_tensor(FIT) > MARGIN


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


def _choose(first: Tensor, one: Output, other: Output) -> Output:
    """Sample by sample, `one` where `first` (B,) is true, else `other`; the batch is the dimension before the keypoints
    or the first."""

    def pick(a: Tensor, b: Tensor, batch: int = 0) -> Tensor:
        shape = [1] * a.dim()
        shape[batch] = -1
        return torch.where(first.view(shape), a, b)

    assert one.agreement is not None
    assert other.agreement is not None
    return other._replace(
        coordinates=pick(one.coordinates, other.coordinates, batch=1),
        proposals=type(one.proposals)(*map(pick, one.proposals, other.proposals)),
        agreement=type(one.agreement)(*map(pick, one.agreement, other.agreement)),
    )
