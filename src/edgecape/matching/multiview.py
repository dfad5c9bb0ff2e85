"""The one path from features to coordinates, for predictor, evaluation, validation, calibration and cost alike.

Objects face and lie different ways. A query is compared with the supports as they are and as a mirror shows them; with
quarter turns, at the turn that fits it best. Both views count, the better fit more. The mirrored query is compared too,
and averaged with the query. That is the *best* it can do, for two passes of the backbone. The *fast* way takes one
pass and one of the two upright views, the one that fits better by a coarse look; `Estimate.clear` tells whether that
look left no doubt, so that *auto* can take the best way where it did.

Mirroring also swaps left and right. Where it is known which keypoints are left and right of each other, they are
relabelled, and the mirror image is a support as good as the photo. Where it is not known, keypoints that lie
symmetrically, as on a face seen from the front, are never compared in a mirror.

With a plain `Network` there is one view and no votes, and the result is exactly what the network itself computes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgecape.errors import SettingsError
from edgecape.matching import views
from edgecape.matching.alignment import asymmetry, view_between
from edgecape.matching.network import MatchingNetwork, cosine, matching_of
from edgecape.matching.settings import MatchingSettings, ViewSettings, VotingSettings
from edgecape.matching.views import Picture
from edgecape.matching.voting import Votes, logits_of, mean_shift_mode, vote
from edgecape.model.network import Matched, Network, Output, SupportEncoding
from edgecape.model.pose_graph import PoseGraph
from edgecape.model.proposals import Proposals, locate
from edgecape.model.tokens import mean_over_shots

UPRIGHT_VIEWS = 2  # as it is and mirrored: the first ones
PUBLISHED = MatchingSettings(False, False, False, voting=VotingSettings(rounds=0))  # one view, no votes


class Shots(NamedTuple):
    """The supports of a batch of episodes, each in P pictures."""

    features: Tensor  # (B, P, S, C, h, w)
    coordinates: Tensor  # (B, P, S, K, 2), of the keypoints, in [0, 1] of the picture


class SupportViews(NamedTuple):
    """The supports as they look in V views; the graph is that of the object and the same in all of them."""

    tokens: Tensor  # (B, V, K, d)
    places: Tensor  # (B, V, K, 2), of the keypoints, averaged over the supports
    usable: Tensor  # (B, K) bool
    graph: PoseGraph
    flip_index: Tensor  # (K,): which keypoint a mirror shows in the place of each; itself if that is not known

    def expand(self, queries: int) -> SupportViews:
        """One support (B = 1) for a batch of queries, without copying."""
        tokens, places = (x.expand(queries, -1, -1, -1) for x in (self.tokens, self.places))
        return SupportViews(
            tokens, places, self.usable.expand(queries, -1), self.graph.expand(queries), self.flip_index
        )

    def first(self, views: int) -> SupportViews:
        return self._replace(tokens=self.tokens[:, :views], places=self.places[:, :views])

    def at(self, view: Tensor) -> tuple[SupportEncoding, Tensor]:
        """The supports and their places, for each query in its view (B,)."""
        rows = torch.arange(view.shape[0], device=view.device)
        places = self.places[rows, view]
        return SupportEncoding(self.tokens[rows, view], self.usable, self.graph, places), places


class Compared(NamedTuple):
    """Queries beside the supports in the views chosen for them. The graph has had no say yet."""

    views: tuple[Tensor, ...]  # (B,) each: the best turn as it is and mirrored; or only the best view
    matched: tuple[Matched, ...]  # one for each of these views
    clear: Tensor  # (B,) bool: a coarse look left no doubt which view fits


class Seen(NamedTuple):
    """Queries beside the supports, once views are settled."""

    matched: Matched
    votes: Votes
    places: Tensor  # (B, K, 2), of the keypoints in the supports, as the view that counts shows them


class Estimate(NamedTuple):
    output: Output
    votes: Votes | None  # as the decoder leaves them; None for a network as published
    clear: Tensor  # (B,) bool, of `Compared`


class MultiView(nn.Module):
    def __init__(self, network: Network):
        super().__init__()
        self.network = network
        self.settings = settings = matching_of(network) or PUBLISHED
        look: ViewSettings = settings.views
        size = network.settings.backbone.image_size
        if look.quarter_turns and size[0] != size[1]:
            raise SettingsError(f"quarter_turns needs a square frame, not {size}")
        self.views = tuple(range(views.COUNT if look.quarter_turns else 2 if look.mirror else 1))
        self.query_views = (views.UPRIGHT, views.MIRRORED) if look.mirror_query else (views.UPRIGHT,)
        # Upright views are rendered at all scales, turned ones at the first, which then stands for all of them.
        scales = [look.scales if view < 2 else look.scales[:1] for view in self.views]
        self.pictures = tuple(
            Picture(v, scale) for v, wanted in zip(self.views, scales, strict=True) for scale in wanted
        )
        self._picture_of = torch.tensor(  # (V, L)
            [[self.pictures.index(Picture(v, s if v < 2 else look.scales[0])) for s in look.scales] for v in self.views]
        )
        self._compose = torch.from_numpy(views.COMPOSE)

    # --- support side ------------------------------------------------------------------------------------

    def encode(self, shots: Shots, visible: Tensor, prior: Tensor, flip_index: Tensor | None = None) -> SupportViews:
        """shots: all of `self.pictures` of each support; visible (B, S, K) bool; prior (B, K, K).

        The order of supports matters: the others are brought to face and lie as the first one does.
        """
        picture_of, compose = (table.to(prior.device) for table in (self._picture_of, self._compose))
        B, L, S = len(prior), picture_of.shape[1], shots.features.shape[2]
        seen, stands = self.align(shots.coordinates[:, picture_of[0]], visible)
        sample = torch.arange(B, device=prior.device)[:, None, None]
        scale, shot = torch.arange(L, device=prior.device)[:, None], torch.arange(S, device=prior.device)

        def encoding(view: int, graph: PoseGraph | None = None) -> tuple[SupportEncoding, Tensor]:
            picture = picture_of[compose[view, stands], scale]  # (B, L, S)
            features, places = (x[sample, picture, shot].flatten(1, 2) for x in shots)  # (B, L · S, …)
            return self.encode_view(features, places, seen.flatten(1, 2), prior, graph)

        first, places = encoding(views.UPRIGHT)
        others = [encoding(view, first.graph) for view in self.views[1:]]
        tokens = torch.stack([first.tokens, *(other.tokens for other, _ in others)], dim=1)
        places = torch.stack([places, *(where for _, where in others)], dim=1)
        itself = torch.arange(prior.shape[-1], device=prior.device)
        return SupportViews(tokens, places, first.usable, first.graph, itself if flip_index is None else flip_index)

    def encode_view(
        self, features: Tensor, places: Tensor, seen: Tensor, prior: Tensor, graph: PoseGraph | None = None
    ) -> tuple[SupportEncoding, Tensor]:
        """One view of all crops: features (B, L · S, C, h, w), places (B, L · S, K, 2), seen (B, L · S, K). graph: if
        another view has told it. Also where the keypoints are in it, on average (B, K, 2)."""
        return self.network.encode_support(features, seen, prior, places, graph=graph), mean_over_shots(places, seen)

    def align(self, upright: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
        """Of crops of L scales and S supports, upright (B, L, S, K, 2), visible (B, S, K): which keypoints each shows
        (B, L, S, K) bool, and the view (B, L, S) in which it lies as the first one does."""
        inside = ((upright >= 0) & (upright <= 1)).all(dim=-1)
        # A keypoint outside one crop still counts in the others.
        seen = visible[:, None] & (inside | ~inside.any(dim=(1, 2), keepdim=True))  # (B, L, S, K)
        look = self.settings.views
        if not look.mirror:
            return seen, torch.zeros(upright.shape[:3], dtype=torch.long, device=upright.device)
        first = upright[:, :1, :1].expand_as(upright)
        both = seen & seen[:, :1, :1]
        places, others, shared = (x.flatten(0, 2) for x in (upright, first, both))
        found = view_between(places, others, shared, self.settings.voting.ridge, look.quarter_turns)
        return seen, found.unflatten(0, upright.shape[:3])

    # --- query side --------------------------------------------------------------------------------------

    def forward(self, query: Tensor, support: SupportViews, fast: bool = False) -> Estimate:
        """query (B, R, C, h, w): features of each query in `self.query_views`; in the first of them, if fast."""
        return self.settle(self.compare(query, support, fast), support)

    def compare(self, query: Tensor, support: SupportViews, fast: bool = False) -> Compared:
        """All that does not depend on the graph."""
        if fast:
            query, support = query[:, :1], support.first(UPRIGHT_VIEWS)
        cells = self.network.query_cells(query.flatten(0, 1)).unflatten(0, query.shape[:2])  # (B, R, d, h, w)
        best, clear = self.coarse_view(cells, support)
        if fast or len(self.views) == 1:
            return Compared((best,), (self.network.match(cells[:, 0], support.at(best)[0]),), clear)
        chosen = (best & ~1, best | 1)
        both = [support.at(view)[0] for view in chosen]
        # The query beside both views, then the mirrored query, which resembles the other view, the other way round.
        pairs = [(picture, one) for r, picture in enumerate(cells.unbind(dim=1)) for one in (both, both[::-1])[r]]
        pictures, tokens = (torch.cat(parts) for parts in zip(*((c, one.tokens) for c, one in pairs), strict=True))
        usable, graph = support.usable.repeat(len(pairs), 1), support.graph  # match does not look at the graph
        every = self.network.match(pictures, SupportEncoding(tokens, usable, graph))
        image, keypoints, similarity = (_apart(x, len(pairs)) for x in (*every[:2], every.proposals.similarity))
        if len(pairs) == 4:
            similarity = tuple(_averaged(similarity[v], similarity[v + 2]) for v in (0, 1))
        return Compared(chosen, tuple(Matched(image[v], keypoints[v], locate(similarity[v])) for v in (0, 1)), clear)

    def coarse_view(self, cells: Tensor, support: SupportViews) -> tuple[Tensor, Tensor]:
        """The view (B,) that fits best, and whether that is clear (B,): it fits well, and better than mirrored."""
        look, fit = self.settings.views, self.coarse_fit(cells, support)  # (B, V)
        best = fit.argmax(dim=1)
        if fit.shape[1] == 1:
            return best, torch.ones_like(best, dtype=torch.bool)
        well, mirrored = (fit.gather(1, view[:, None])[:, 0] for view in (best, best ^ 1))
        return best, (well - mirrored >= look.auto_margin) & (well >= look.auto_fit)

    def coarse_fit(self, cells: Tensor, support: SupportViews) -> Tensor:
        """How well each view of the supports fits each query (B, V), by cosine similarity of the encoder's inputs; the
        graph plays no part. cells (B, R, d, h, w)."""
        B, V = support.tokens.shape[:2]
        if V == 1:
            return cells.new_zeros(B, 1)
        look = self.settings.views
        similarity = cosine(support.tokens, cells[:, :1])  # (B, V, K, h, w)
        if cells.shape[1] > 1:
            partner = torch.arange(V, device=cells.device) ^ 1
            similarity = _averaged(similarity, cosine(support.tokens[:, partner], cells[:, 1:]))
        usable = support.usable[:, None].expand(-1, V, -1).flatten(0, 1)
        logits, places = self.settings.logit_scale * similarity.flatten(0, 1), support.places.flatten(0, 1)
        fit = self.fit(vote(logits, places, usable, None, self.settings.voting)).unflatten(0, (B, V // 2, 2))
        allowed = self.mirror_allowed(support, support.places[:, 0::2])  # (B, turns)
        mirrored = (fit[..., 1] - look.mirror_margin).masked_fill(~allowed, float("-inf"))
        turned = torch.arange(V // 2, device=fit.device) > 0
        return (torch.stack((fit[..., 0], mirrored), dim=-1) - look.turn_margin * turned[:, None]).flatten(1)

    def settle(self, compared: Compared, support: SupportViews) -> Estimate:
        """What all views say of where the keypoints are, and the decoder from there."""
        network, voting = self.network, self.settings.voting
        encoding, places = support.at(compared.views[0])
        if not voting.rounds:
            return Estimate(network.decode(compared.matched[0], encoding), None, compared.clear)
        if len(compared.views) == 2:
            seen = self._blend(compared, support)
        else:
            matched = compared.matched[0]
            votes = vote(matched.proposals.similarity, places, support.usable, support.graph.normalised, voting)
            seen = Seen(matched, votes, places)
            if len(self.views) > 1:
                seen = self._relabel_mirrored(compared.views[0], seen, support)
        matched, votes, places = seen
        start = mean_shift_mode(votes.heatmap, voting.near)
        if not (isinstance(network, MatchingNetwork) and network.rereads):
            return Estimate(network.decode(matched, encoding, start), votes, compared.clear)
        found = network.reread(matched, encoding._replace(places=places), logits_of(votes.heatmap), start)
        output = Output(found.coordinates, matched.proposals, encoding.usable, encoding.graph)
        heatmap = found.logits[-1].flatten(2).softmax(dim=-1).view_as(votes.heatmap)
        return Estimate(output, votes._replace(heatmap=heatmap), compared.clear)

    def _relabel_mirrored(self, view: Tensor, seen: Seen, support: SupportViews) -> Seen:
        """Swaps left and right where a query is seen beside a mirrored view and the supports show both."""
        flip = support.flip_index
        swap = (view % 2 == 1)[:, None] & support.usable[:, flip]  # (B, K)
        matched, votes, places = seen
        swapped = _relabelled(seen, flip)
        matched = matched._replace(
            keypoints=_where(swap, swapped.matched.keypoints, matched.keypoints),
            proposals=_choose(swap, swapped.matched.proposals, matched.proposals),
        )
        voted, heatmap = (_where(swap, a, b) for a, b in zip(swapped.votes[:2], votes[:2], strict=True))
        return Seen(matched, Votes(voted, heatmap, votes.fit), _where(swap, swapped.places, places))

    def _blend(self, compared: Compared, support: SupportViews) -> Seen:
        """One of two views for each keypoint, and the mean of both their votes, weighted by how well they fit."""
        A, usable = support.graph.normalised, support.usable
        places = torch.cat([support.at(view)[1] for view in compared.views])
        similarity = torch.cat([matched.proposals.similarity for matched in compared.matched])
        both = vote(similarity, places, usable.repeat(2, 1), A.repeat(2, 1, 1), self.settings.voting)
        votes, mirrored_votes = (Votes(*parts) for parts in zip(*(_apart(x, 2) for x in both), strict=True))
        matched, mirrored = compared.matched
        places, mirrored_places = _apart(places, 2)
        weight = self.mirror_weight(votes, mirrored_votes, support, places)  # (B,)
        wins = weight > 0.5
        mirrored, mirrored_votes, mirrored_places = _relabelled(
            Seen(mirrored, mirrored_votes, mirrored_places), support.flip_index
        )
        usable = usable[:, support.flip_index]
        weight = weight[:, None] * usable  # (B, K): a mirror shows only keypoints whose partner the supports show
        chosen = weight > 0.5
        blended = Matched(
            image=_where(wins, mirrored.image, matched.image),
            keypoints=_where(chosen, mirrored.keypoints, matched.keypoints),
            proposals=_choose(chosen, mirrored.proposals, matched.proposals),
        )
        votes = Votes(
            voted=torch.lerp(votes.voted, mirrored_votes.voted, weight[..., None]),
            heatmap=torch.lerp(votes.heatmap, mirrored_votes.heatmap, weight[..., None, None]),
            fit=_where(wins, mirrored_votes.fit, votes.fit),
        )
        return Seen(blended, votes, _where(chosen, mirrored_places, places))

    # --- how well a view fits ----------------------------------------------------------------------------

    def fit(self, votes: Votes) -> Tensor:
        """One number (B,) from the three of `Votes.fit`."""
        return votes.fit @ votes.fit.new_tensor(self.settings.views.fit_weights)

    def mirror_weight(self, votes: Votes, mirrored: Votes, support: SupportViews, places: Tensor) -> Tensor:
        """How much the mirrored view counts: (B,), between 0 and 1."""
        look = self.settings.views
        better = self.fit(mirrored) - self.fit(votes) - look.mirror_margin
        allowed = self.mirror_allowed(support, places[:, None])[:, 0]
        return torch.sigmoid(better / look.mirror_softness) * allowed

    def mirror_allowed(self, support: SupportViews, places: Tensor) -> Tensor:
        """Whether a mirror is of use to keypoints at places (B, T, K, 2): (B, T) bool; not if they lie symmetrically
        and left and right are not known."""
        B, T = places.shape[:2]
        flip = support.flip_index
        known = (flip != torch.arange(flip.shape[0], device=flip.device)).any()
        usable = support.usable[:, None].expand(-1, T, -1).flatten(0, 1)
        lopsided = asymmetry(places.flatten(0, 1), usable) > self.settings.views.asymmetry
        return known | lopsided.unflatten(0, (B, T))


def _apart(stacked: Tensor, number: int) -> tuple[Tensor, ...]:
    """The inverse of `torch.cat` of that number of tensors (B, …)."""
    return stacked.unflatten(0, (number, -1)).unbind(0)


def _averaged(similarity: Tensor, mirrored: Tensor) -> Tensor:
    """Of a query (..., h, w) and of its mirror image, flipped back."""
    return (similarity + mirrored.flip(-1)) / 2


def _relabelled(seen: Seen, flip: Tensor) -> Seen:
    """A mirrored view with left and right swapped back."""
    matched, votes, places = seen
    proposals = Proposals(*(values[:, flip] for values in matched.proposals))
    matched = matched._replace(keypoints=matched.keypoints[:, flip], proposals=proposals)
    return Seen(matched, Votes(votes.voted[:, flip], votes.heatmap[:, flip], votes.fit), places[:, flip])


def _choose(condition: Tensor, one: Proposals, other: Proposals) -> Proposals:
    """`_where`, for all of them."""
    return Proposals(*(_where(condition, a, b) for a, b in zip(one, other, strict=True)))


def _where(condition: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """`one` where the condition is true, else `other`; its dimensions are the first of theirs."""
    return torch.where(condition.reshape(condition.shape + (1,) * (one.dim() - condition.dim())), one, other)
