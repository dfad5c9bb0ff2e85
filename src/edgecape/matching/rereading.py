"""A decoder that reads the similarity again: keypoints look at each other along the graph and at the image, as in the
published decoder, and then *choose* among the places that matching left open instead of moving away from one of them.

    e     = waves(point), v = waves(voted)                           where it is, and where the others vote it to be
    n     = Ã · mean of waves by the heatmap so far                  where its neighbours in the graph are seen
    x     = x + inject([e ; v ; n])                                  the stream knows all of them
    x     = layer(x, e + position_mlp(e), image, cells, Ã)           a layer of the published decoder
    logit = a · similarity + r · rivals + (q · [image ; cells] + (g v + h n) · cells) / √d    q, g, h from x, 0 at first
    point = place of softmax(logit)                                  where the next layer looks

What is read is the similarity, or, where there are votes (voting.py), the logarithm of the heatmap that they leave;
the place is found as it would be without this decoder. Rivals are the other keypoints: a cell that they claim is less
likely this one's. At the start (a = 1, r = 0) every layer repeats what it reads; what is learned can only choose
differently. The last layer's logits may be averaged with those that it reads (`share`): it then finds keypoints that
are covered, and leaves alone what is seen clearly. The parts of it that know nothing of the graph are the same whatever
the graph is.

Places are told by waves of our own. The published ones are at most one period per frame: two places a cell apart differ
by less than a hundredth of their norm, and no product of them has a peak. Products of these are bell-shaped.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgecape.errors import SettingsError
from edgecape.matching.settings import RereadingSettings
from edgecape.matching.voting import from_neighbours, heatmap_of, mean_shift_mode, whose_cell, within_two_hops
from edgecape.model.attention import PositionedCrossAttention
from edgecape.model.decoder import DecoderLayer, bias_structure
from edgecape.model.linear import Linear, silence
from edgecape.model.pose_graph import PoseGraph
from edgecape.model.proposals import cell_centres, locate
from edgecape.model.settings import NetworkSettings

LOCAL = 8.0  # how much more a local head looks at its point than elsewhere, at the start, in logits


class Reread(NamedTuple):
    coordinates: Tensor  # (layers, B, K, 2), places of the logits of every layer; the last of the final ones
    logits: Tensor  # (layers, B, K, h, w), what each layer says by itself
    final: Tensor  # (B, K, h, w), those of the last one, averaged with what was read


@torch.no_grad()
def start_local(cross: PositionedCrossAttention, number: int, power: Tensor) -> None:
    """The first `number` heads start by looking at what is near the query's position, whatever it shows. power: of each
    channel of the waves."""
    attention = cross.attention
    width = len(power)  # of content, and of position
    rows = 2 * width // attention.heads  # of a head: it sees the slowest waves
    gain = (LOCAL * rows**0.5 / power[:rows].sum()).sqrt()
    for head in range(number):
        for projection in (attention.q_proj, attention.k_proj):
            mine = projection.weight[head * rows : (head + 1) * rows]
            mine.zero_()
            mine[:, width : width + rows] = gain * torch.eye(rows)


class Waves(nn.Module):
    """Places (..., 2) in [0, 1] → (..., width): cosines and sines of the lowest frequencies of a frame of twice the
    size, so that opposite borders stay apart; weighted so that the product of two places is a bell of deviation
    `reach`, and of the norm that a layer norm gives, √width."""

    def __init__(self, width: int, reach: float):
        super().__init__()
        highest = math.ceil(width**0.5)
        half_plane = [(x, y) for x in range(highest + 1) for y in range(-highest, highest + 1) if x > 0 or y >= 0]
        lowest = sorted(half_plane, key=lambda wave: (wave[0] ** 2 + wave[1] ** 2, wave))[: width // 2]
        frequency = torch.tensor(lowest, dtype=torch.float32) * math.pi  # (width / 2, 2)
        power = torch.exp(-(frequency * reach).square().sum(dim=-1) / 2)
        power = power * width / power.sum()
        self.frequency: Tensor
        self.amplitude: Tensor
        self.register_buffer("frequency", frequency, persistent=False)
        self.register_buffer("amplitude", power.sqrt(), persistent=False)

    def forward(self, places: Tensor) -> Tensor:
        phase = (places[..., None, :] * self.frequency).sum(dim=-1)  # no product of matrices: those may be rounded
        return (torch.stack((phase.cos(), phase.sin()), dim=-1) * self.amplitude[:, None]).flatten(-2)

    def power(self) -> Tensor:
        """Of each channel, on average."""
        return (self.amplitude.square() / 2).repeat_interleave(2)


class RereadingLayer(DecoderLayer):
    """A layer of the published decoder, and what the logits are read with after it."""

    def __init__(self, settings: NetworkSettings, rereading: RereadingSettings, power: Tensor):
        super().__init__(settings)
        width = settings.width
        start_local(self.to_image, rereading.local_heads, power)
        self.inject = Linear(width, width)
        self.inject_voted = Linear(width, width) if rereading.votes else None
        self.heed = Linear(width, 1) if rereading.votes else None  # the votes; not at all at the start
        self.inject_near = Linear(width, width) if rereading.neighbours else None
        self.heed_near = Linear(width, 1) if rereading.neighbours else None
        self.norm = nn.LayerNorm(width)
        self.read = Linear(width, 2 * width)
        for layer in (self.heed, self.heed_near, self.read):
            if layer is not None:
                silence(layer)
        self.trust = nn.Parameter(torch.ones(()))  # in the similarity
        self.yielding = nn.Parameter(torch.zeros(())) if rereading.rivals else None  # to rivals

    def reread(
        self,
        x: Tensor,
        image: Tensor,
        cells: Tensor,
        similarity: Tensor,
        known: Tensor,
        voted: Tensor | None,
        near: Tensor | None,
        usable: Tensor,
    ) -> Tensor:
        """x (B, K, d), image (B, hw, d), cells (hw, d), similarity (B, K, h, w), known (B, K, h, w), the logits so far,
        voted and near (B, K, d), waves, usable (B, K) → logits (B, K, h, w)."""
        with torch.autocast(x.device.type, enabled=False):  # logits are exact whatever the layers are computed in
            x = self.norm(x.float())
            of_content, of_position = self.read(x).chunk(2, dim=-1)
            if self.heed is not None and voted is not None:
                of_position = of_position + self.heed(x) * voted
            if self.heed_near is not None and near is not None:
                of_position = of_position + self.heed_near(x) * near
            added = torch.baddbmm(of_position @ cells.T, of_content, image.transpose(1, 2))
            logits = self.trust * similarity + (added / image.shape[-1] ** 0.5).view_as(similarity)
            return logits if self.yielding is None else logits + self.yielding * whose_cell(known, usable)


class RereadingDecoder(nn.Module):
    def __init__(
        self, settings: NetworkSettings, rereading: RereadingSettings, near: tuple[float, float] | None = None
    ):
        """near: bandwidths of the mean shift that finds a place, as after votes; None: it is at the peak."""
        super().__init__()
        if not 0 <= rereading.local_heads < settings.heads:
            raise SettingsError(
                f"local_heads is {rereading.local_heads}; give 0 to {settings.heads - 1}, of {settings.heads} heads"
            )
        self.settings, self.rereading, self.near = settings, rereading, near
        width = settings.width
        self.waves = Waves(width, rereading.reach)
        power = self.waves.power()
        self.layers = nn.ModuleList(RereadingLayer(settings, rereading, power) for _ in range(settings.decoder_layers))
        self.position_mlp = nn.Sequential(Linear(width, width), nn.GELU(), Linear(width, width))
        self.place_mlp = (
            nn.Sequential(Linear(width, width), nn.GELU(), Linear(width, width)) if rereading.places else None
        )
        silence(self.position_mlp[-1])  # type: ignore[arg-type]

    def place(self, logits: Tensor) -> Tensor:
        """Logits (B, K, h, w) → (B, K, 2)."""
        if self.near is None:
            return locate(logits).peak
        return mean_shift_mode(heatmap_of(logits), self.near)

    def votes(self, logits: Tensor, places: Tensor, usable: Tensor, A_norm: Tensor) -> Tensor:
        """Where the others vote each keypoint to be (B, K, 2), by what they look like so far: logits (B, K, h, w).
        Gradients reach the graph."""
        confidence = logits.flatten(2).softmax(dim=-1).amax(dim=-1).square() * usable  # of those that are sure
        with torch.autocast(logits.device.type, enabled=False):  # places are exact too
            votes = within_two_hops(A_norm.float())
            return from_neighbours(places, self.place(logits), confidence, votes, self.rereading.ridge)

    def forward(
        self,
        keypoints: Tensor,
        image: Tensor,
        similarity: Tensor,
        start: Tensor,
        places: Tensor | None,
        usable: Tensor,
        pose_graph: PoseGraph,
    ) -> Reread:
        """keypoints (B, K, d), image (B, hw, d), similarity (B, K, h, w), logits to read, start (B, K, 2), places
        (B, K, 2) of the keypoints in the supports, usable (B, K)."""
        structure = bias_structure(pose_graph, self.settings)
        cells = self.waves(cell_centres(similarity.shape[-2], similarity.shape[-1], similarity.device))
        x, point = keypoints, start.detach()
        if self.place_mlp is not None:
            if places is None:
                raise ValueError("a decoder that is told the places of keypoints in the supports needs them")
            x = x + self.place_mlp(self.waves(places))
        coordinates: list[Tensor] = []
        logits: list[Tensor] = []
        for layer in self.layers:
            assert isinstance(layer, RereadingLayer)
            here, voted, near = self.waves(point), None, None
            known = (logits[-1] if logits else similarity).detach()
            x = x + layer.inject(here)
            if layer.inject_voted is not None and places is not None:
                voted = self.waves(self.votes(known, places, usable, pose_graph.normalised))
                x = x + layer.inject_voted(voted)
            if layer.inject_near is not None:
                near = seen_near(known, cells, pose_graph.normalised)
                x = x + layer.inject_near(near)
            x = layer(x, here + self.position_mlp(here), image, cells, usable, pose_graph.normalised, structure)
            logits.append(layer.reread(x, image, cells, similarity, known, voted, near, usable))
            coordinates.append(self.place(logits[-1]))
            point = coordinates[-1].detach()
        final = logits[-1]
        if self.rereading.share < 1 and not self.training:
            final = torch.lerp(similarity, final, self.rereading.share)
            coordinates[-1] = self.place(final)
        return Reread(torch.stack(coordinates), torch.stack(logits), final)


def seen_near(logits: Tensor, cells: Tensor, A_norm: Tensor) -> Tensor:
    """Where the neighbours of each keypoint are seen, as waves (B, K, d): the mean of cells (hw, d) by the heatmaps of
    logits (B, K, h, w), so that a neighbour that may be anywhere says little. Gradients reach the graph."""
    with torch.autocast(logits.device.type, enabled=False):
        return A_norm.float() @ (logits.flatten(2).softmax(dim=-1) @ cells)
