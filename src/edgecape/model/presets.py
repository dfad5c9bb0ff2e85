"""The methods of the family by name, and the released weights of two of them: settings of one network, never forks."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from edgecape.errors import SettingsError
from edgecape.model.settings import BackboneSettings, NetworkSettings

SWINV2_TINY = "microsoft/swinv2-tiny-patch4-window8-256"


@dataclass(frozen=True)
class Preset:
    """What makes a method, beside sizes and lengths, which all of them share."""

    about: str
    graph: Literal["none", "fixed", "predicted"] = "none"
    bias: Literal["off", "markov", "shortest_path"] = "off"
    network: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the network."""
    graph_loss: Literal["off", "masked", "gcn"] = "masked"
    """How a predicted graph is supervised."""
    decodes: bool = True
    """False: keypoints are where the similarity has its peak; only the matching learns."""
    between: float = 0.0
    """Share of the edges of a training episode that get a new keypoint between their ends."""
    left_out: str = ""
    """What the published method of that name has and this one has not."""

    def settings(self, sizes: NetworkSettings | None = None) -> NetworkSettings:
        return replace(sizes or NetworkSettings(), graph=self.graph, bias=self.bias, **self.network)


PRESETS: Mapping[str, Preset] = {
    "capeformer": Preset(
        "no graph: the decoder's graph FFN is a plain FFN",
        left_out="its own backbone, and identifiers that tell the order of keypoints",
    ),
    "graphcape": Preset(
        "graph convolutions along the skeleton as it was drawn",
        graph="fixed",
        left_out="SwinV2 and its heatmap loss; positions in self-attention and transposed aggregation",
    ),
    "graphcape-bias": Preset("the drawn skeleton, and the Markov bias along it", graph="fixed", bias="markov"),
    "edgecape-no-bias": Preset("the predicted weighted graph alone", graph="predicted"),
    "edgecape": Preset("the predicted weighted graph and the Markov bias", graph="predicted", bias="markov"),
    "graphormer-bias": Preset(
        "the predicted graph, and Graphormer's bias: a number per length of the shortest path",
        graph="predicted",
        bias="shortest_path",
        left_out="Graphormer's edge and degree encodings",
    ),
    "sdpnet": Preset(
        "a graph from keypoint features alone, supervised by an auxiliary GCN that restores hidden ones",
        graph="predicted",
        network={"predictor_sees_image": False},
        graph_loss="gcn",
        left_out="all but predictor and supervision; and there is a drawn skeleton to begin with",
    ),
    "pomnet": Preset(
        "matching without a decoder: keypoints are where the similarity has its peak",
        decodes=False,
        left_out="its own backbone and heatmap head: places are between cells of the grid of features",
    ),
    "fmmp": Preset(
        "no graph; training episodes also have new keypoints between the ends of edges",
        between=0.5,
        left_out="all but the new keypoints: the network is that of the others",
    ),
}


def preset(name: str) -> Preset:
    if name not in PRESETS:
        close = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(PRESETS)}"
        raise SettingsError(f"there is no method '{name}'; {hint}")
    return PRESETS[name]


def edgecape(phase: Literal[1, 2, 3] = 3) -> NetworkSettings:
    """The paper's phases: 1 the skeleton as it is, 2 the predicted weighted graph, 3 the Markov bias too."""
    return preset(("graphcape", "edgecape-no-bias", "edgecape")[phase - 1]).settings()


def released_edgecape(phase: Literal[1, 2, 3] = 3) -> NetworkSettings:
    """As the official weights were trained: 100 padded keypoints leak into the predictor."""
    return replace(edgecape(phase), pad_keypoints_to=0 if phase == 1 else 100)


def released_graphcape() -> NetworkSettings:
    """SwinV2-T at 256 px, and the two ways in which its decoder differs."""
    backbone = BackboneSettings(name=SWINV2_TINY, image_size=(256, 256))
    sizes = NetworkSettings(channels=768, ffn=768, map_stride=4.0, backbone=backbone)
    return replace(preset("graphcape").settings(sizes), decoder_positions=True, aggregate_transposed=True)
