"""The methods of the family, and the released weights of two of them, as settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from edgecape.model.settings import BackboneSettings, NetworkSettings

SWINV2_TINY = "microsoft/swinv2-tiny-patch4-window8-256"


def capeformer() -> NetworkSettings:
    """No graph: the decoder's graph FFN is a plain FFN."""
    return NetworkSettings(graph="none", bias="off")


def graphcape() -> NetworkSettings:
    """Graph convolutions along the user's skeleton."""
    return NetworkSettings(graph="fixed", bias="off")


def edgecape(phase: Literal[1, 2, 3] = 3) -> NetworkSettings:
    """The paper's phases: 1 the skeleton as it is, 2 the predicted weighted graph, 3 the Markov bias too."""
    return NetworkSettings(graph="fixed" if phase == 1 else "predicted", bias="markov" if phase == 3 else "off")


def released_edgecape(phase: Literal[1, 2, 3] = 3) -> NetworkSettings:
    """As the official weights were trained: 100 padded keypoints leak into the predictor."""
    return replace(edgecape(phase), pad_keypoints_to=0 if phase == 1 else 100)


def released_graphcape() -> NetworkSettings:
    """SwinV2-T at 256 px, and the two ways in which its decoder differs."""
    backbone = BackboneSettings(name=SWINV2_TINY, image_size=(256, 256))
    sizes = replace(graphcape(), channels=768, ffn=768, map_stride=4.0, backbone=backbone)
    return replace(sizes, decoder_positions=True, aggregate_transposed=True)
