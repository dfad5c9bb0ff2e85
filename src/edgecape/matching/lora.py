"""LoRA: low-rank updates W + BA to the linear layers of the backbone's last blocks (Hu et al., 2021).

They are less than a megabyte and saved with the head, so the backbone still comes from where it always comes from, and
everything below the updated blocks can be cached while they learn. For prediction they are folded in once.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgecape.errors import SettingsError
from edgecape.matching.settings import LoraSettings
from edgecape.model.backbone import Backbone

LINEARS = ((1, 1), (1, 1), (1, 1), (1, 1), (1, 4), (4, 1))  # of a block, in widths (in, out): q, k, v, output, MLP


class LowRank(nn.Module):
    """An update BA to the weight of a linear layer: none at the start, as B is 0."""

    def __init__(self, inputs: int, outputs: int, rank: int):
        super().__init__()
        self.down = nn.Parameter(torch.empty(rank, inputs))
        if not self.down.is_meta:  # there torch would first import its compiler, for a second and a half
            nn.init.normal_(self.down, std=inputs**-0.5)
        self.up = nn.Parameter(torch.zeros(outputs, rank))

    def forward(self) -> Tensor:
        return self.up @ self.down


class LoRA(nn.Module):
    def __init__(self, settings: LoraSettings, width: int):
        """width: of the backbone's tokens."""
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.ModuleList(LowRank(i * width, o * width, settings.rank) for i, o in LINEARS)
            for _ in range(settings.blocks)
        )

    def forward(self, backbone: Backbone, tokens: Tensor) -> Tensor:
        """Tokens below the updated blocks → features, through W + BA: for training, which needs its gradient."""
        return backbone.upper(tokens, len(self.blocks), self.weights(backbone))

    def weights(self, backbone: Backbone) -> list[dict[str, Tensor]]:
        """The linear weights of each updated block, with the update made."""
        updated = []
        for updates, block in zip(self.blocks, self._blocks_of(backbone), strict=True):
            assert isinstance(updates, nn.ModuleList)
            linears = [(name, part) for name, part in block.named_modules() if isinstance(part, nn.Linear)]
            deltas = [update() for update in updates]
            if [part.weight.shape for _, part in linears] != [delta.shape for delta in deltas]:
                raise SettingsError(
                    "LoRA does not fit this backbone's blocks; DINOv2 small, base and large can have it"
                )
            updated.append(
                {f"{name}.weight": part.weight + delta for (name, part), delta in zip(linears, deltas, strict=True)}
            )
        return updated

    @torch.no_grad()
    def fold(self, backbone: Backbone) -> Backbone:
        """A backbone with the updates made for good; all other weights are shared with the one given."""
        folded = backbone.sharing()
        for block, weights in zip(self._blocks_of(folded), self.weights(backbone), strict=True):
            for name, weight in weights.items():
                layer = block.get_submodule(name.removesuffix(".weight"))
                layer.weight = nn.Parameter(weight, requires_grad=False)
        return folded

    def _blocks_of(self, backbone: Backbone) -> list[nn.Module]:
        return list(backbone.model.encoder.layer[backbone.below(len(self.blocks)) :])
