"""Settings of what we add to the published network. Every number that was tuned is here, is saved with a model and is
part of its fingerprint. Defaults are those of the shipped model; a released default never changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgecape.errors import SettingsError


@dataclass(frozen=True)
class LoraSettings:
    """Low-rank updates to the backbone's last blocks (lora.py)."""

    blocks: int = 0
    """How many of the last blocks in use; 0: none."""
    rank: int = 16

    def __post_init__(self) -> None:
        if self.blocks < 0 or self.rank < 1:
            raise SettingsError(f"LoRA on {self.blocks} blocks of rank {self.rank}; give 0 or more, of rank 1 or more")


@dataclass(frozen=True)
class VotingSettings:
    """Keypoints vote for each other's places (voting.py)."""

    rounds: int = 2
    """0: no votes; the decoder starts at the peaks of the similarity, as published."""
    similarity_scale: float = 1.5
    """Sharpens the softmax before voting, because training leaves it too flat."""
    sigma_range: tuple[float, float] = (0.08, 0.25)
    """Least and largest deviation of keypoints from their voted places, in frame sides."""
    ridge: float = 0.005
    """Draws the fitted map from support to query towards the identity."""
    heatmap_scale: float = 0.3
    """Flattens the heatmap, so that it is no sharper than the errors are."""
    near: tuple[float, float] = (0.1, 0.05)
    """Bandwidths of the mean shift, in frame sides: of the choice of a mode, and of its refinement."""

    def __post_init__(self) -> None:
        if not 0 <= self.rounds <= 100:
            raise SettingsError(f"voting has {self.rounds} rounds; give 0 (no votes) to 100")
        if self.ridge <= 0 or min(*self.near, *self.sigma_range, self.similarity_scale, self.heatmap_scale) <= 0:
            raise SettingsError("numbers of the voting must be above 0")


@dataclass(frozen=True)
class RereadingSettings:
    """A decoder that reads the similarity again (rereading.py), or the heatmap where there are votes, in the place of
    the published one."""

    places: bool = True
    """Tell it where the keypoints lie in the supports; without, the graph alone says which of them belong together."""
    votes: bool = True
    """Tell it at every layer where the others vote a keypoint to be (voting.py), along the graph; needs places."""
    rivals: bool = False
    """Tell it at every layer which cells other keypoints claim (voting.dual_softmax), so that two seldom share one."""
    neighbours: bool = False
    """Tell it at every layer where a keypoint's neighbours in the graph are seen, and let it look near them."""
    ridge: float = 0.005
    """Draws the fitted map from support to query, by which they vote, towards the identity."""
    reach: float = 0.12
    """How near two places are alike: the deviation of the bell that the product of their codes is, in frame sides."""
    share: float = 1.0
    """How much its logits count, beside those that it reads, where the last layer finds places. While it learns, each
    layer is judged by its own alone."""
    local_heads: int = 4
    """Heads of its cross-attention that start by looking at what is near a keypoint; fewer than there are heads."""

    def __post_init__(self) -> None:
        if self.votes and not self.places:
            raise SettingsError("votes need places: a neighbour votes by where both lie in the supports")
        if self.ridge <= 0 or self.reach <= 0:
            raise SettingsError(f"ridge is {self.ridge} and reach {self.reach}; both must be above 0")
        if not 0 <= self.share <= 1:
            raise SettingsError(f"share is {self.share}; give 0 (what it reads alone) to 1 (what it says alone)")


@dataclass(frozen=True)
class ViewSettings:
    """Supports and query in mirrors, quarter turns and crop scales (multiview.py)."""

    mirror: bool = False
    """Compare the query with the mirrored supports too; the better a view fits, the more it counts."""
    mirror_query: bool = False
    """Look at the mirrored query too and average: a second pass of the backbone per query."""
    quarter_turns: bool = False
    """Also compare with supports turned by quarters, for objects that have no upright direction."""
    scales: tuple[float, ...] = (1.0,)
    """Crop sizes at which each support is seen, relative to the usual one; what is seen is averaged."""
    fit_weights: tuple[float, float, float] = (1.0, -1.0, -1.0)
    """How much likelihood, log of the deviation, and distortion say of how well a view fits."""
    mirror_margin: float = 1.5
    """How much better a mirrored view has to fit to count as much as the other."""
    mirror_softness: float = 2.0
    """… and how much more for the odds to grow e-fold."""
    turn_margin: float = 3.0
    """How much better turned supports have to fit to be chosen."""
    auto_margin: float = 1.25
    """At effort "auto", a query that one view fits better than its mirror image by less is looked at again …"""
    auto_fit: float = 17.5
    """… and so is one that no upright view fits better than this."""
    supports: tuple[int, int] = (2, 5)
    """How many of the supports, those that fit best by a coarse look, are compared with a query, each on its own: at
    effort "fast", and at "best"."""
    support_softness: float = 4.0
    """How much better one of them has to fit for its say to grow e-fold."""
    asymmetry: float = 0.3
    """Keypoints that lie more symmetrically than this, with left and right unknown, are not compared in a mirror."""

    def __post_init__(self) -> None:
        if self.mirror_query and not self.mirror:
            raise SettingsError("mirror_query needs mirror: a mirrored query is compared with mirrored supports")
        if self.quarter_turns and not self.mirror:
            raise SettingsError("quarter_turns needs mirror: supports are turned with their mirror images")
        if min(self.supports) < 1:
            raise SettingsError(f"supports is {self.supports}; at least one is compared with a query")
        if not self.scales or not 0.1 <= min(self.scales) <= max(self.scales) <= 10:
            raise SettingsError(f"scales is {self.scales}; give one or more crop sizes in 0.1 to 10, usual is 1")


@dataclass(frozen=True)
class MatchingSettings:
    """What we add to the published network; None in its place is the published network itself."""

    centre: bool = True
    """Remove each image's mean feature, and smooth the query's cells as pooling smooths the support's."""
    layout: bool = True
    """A keypoint's token also says where the keypoint is in the support."""
    direct_cosine: bool = True
    """Add the cosine of the encoder's inputs to the similarity, so that training adds to feature matching."""
    logit_scale: float = 20.0
    """Similarity of a perfect match: at the matching start, for the choice of a turn, in whitened matching."""
    lora: LoraSettings = field(default_factory=LoraSettings)
    voting: VotingSettings = field(default_factory=VotingSettings)
    views: ViewSettings = field(default_factory=ViewSettings)
    rereading: RereadingSettings | None = None
    """None: the published decoder."""
    log_linear_edges: bool = False
    """Predict edge weights as factors on the drawn skeleton and a faint edge between all pairs (edges.py); else as
    published."""

    def __post_init__(self) -> None:
        if self.views.mirror and not self.voting.rounds:
            raise SettingsError("mirrored views need voting, which tells which of two views fits better")
