"""The methods of the family as settings: what is said in prose elsewhere, to be used and compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from edgecape.model.settings import BackboneSettings, NetworkSettings

SWINV2_TINY = "microsoft/swinv2-tiny-patch4-window8-256"


def capeformer(settings: NetworkSettings | None = None) -> NetworkSettings:
    """No graph: the decoder's graph FFN is a plain FFN."""
    return replace(settings or NetworkSettings(), graph="none", bias="off")


def graphcape(settings: NetworkSettings | None = None) -> NetworkSettings:
    """Graph convolutions along the user's skeleton."""
    return replace(settings or NetworkSettings(), graph="fixed", bias="off")


def edgecape(settings: NetworkSettings | None = None, phase: Literal[1, 2, 3] = 3) -> NetworkSettings:
    """The paper's phases: 1 the skeleton as it is, 2 the predicted weighted graph, 3 the Markov bias too."""
    graph: Literal["fixed", "predicted"] = "fixed" if phase == 1 else "predicted"
    return replace(settings or NetworkSettings(), graph=graph, bias="markov" if phase == 3 else "off")


def released_edgecape(phase: Literal[1, 2, 3] = 3) -> NetworkSettings:
    """As the official weights were trained: 100 padded keypoints leak into the predictor."""
    return replace(edgecape(phase=phase), pad_keypoints_to=0 if phase == 1 else 100)


def released_graphcape() -> NetworkSettings:
    """SwinV2-T at 256 px, and the two ways in which its decoder differs."""
    backbone = BackboneSettings(name=SWINV2_TINY, image_size=(256, 256))
    differs = {"map_stride": 4.0, "decoder_positions": True, "aggregate_transposed": True}
    return graphcape(NetworkSettings(channels=768, ffn=768, backbone=backbone, **differs))  # type: ignore[arg-type]


ABLATIONS = {  # table 3 of the paper: predicted graph × Markov bias
    "fixed": graphcape(),
    "predicted": edgecape(phase=2),
    "fixed + bias": replace(edgecape(), graph="fixed"),
    "predicted + bias": edgecape(),
}
