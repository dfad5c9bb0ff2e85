"""Products rounded to bfloat16, where that is asked for and saves time.

Processors without instructions for it only imitate it, and take from three to forty times as long as for exact
products: there they stay exact.
"""

from __future__ import annotations

import functools
import platform

import torch
import torch.nn.functional as F
from torch import Tensor

X86 = ("x86_64", "amd64")
INSTRUCTIONS = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # that make it fast there


@functools.cache
def bfloat16_is_fast(device_type: str) -> bool:
    if device_type != "cpu":
        return True
    if not torch.backends.mkldnn.is_available():
        return False
    if platform.machine().lower() in X86:  # there mkldnn says yes wherever it can imitate it
        return any(_is_said(torch.cpu, name) for name in INSTRUCTIONS)
    return _is_said(torch.ops.mkldnn, "_is_mkldnn_bf16_supported")


def _is_said(module: object, name: str) -> bool:
    """What torch knows of the processor; of questions that this release cannot answer, no."""
    known = getattr(module, name, None)
    return known is not None and bool(known())


def rounded(device_type: str, wanted: bool) -> torch.autocast:
    """Products within it are rounded to bfloat16."""
    return torch.autocast(device_type, torch.bfloat16, enabled=wanted and bfloat16_is_fast(device_type))


def dot_product_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
    """softmax(q · k / √d + bias) · v for (B, heads, N or M, d) each.

    Where a processor learns from it, it stays exact: rounded, its backward takes half as long again for the cells of an
    image and seven times as long for a few keypoints.
    """
    if q.device.type == "cpu" and q.requires_grad and torch.is_autocast_enabled("cpu"):
        with torch.autocast("cpu", enabled=False):
            return dot_product_attention(q.float(), k.float(), v.float(), bias, dropout)
    if bias is not None:
        bias = bias.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)
