"""Attention against PyTorch's own module, written out the plain way."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgecape.model.attention import Attention, GraphFeedForward, PositionedCrossAttention, key_bias


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def torch_attention(ours: Attention) -> nn.MultiheadAttention:
    """The same weights in `nn.MultiheadAttention`."""
    width, value_width = ours.q_proj.in_features, ours.v_proj.in_features
    theirs = nn.MultiheadAttention(width, ours.heads, batch_first=True, kdim=width, vdim=value_width)
    if theirs.in_proj_weight is not None:
        theirs.in_proj_weight.data = torch.cat([ours.q_proj.weight, ours.k_proj.weight, ours.v_proj.weight])
    else:
        theirs.q_proj_weight, theirs.k_proj_weight = ours.q_proj.weight, ours.k_proj.weight
        theirs.v_proj_weight = ours.v_proj.weight
    theirs.in_proj_bias.data = torch.cat([ours.q_proj.bias, ours.k_proj.bias, ours.v_proj.bias])
    theirs.out_proj.load_state_dict(ours.out_proj.state_dict())
    return theirs.eval()


@torch.no_grad()
def test_attention_with_hidden_keys_and_a_bias_per_head():
    ours = Attention(width=12, heads=3, dropout=0.0).eval()
    query, key = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    usable = torch.rand(2, 7) > 0.4
    usable[:, 0] = True
    bias = torch.randn(2, 3, 5, 7) + key_bias(usable)
    expected, _ = torch_attention(ours)(query, key, key, attn_mask=bias.flatten(0, 1))
    torch.testing.assert_close(ours(query, key, key, bias), expected)


@pytest.mark.parametrize("keys", [7, 40])  # 40: queries are few, and keys and values are not projected
@pytest.mark.parametrize("placed", ["query", "key", "both", "shared"])
@pytest.mark.parametrize("training", [True, False])
@torch.no_grad()
def test_cross_attention_concatenates_content_and_position(training, placed, keys):
    """A missing position is zeros; one without a batch holds for all samples."""
    ours = PositionedCrossAttention(width=8, heads=2, dropout=0.0).train(training)
    for bias in (ours.attention.q_proj.bias, ours.attention.k_proj.bias, ours.attention.v_proj.bias):
        bias.normal_()
    query, key = torch.randn(2, 5, 8), torch.randn(2, keys, 8)
    query_position = torch.randn(2, 5, 8) if placed in ("query", "both") else None
    positions = {"key": torch.randn(2, keys, 8), "both": torch.randn(2, keys, 8), "shared": torch.randn(keys, 8)}
    key_position = positions.get(placed)
    found = ours(query, query_position, key, key_position)

    def joined(content, position):
        position = torch.zeros_like(content) if position is None else position.expand_as(content)
        return torch.cat((content, position), dim=-1)

    theirs = torch_attention(ours.attention)
    expected, _ = theirs(joined(query, query_position), joined(key, key_position), key)
    torch.testing.assert_close(found, ours.reduce(expected))


@torch.no_grad()
def test_few_queries_have_dropout_too():
    ours = PositionedCrossAttention(width=8, heads=2, dropout=0.5)
    inputs = (torch.randn(2, 5, 8), torch.randn(2, 5, 8), torch.randn(2, 40, 8), torch.randn(40, 8))
    assert not torch.equal(ours(*inputs), ours(*inputs))


def test_keys_that_nobody_can_use():
    bias = key_bias(torch.tensor([[True, False], [False, False]]))
    assert bias.shape == (2, 1, 1, 2)
    assert bias[0].flatten().tolist() == [0.0, float("-inf")]
    assert bias[1].flatten().tolist() == [0.0, 0.0]  # attends evenly instead of to nothing


@pytest.mark.parametrize("neighbours", [True, False])
@torch.no_grad()
def test_graph_feed_forward(neighbours):
    """Linear(ReLU(W_self x + Ã W_adj x)); an isolated keypoint hears nothing of the others, an unusable one is 0."""
    ffn = GraphFeedForward(width=4, hidden=6, dropout=0.0, neighbours=neighbours).eval()
    x, usable = torch.randn(1, 5, 4), torch.tensor([[True, True, True, True, False]])
    A_norm = torch.zeros(1, 5, 5)
    A_norm[0, 0, 1], A_norm[0, 0, 2], A_norm[0, 1, 0], A_norm[0, 2, 0] = 0.25, 0.75, 1.0, 1.0
    hidden = ffn.own(x)
    hidden[0, 4] = 0
    if neighbours:
        other = ffn.neighbours(x)[0]
        hidden[0, 0] += 0.25 * other[1] + 0.75 * other[2]
        hidden[0, 1] += other[0]
        hidden[0, 2] += other[0]
    found = ffn(x, usable, A_norm)
    torch.testing.assert_close(found, ffn.out(hidden.relu()))

    x[0, :3] += 1
    assert torch.equal(ffn(x, usable, A_norm)[0, 3], found[0, 3])


def test_dropout_only_in_training():
    attention = Attention(width=8, heads=2, dropout=0.5)
    x = torch.randn(1, 6, 8)
    assert not torch.allclose(attention(x, x, x), attention(x, x, x))
    attention.eval()
    assert torch.equal(attention(x, x, x), attention(x, x, x))
