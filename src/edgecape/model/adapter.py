"""What a head changes in the backbone it stands on (ours; not in the paper).

Features of a frozen backbone know the parts of things, but not what people mark on them. Low-rank changes to the linear
maps of the last blocks, W + B A, teach them that. They are less than a megabyte, saved with the head, so the backbone
still comes from where it always comes from, and everything below the changed blocks can still be cached.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgecape.errors import SettingsError

LINEARS = ((1, 1), (1, 1), (1, 1), (1, 1), (1, 4), (4, 1))  # of a block, in widths (in, out): q, k, v, output, MLP


class LowRank(nn.Module):
    """A change B A to the weight of a linear map."""

    def __init__(self, inputs: int, outputs: int, rank: int):
        super().__init__()
        self.down = nn.Parameter(torch.empty(rank, inputs))
        self.up = nn.Parameter(torch.empty(outputs, rank))

    def reset_parameters(self) -> None:
        """A random A and B = 0: no change yet."""
        nn.init.normal_(self.down, std=self.down.shape[1] ** -0.5)
        nn.init.zeros_(self.up)

    def forward(self) -> Tensor:
        return self.up @ self.down


class Adapter(nn.Module):
    """Changes to the last `blocks` blocks of a vision transformer of some width."""

    def __init__(self, blocks: int, width: int, rank: int):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.ModuleList(LowRank(i * width, o * width, rank) for i, o in LINEARS) for _ in range(blocks)
        )

    def reset_parameters(self) -> None:
        for change in self.modules():
            if isinstance(change, LowRank):
                change.reset_parameters()

    def changed(self, number: int, block: nn.Module) -> dict[str, Tensor]:
        """The weights of adapted block `number`, which is `block` in the backbone, with the changes made."""
        changes = self.blocks[number]
        assert isinstance(changes, nn.ModuleList)
        linears = [(name, part) for name, part in block.named_modules() if isinstance(part, nn.Linear)]
        deltas = [change() for change in changes]
        if [part.weight.shape for _, part in linears] != [delta.shape for delta in deltas]:
            raise SettingsError("this backbone's blocks cannot be adapted; DINOv2 small, base and large can")
        return {f"{name}.weight": part.weight + delta for (name, part), delta in zip(linears, deltas, strict=True)}
