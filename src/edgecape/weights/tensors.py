"""Whether tensors are those of a network, found out before any room is made for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from edgecape.errors import WeightsError


def check_tensors(build: Callable[[], nn.Module], state: Mapping[str, Tensor]) -> None:
    """The first tensor that is missing, superfluous, of another shape or not of numbers is an error."""
    with torch.device("meta"):
        wanted = {name: tuple(tensor.shape) for name, tensor in build().state_dict().items()}
    odd = sorted(wanted.keys() ^ state.keys())
    if odd:
        what = "lack" if odd[0] in wanted else "hold"
        raise WeightsError(f"the weights do not fit the settings they were saved with: they {what} '{odd[0]}'")
    for name, shape in wanted.items():
        if tuple(state[name].shape) != shape:
            found = f"'{name}' is {tuple(state[name].shape)} where {shape} is wanted"
            raise WeightsError(f"the weights do not fit the settings they were saved with: {found}")
        if not bool(torch.isfinite(state[name]).all()):
            raise WeightsError(f"the weights are damaged: '{name}' has values that are not numbers")
