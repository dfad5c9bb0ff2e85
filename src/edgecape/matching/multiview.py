"""The one path from features to coordinates, for predictor, evaluation, validation, calibration and cost alike.

Objects face and lie different ways. A query is compared with the supports as they are and as a mirror shows them; with
quarter turns, at the turn that fits it best. Both views count, the better fit more. The mirrored query is compared too,
and averaged with the query. That is the *best* it can do, for two passes of the backbone. The *fast* way takes one
pass and one of the two upright views, the one that fits better by a coarse look; `Estimate.clear` tells whether that
look left no doubt, so that *auto* can take the best way where it did.

Several supports are not averaged: one that shows a bus from the front says little of its rear, and the mean of both
resembles neither. Each is compared on its own, the best few by the coarse look, and what they say of a keypoint is
averaged, weighted by how well a support fits the query and how sure it is.

Mirroring also swaps left and right. Where it is known which keypoints are left and right of each other, they are
relabelled, and the mirror image is a support as good as the photo. Where it is not known, keypoints that lie
symmetrically, as on a face seen from the front, are never compared in a mirror.

With a plain `Network` there is one view and no votes, supports are averaged as published, and the result is exactly
what the network itself computes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgecape.errors import SettingsError
from edgecape.matching import views
from edgecape.matching.alignment import asymmetry, linear_map
from edgecape.matching.network import MatchingNetwork, cosine, matching_of
from edgecape.matching.settings import MatchingSettings, ViewSettings, VotingSettings
from edgecape.matching.views import Picture
from edgecape.matching.voting import Votes, heatmap_of, logits_of, mean_shift_mode, vote
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
    """S supports as they look in V views, S = 1 where they are averaged; the graph is that of the object and the same
    in all of them."""

    tokens: Tensor  # (B, S, V, K, d)
    places: Tensor  # (B, S, V, K, 2), of the keypoints
    usable: Tensor  # (B, K) bool, whether any support shows a keypoint
    graph: PoseGraph
    flip_index: Tensor  # (K,): which keypoint a mirror shows in the place of each; itself if that is not known

    def expand(self, queries: int) -> SupportViews:
        """One support (B = 1) for a batch of queries, without copying."""
        tokens, places = (x.expand(queries, -1, -1, -1, -1) for x in (self.tokens, self.places))
        return SupportViews(
            tokens, places, self.usable.expand(queries, -1), self.graph.expand(queries), self.flip_index
        )

    def first(self, views: int) -> SupportViews:
        return self._replace(tokens=self.tokens[:, :, :views], places=self.places[:, :, :views])

    def at(self, support: Tensor, view: Tensor) -> SupportEncoding:
        """For each of B queries, M supports (B, M) in a view (B, M) of each: a batch of B · M."""
        B, M = support.shape
        rows = torch.arange(B, device=view.device)[:, None]
        tokens = self.tokens[rows, support, view].flatten(0, 1)
        usable, *graph = (_repeated(x, M) for x in (self.usable, *self.graph))
        return SupportEncoding(tokens, usable, PoseGraph(*graph), self.places_at(support, view))

    def places_at(self, support: Tensor, view: Tensor) -> Tensor:
        """Where the keypoints are there: (B · M, K, 2)."""
        rows = torch.arange(support.shape[0], device=view.device)[:, None]
        return self.places[rows, support, view].flatten(0, 1)


class Compared(NamedTuple):
    """Queries beside the supports and views chosen for them. The graph has had no say yet."""

    supports: Tensor  # (B, M), the best first
    views: tuple[Tensor, ...]  # (B, M) each: the best turn as it is and mirrored; or only the best view
    matched: tuple[Matched, ...]  # one for each of these views, of B · M
    clear: Tensor  # (B,) bool: a coarse look left no doubt which view fits


class Rereadings(NamedTuple):
    """Of our decoder."""

    coordinates: Tensor  # (B, layers, K, 2)
    heatmap: Tensor  # (B, K, h, w), the final one
    own: Tensor  # (B, K, h, w), before it was averaged with the votes


class Seen(NamedTuple):
    """Queries beside the supports, once views are settled."""

    matched: Matched
    votes: Votes
    places: Tensor  # (B, K, 2), of the keypoints in the supports, as the view that counts shows them
    reread: Rereadings | None = None  # what our decoder makes of it


class Estimate(NamedTuple):
    output: Output
    votes: Votes | None  # None for a network as published
    clear: Tensor  # (B,) bool, of `Compared`
    reread: Rereadings | None = None  # of our decoder, if there is one


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
        self.apart = settings.voting.rounds > 0  # votes tell how well a support fits

    # --- support side ------------------------------------------------------------------------------------

    def encode(self, shots: Shots, visible: Tensor, prior: Tensor, flip_index: Tensor | None = None) -> SupportViews:
        """shots: all of `self.pictures` of each support; visible (B, S, K) bool; prior (B, K, K)."""
        features, coordinates = (x.transpose(1, 2) for x in shots)  # (B, S, P, …)
        picture_of = self._picture_of.to(prior.device)
        seen = views.shown(coordinates[:, :, picture_of[0]], visible)
        found, graph = [], None
        for pictures in picture_of:  # of a view, in all sizes
            *one, graph = self.encode_view(features[:, :, pictures], coordinates[:, :, pictures], seen, prior, graph)
            found.append(one)
        tokens, places = (torch.stack(parts, dim=2) for parts in zip(*found, strict=True))
        itself = torch.arange(prior.shape[-1], device=prior.device)
        assert graph is not None
        return SupportViews(tokens, places, visible.any(dim=1), graph, itself if flip_index is None else flip_index)

    def encode_view(
        self, features: Tensor, places: Tensor, seen: Tensor, prior: Tensor, graph: PoseGraph | None = None
    ) -> tuple[Tensor, Tensor, PoseGraph]:
        """One view of crops of L sizes of S supports: features (B, S, L, C, h, w), places (B, S, L, K, 2), seen
        (B, S, L, K). graph: if another view has told it. Tokens (B, S, K, d) and places (B, S, K, 2); S = 1 where
        supports are averaged."""
        if graph is None or not self.apart:
            together = [x.flatten(1, 2) for x in (features, seen, places)]
            encoded, where = self._encode(prior, graph, *together)
            graph = encoded.graph
            if not self.apart:
                return encoded.tokens[:, None], where[:, None], graph
        S, each = seen.shape[1], [x.flatten(0, 1) for x in (features, seen, places)]
        matrices = PoseGraph(*(_repeated(matrix, S) for matrix in graph))
        encoded, where = self._encode(_repeated(prior, S), matrices, *each)
        tokens, where = (x.unflatten(0, (-1, S)) for x in (encoded.tokens, where))
        return *self.complete(tokens, where, seen.any(dim=2)), graph

    def complete(self, tokens: Tensor, places: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """What a support does not show (seen (B, S, K)), from those that show it: its tokens (B, S, K, d) on average,
        its places (B, S, K, 2) as keypoints that both show lie in both."""
        S, shown = seen.shape[1], seen.to(places.dtype)
        there = places[:, None].expand(-1, S, -1, -1, -1)  # (B, S, S, K, 2), of each support beside each
        here, shared = places[:, :, None].expand(-1, -1, S, -1, -1), shown[:, None] * shown[:, :, None]
        there, here, shared = (x.flatten(0, 2) for x in (there, here, shared))
        linear, from_centre, to_centre = linear_map(there, here, shared, self.settings.voting.ridge)
        mapped = ((there - from_centre) @ linear + to_centre).unflatten(0, (-1, S, S))
        weight = shown[..., None] / shown.sum(dim=1, keepdim=True).clamp(min=1)[..., None]  # (B, S, K, 1)
        mean_place, mean_token = (weight[:, None] * mapped).sum(dim=2), (weight * tokens).sum(dim=1, keepdim=True)
        return _where(seen, tokens, mean_token.expand_as(tokens)), _where(seen, places, mean_place)

    def _encode(
        self, prior: Tensor, graph: PoseGraph | None, features: Tensor, seen: Tensor, places: Tensor
    ) -> tuple[SupportEncoding, Tensor]:
        """Crops that are averaged: features (B, n, C, h, w), seen (B, n, K), places (B, n, K, 2)."""
        encoded = self.network.encode_support(features, seen, prior, places, graph=graph)
        return encoded, mean_over_shots(places, seen)

    # --- query side --------------------------------------------------------------------------------------

    def forward(self, query: Tensor, support: SupportViews, fast: bool = False) -> Estimate:
        """query (B, R, C, h, w): features of each query in `self.query_views`; in the first of them, if fast."""
        return self.settle(self.compare(query, support, fast), support)

    def compare(self, query: Tensor, support: SupportViews, fast: bool = False) -> Compared:
        """All that does not depend on the graph."""
        if fast:
            query, support = query[:, :1], support.first(UPRIGHT_VIEWS)
        cells = self.network.query_cells(query.flatten(0, 1)).unflatten(0, query.shape[:2])  # (B, R, d, h, w)
        supports, best, clear = self.coarse_views(cells, support, fast)
        beside = _repeated(cells, supports.shape[1])
        if fast or len(self.views) == 1:
            matched = self.network.match(beside[:, 0], support.at(supports, best))
            return Compared(supports, (best,), (matched,), clear)
        chosen = (best & ~1, best | 1)
        both = [support.at(supports, view) for view in chosen]
        # The query beside both views, then the mirrored query, which resembles the other view, the other way round.
        pairs = [(picture, one) for r, picture in enumerate(beside.unbind(dim=1)) for one in (both, both[::-1])[r]]
        pictures, tokens = (torch.cat(parts) for parts in zip(*((c, one.tokens) for c, one in pairs), strict=True))
        usable, graph = both[0].usable.repeat(len(pairs), 1), support.graph  # match does not look at the graph
        every = self.network.match(pictures, SupportEncoding(tokens, usable, graph))
        image, keypoints, similarity = (_apart(x, len(pairs)) for x in (*every[:2], every.proposals.similarity))
        if len(pairs) == 4:
            similarity = tuple(_averaged(similarity[v], similarity[v + 2]) for v in (0, 1))
        matches = tuple(Matched(image[v], keypoints[v], locate(similarity[v])) for v in (0, 1))
        return Compared(supports, chosen, matches, clear)

    def coarse_views(self, cells: Tensor, support: SupportViews, fast: bool) -> tuple[Tensor, Tensor, Tensor]:
        """The supports that fit best (B, M) and the view (B, M) in which each does; and whether it is clear (B,) in
        which the first does: it fits well, and better than mirrored."""
        look, fit = self.settings.views, self.coarse_fit(cells, support)  # (B, S, V)
        fits, best = fit.max(dim=2)
        order = fits.argsort(dim=1, descending=True)[:, : look.supports[0 if fast else 1]]
        best = best.gather(1, order)
        if fit.shape[2] == 1:
            return order, best, torch.ones_like(order[:, 0], dtype=torch.bool)
        rows = torch.arange(order.shape[0], device=order.device)
        well, mirrored = (fit[rows, order[:, 0], view] for view in (best[:, 0], best[:, 0] ^ 1))
        return order, best, (well - mirrored >= look.auto_margin) & (well >= look.auto_fit)

    def coarse_fit(self, cells: Tensor, support: SupportViews) -> Tensor:
        """How well each view of each support fits each query (B, S, V), by cosine similarity of the encoder's inputs;
        the graph plays no part. cells (B, R, d, h, w)."""
        B, S, V = support.tokens.shape[:3]
        if not self.apart:
            return cells.new_zeros(B, S, V)
        look = self.settings.views
        tokens, places = (x.flatten(1, 2) for x in (support.tokens, support.places))  # (B, S · V, K, …)
        similarity = cosine(tokens, cells[:, :1])  # (B, S · V, K, h, w)
        if cells.shape[1] > 1:
            partners = support.tokens[:, :, torch.arange(V, device=cells.device) ^ 1].flatten(1, 2)
            similarity = _averaged(similarity, cosine(partners, cells[:, 1:]))
        usable = _repeated(support.usable, similarity.shape[1])
        logits = self.settings.logit_scale * similarity.flatten(0, 1)
        fit = self.fit(vote(logits, places.flatten(0, 1), usable, None, self.settings.voting)).unflatten(0, (B, -1, V))
        if V == 1:
            return fit
        fit = fit.unflatten(2, (V // 2, 2))
        upright = support.places[:, :, 0::2].flatten(1, 2)  # (B, S · turns, K, 2)
        shown = _repeated(support.usable, upright.shape[1])
        allowed = self.mirror_allowed(upright.flatten(0, 1), shown, support.flip_index).unflatten(0, (B, S, V // 2))
        mirrored = (fit[..., 1] - look.mirror_margin).masked_fill(~allowed, float("-inf"))
        turned = torch.arange(V // 2, device=fit.device) > 0
        return (torch.stack((fit[..., 0], mirrored), dim=-1) - look.turn_margin * turned[:, None]).flatten(2)

    def settle(self, compared: Compared, support: SupportViews) -> Estimate:
        """What all supports and views say of where the keypoints are, and the decoder from there."""
        network, voting = self.network, self.settings.voting
        if not voting.rounds:
            encoding = support.at(compared.supports, compared.views[0])
            return Estimate(network.decode(compared.matched[0], encoding), None, compared.clear)
        if len(compared.views) == 2:
            seen = self._blend(compared, support)
        else:
            encoding = support.at(compared.supports, compared.views[0])
            matched, places = compared.matched[0], support.places_at(compared.supports, compared.views[0])
            A = encoding.graph.normalised
            seen = Seen(matched, vote(matched.proposals.similarity, places, encoding.usable, A, voting), places)
            if len(self.views) > 1:
                seen = self._relabel_mirrored(compared.views[0].flatten(), seen, encoding.usable, support.flip_index)
        number = compared.supports.shape[1]
        if isinstance(network, MatchingNetwork) and network.rereads:
            seen = self._reread(seen, support, number)
        matched, votes, places, reread = self._together(seen, number)
        if reread is not None:
            output = Output(reread.coordinates.transpose(0, 1), matched.proposals, support.usable, support.graph)
            return Estimate(output, votes, compared.clear, reread)
        first = support.at(compared.supports[:, :1], compared.views[0][:, :1])._replace(places=places)
        return Estimate(
            network.decode(matched, first, mean_shift_mode(votes.heatmap, voting.near)), votes, compared.clear
        )

    def _reread(self, seen: Seen, support: SupportViews, supports: int) -> Seen:
        """What our decoder makes of each of M supports on its own (B · M)."""
        network = self.network
        assert isinstance(network, MatchingNetwork)
        usable, *graph = (_repeated(x, supports) for x in (support.usable, *support.graph))
        beside = SupportEncoding(seen.matched.keypoints, usable, PoseGraph(*graph), seen.places)
        start = mean_shift_mode(seen.votes.heatmap, self.settings.voting.near)
        found = network.reread(seen.matched, beside, logits_of(seen.votes.heatmap), start)
        heatmaps = (heatmap_of(found.final), heatmap_of(found.logits[-1]))
        return seen._replace(reread=Rereadings(found.coordinates.transpose(0, 1), *heatmaps))

    def _together(self, seen: Seen, supports: int) -> Seen:
        """What M supports say (B · M) → (B): for each keypoint the mean of their votes, weighted by how well a support
        fits and how sure it is; all else as the support that fits best shows it."""
        fit = self.fit(seen.votes).unflatten(0, (-1, supports))  # (B, M)
        best = torch.arange(fit.shape[0], device=fit.device) * supports + fit.argmax(dim=1)
        voted, heatmap = (x.unflatten(0, (-1, supports)) for x in seen.votes[:2])
        sure = heatmap.amax(dim=(-2, -1)).clamp(min=1e-12).log()  # (B, M, K)
        weight = (fit[..., None] / self.settings.views.support_softness + sure).softmax(dim=1)

        def mean(heatmaps: Tensor) -> Tensor:
            return (weight[..., None, None] * heatmaps.unflatten(0, (-1, supports))).sum(dim=1)

        votes = Votes(
            voted=(weight[..., None] * voted).sum(dim=1),
            heatmap=mean(seen.votes.heatmap),
            fit=seen.votes.fit[best],
        )
        image, keypoints, proposals = seen.matched
        matched = Matched(image[best], keypoints[best], Proposals(*(values[best] for values in proposals)))
        reread = seen.reread
        if reread is not None:
            final, own = mean(reread.heatmap), mean(reread.own)
            last = mean_shift_mode(final, self.settings.voting.near)[:, None]
            reread = Rereadings(torch.cat((reread.coordinates[best][:, :-1], last), dim=1), final, own)
        return Seen(matched, votes, seen.places[best], reread)

    def _relabel_mirrored(self, view: Tensor, seen: Seen, usable: Tensor, flip: Tensor) -> Seen:
        """Swaps left and right where a query is seen beside a mirrored view and the supports show both."""
        swap = (view % 2 == 1)[:, None] & usable[:, flip]  # (B, K)
        matched, votes, places, _ = seen
        swapped = _relabelled(seen, flip)
        matched = matched._replace(
            keypoints=_where(swap, swapped.matched.keypoints, matched.keypoints),
            proposals=_choose(swap, swapped.matched.proposals, matched.proposals),
        )
        voted, heatmap = (_where(swap, a, b) for a, b in zip(swapped.votes[:2], votes[:2], strict=True))
        return Seen(matched, Votes(voted, heatmap, votes.fit), _where(swap, swapped.places, places))

    def _blend(self, compared: Compared, support: SupportViews) -> Seen:
        """One of two views for each keypoint, and the mean of both their votes, weighted by how well they fit."""
        number = compared.supports.shape[1]
        A, usable = (_repeated(x, number) for x in (support.graph.normalised, support.usable))
        places = torch.cat([support.places_at(compared.supports, view) for view in compared.views])
        similarity = torch.cat([matched.proposals.similarity for matched in compared.matched])
        both = vote(similarity, places, usable.repeat(2, 1), A.repeat(2, 1, 1), self.settings.voting)
        votes, mirrored_votes = (Votes(*parts) for parts in zip(*(_apart(x, 2) for x in both), strict=True))
        matched, mirrored = compared.matched
        places, mirrored_places = _apart(places, 2)
        weight = self.mirror_weight(votes, mirrored_votes, places, usable, support.flip_index)  # (B,)
        wins = weight > 0.5
        mirrored, mirrored_votes, mirrored_places, _ = _relabelled(
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

    def mirror_weight(self, votes: Votes, mirrored: Votes, places: Tensor, usable: Tensor, flip: Tensor) -> Tensor:
        """How much the mirrored view counts: (B,), between 0 and 1."""
        look = self.settings.views
        better = self.fit(mirrored) - self.fit(votes) - look.mirror_margin
        return torch.sigmoid(better / look.mirror_softness) * self.mirror_allowed(places, usable, flip)

    def mirror_allowed(self, places: Tensor, usable: Tensor, flip: Tensor) -> Tensor:
        """Whether a mirror is of use to keypoints at places (B, K, 2): (B,) bool; not if they lie symmetrically and
        left and right are not known."""
        known = (flip != torch.arange(flip.shape[0], device=flip.device)).any()
        return known | (asymmetry(places, usable) > self.settings.views.asymmetry)


def _repeated(x: Tensor, times: int) -> Tensor:
    """Each of (B, …) so many times in a row: (B · times, …)."""
    return x[:, None].expand(-1, times, *x.shape[1:]).flatten(0, 1)


def _apart(stacked: Tensor, number: int) -> tuple[Tensor, ...]:
    """The inverse of `torch.cat` of that number of tensors (B, …)."""
    return stacked.unflatten(0, (number, -1)).unbind(0)


def _averaged(similarity: Tensor, mirrored: Tensor) -> Tensor:
    """Of a query (..., h, w) and of its mirror image, flipped back."""
    return (similarity + mirrored.flip(-1)) / 2


def _relabelled(seen: Seen, flip: Tensor) -> Seen:
    """A mirrored view with left and right swapped back."""
    matched, votes, places, _ = seen
    proposals = Proposals(*(values[:, flip] for values in matched.proposals))
    matched = matched._replace(keypoints=matched.keypoints[:, flip], proposals=proposals)
    return Seen(matched, Votes(votes.voted[:, flip], votes.heatmap[:, flip], votes.fit), places[:, flip])


def _choose(condition: Tensor, one: Proposals, other: Proposals) -> Proposals:
    """`_where`, for all of them."""
    return Proposals(*(_where(condition, a, b) for a, b in zip(one, other, strict=True)))


def _where(condition: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """`one` where the condition is true, else `other`; its dimensions are the first of theirs."""
    return torch.where(condition.reshape(condition.shape + (1,) * (one.dim() - condition.dim())), one, other)
