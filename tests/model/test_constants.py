"""Constants are computed once, and are good for prediction, training and tracing in any order."""

import torch
from torch import Tensor, nn

from edgecape.model.constants import constant
from edgecape.model.positions import sine_of_grid


def test_once_for_each_size() -> None:
    calls = []

    @constant
    def ramp(size: int) -> Tensor:
        calls.append(size)
        return torch.arange(size)

    assert ramp(3) is ramp(3) and torch.equal(ramp(4), torch.arange(4))
    assert calls == [3, 4]


def test_made_while_predicting_used_in_training() -> None:
    with torch.inference_mode():
        seen = sine_of_grid(5, 7, 16)
    assert not seen.is_inference()
    weight = torch.ones(35, 16, requires_grad=True)
    (gradient,) = torch.autograd.grad((weight * sine_of_grid(5, 7, 16)).sum(), weight)
    assert torch.equal(gradient, seen)


def test_not_kept_of_a_traced_graph() -> None:
    class Positioned(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + sine_of_grid(6, 3, 16)

    traced = torch.export.export(Positioned(), (torch.zeros(18, 16),)).module()
    assert type(sine_of_grid(6, 3, 16)) is Tensor
    assert torch.equal(traced(torch.zeros(18, 16)), sine_of_grid(6, 3, 16))
