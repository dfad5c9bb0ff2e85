"""Products rounded to bfloat16, where that is asked for and saves time.

Processors without instructions for it take some forty times as long as for exact products: there they stay exact.
"""

from __future__ import annotations

import functools

import torch


@functools.cache
def bfloat16_is_fast(device_type: str) -> bool:
    if device_type != "cpu":
        return True
    known = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return torch.backends.mkldnn.is_available() and known is not None and bool(known())


def rounded(device_type: str, wanted: bool) -> torch.autocast:
    """Products within it are rounded to bfloat16."""
    return torch.autocast(device_type, torch.bfloat16, enabled=wanted and bfloat16_is_fast(device_type))
