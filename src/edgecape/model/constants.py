"""Tensors that depend on sizes alone, computed once for each size."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

import torch
from torch import Tensor

Sizes = ParamSpec("Sizes")


def constant(function: Callable[Sizes, Tensor]) -> Callable[Sizes, Tensor]:
    """Remembers what a function of sizes and a device returned, which nobody may change in place."""
    # Not in inference mode: what is made there cannot be used in training.
    remembered = functools.lru_cache(maxsize=32)(torch.inference_mode(False)(function))

    @functools.wraps(function)
    def find(*sizes: Sizes.args, **named: Sizes.kwargs) -> Tensor:
        if torch.compiler.is_compiling():  # tensors of a graph that is traced hold no numbers
            return function(*sizes, **named)
        return remembered(*sizes, **named)  # type: ignore[arg-type]  # sizes and a device are hashable

    return find
