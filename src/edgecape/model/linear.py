"""Linear maps, computed by oneDNN where nothing is to be differentiated.

Nearly all of a forward is products of 32-bit matrices, which torch leaves to MKL; on processors that are not Intel's
MKL uses half the width of their registers, and oneDNN, which comes with torch too, takes less than half the time.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (..., n), weight (m, n), bias (m,) → (..., m)."""
    if _by_onednn(x, weight):
        # A weight that is part of a larger matrix takes a thousand times as long as a copy of it.
        return torch.ops.mkldnn._linear_pointwise(x, weight.contiguous(), bias, "none", [], "")
    return F.linear(x, weight, bias)


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        HAS_ONEDNN
        and not torch.compiler.is_compiling()  # an exported graph has plain products
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.numel() > 0
        and not torch.is_autocast_enabled("cpu")
        and not (torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad))
    )


class Linear(nn.Linear):
    """`nn.Linear`, by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


@torch.no_grad()
def silence(layer: nn.Linear) -> None:
    """It gives 0 until it learns, so that what is added by it changes nothing yet."""
    layer.weight.zero_()
    layer.bias.zero_()
