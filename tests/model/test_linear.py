"""Products by oneDNN against torch's own, and where they must not be used."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecape.model.linear import HAS_ONEDNN, Linear, linear


def is_plain(*arguments: torch.Tensor) -> bool:
    """Whether the product is torch's own to the bit."""
    return bool(torch.equal(linear(*arguments), F.linear(*arguments)))


@given(
    rows=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    inputs=st.integers(1, 70),
    outputs=st.integers(1, 70),
    biased=st.booleans(),
    transposed=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_as_torch(rows: list[int], inputs: int, outputs: int, biased: bool, transposed: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(*rows, inputs, generator=generator)
    if transposed and len(rows) > 1:
        x = x.transpose(0, 1)
    weight = torch.randn(outputs, inputs, generator=generator)
    bias = torch.randn(outputs, generator=generator) if biased else None
    with torch.no_grad():
        found = linear(x, weight, bias)
    assert found.shape == (*x.shape[:-1], outputs)
    torch.testing.assert_close(found, F.linear(x, weight, bias), atol=1e-5, rtol=1e-5)


@pytest.mark.skipif(not HAS_ONEDNN, reason="this torch comes without oneDNN")
def test_used_where_nothing_is_differentiated() -> None:
    layer = Linear(384, 1536)
    x = torch.randn(257, 384, generator=torch.Generator().manual_seed(0))
    with torch.profiler.profile() as profiled, torch.no_grad():
        layer(x)
    assert "mkldnn::_linear_pointwise" in {event.key for event in profiled.key_averages()}


def test_gradients_are_torch_s() -> None:
    layer, x = Linear(5, 3), torch.randn(4, 5, requires_grad=True)
    plain = F.linear(x, layer.weight, layer.bias)
    assert torch.equal(layer(x), plain)
    (through,) = torch.autograd.grad(layer(x).sum(), layer.weight)
    (expected,) = torch.autograd.grad(plain.sum(), layer.weight)
    assert torch.equal(through, expected)


@torch.no_grad()
def test_other_numbers_than_floats() -> None:
    x, weight = torch.randn(4, 5, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    assert is_plain(x, weight)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x.float(), weight.float()).dtype == torch.bfloat16


@torch.no_grad()
def test_nothing_to_multiply_and_parts_of_a_weight() -> None:
    assert linear(torch.zeros(0, 5), torch.zeros(3, 5)).shape == (0, 3)
    x, part = torch.randn(4, 5), torch.randn(3, 10)[:, :5]
    torch.testing.assert_close(linear(x, part), F.linear(x, part), atol=1e-5, rtol=1e-5)
