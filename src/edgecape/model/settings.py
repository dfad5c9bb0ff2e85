"""Settings of the published network: one definition for API, command line and saved models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from edgecape.errors import SettingsError


@dataclass(frozen=True)
class BackboneSettings:
    """Where image features come from."""

    name: str = "facebook/dinov2-small"
    """Any feature-map backbone of `transformers`, by hub id or local folder."""
    image_size: tuple[int, int] = (224, 224)
    """Height and width of the frame in pixels."""
    layers: tuple[int, ...] = (-1,)
    """Feature layers, counted as `transformers` counts stages (-1 is the last); several are concatenated."""
    trainable: bool = False
    """Fine-tune it with the head (SwinV2 in earlier work)."""

    def __post_init__(self) -> None:
        if not 1 <= min(self.image_size) <= max(self.image_size) <= 4096:
            raise SettingsError(f"image_size is {self.image_size}; both sides must be in 1 to 4096 pixels")
        if not self.layers:
            raise SettingsError("the backbone needs at least one layer; -1 is the last")


@dataclass(frozen=True)
class NetworkSettings:
    """One network, three methods: `graph` none = CapeFormer-style, fixed = GraphCape-style, predicted = EdgeCape."""

    graph: Literal["none", "fixed", "predicted"] = "predicted"
    """What the decoder is told of the skeleton: nothing, the prior as it is, or the predicted weighted graph."""
    bias: Literal["off", "markov", "shortest_path"] = "markov"
    """Structural bias in the decoder's self-attention."""
    hops: int = 4
    """Highest power of Ã (or longest distance) the bias sees."""
    channels: int = 384
    """Of the backbone's feature map."""
    width: int = 256
    heads: int = 8
    ffn: int = 384
    encoder_layers: int = 3
    decoder_layers: int = 3
    predictor_layers: int = 3
    dropout: float = 0.1
    map_stride: float = 3.5
    """Pixels of the frame per cell of a support keypoint's Gaussian map."""
    residual: Literal["cosine", "mlp", "attention"] = "cosine"
    """How the predictor turns refined keypoint features into residual edges ΔA."""
    predictor_sees_image: bool = True
    """False: the predictor refines keypoints by self-attention and graph convolutions only."""
    shot_refinement: Literal["averaged", "independent"] = "averaged"
    """Each shot's refinement starts from the shot-averaged keypoint tokens (released code) or its own (paper)."""
    pad_keypoints_to: int = 0
    """Official weights were trained with K padded to 100, which leaks into the predictor; 100 reproduces it."""
    decoder_positions: bool = False
    """GraphCape: decoder self-attention adds the position embedding to queries and keys."""
    aggregate_transposed: bool = False
    """GraphCape: the graph FFN aggregates with Ãᵀ instead of Ã."""
    backbone: BackboneSettings = field(default_factory=BackboneSettings)

    def __post_init__(self) -> None:
        for name in ("channels", "width", "heads", "ffn", "decoder_layers"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.encoder_layers < 0 or self.predictor_layers < 0:
            raise SettingsError("encoder_layers and predictor_layers must be 0 or more")
        if not 0.5 <= self.map_stride <= 100 or not 0 <= self.pad_keypoints_to <= 1000:
            raise SettingsError("map_stride must be in 0.5 to 100 and pad_keypoints_to in 0 to 1000")
        if self.width % (2 * self.heads) or self.width % 4:
            raise SettingsError(f"width {self.width} must be a multiple of 4 and of 2 × heads ({2 * self.heads})")
        if self.hops < 1:
            raise SettingsError(f"hops is {self.hops}; the structural bias needs at least 1")
        if not 0 <= self.dropout < 1:
            raise SettingsError(f"dropout is {self.dropout}; it must be in [0, 1)")
