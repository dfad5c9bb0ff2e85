"""The network and the baselines as methods."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from edgecape.errors import SettingsError
from edgecape.evaluation.evaluate import Task
from edgecape.evaluation.methods import (
    Runner,
    baselines,
    copy_support,
    layer_channels,
    nearest_feature,
    proposals,
    refined,
    variants,
    whitened_matching,
    with_graph,
)
from edgecape.model.aspects import Shots
from edgecape.model.network import Network
from edgecape.model.proposals import cell_centres
from edgecape.training.initialise import start_from_matching

import tiny


def task(shots: int = 2, queries: int = 3, K: int = 6, channels: int = 16, grid: int = 4) -> Task:
    generator = torch.Generator().manual_seed(0)
    one = tiny.episode(K, shots, grid=(grid, grid))
    query = torch.randn(queries, channels, grid, grid, generator=generator)
    visible = torch.tensor([True] * (K - 1) + [False])
    return Task(
        torch.randn(shots, channels, grid, grid, generator=generator),
        one.coordinates[0],
        visible,
        one.prior[0],
        query,
    )


def forward(network: Network, task: Task):
    """Every pair on its own through Network.forward."""
    return [
        network(one[None], task.features[None], task.visible[None], task.prior[None], task.coordinates[None])
        for one in task.query
    ]


@pytest.mark.parametrize("graph", ["none", "fixed", "predicted"])
@pytest.mark.parametrize("shots", [1, 3])
def test_network_is_the_direct_forward_of_each_pair(graph: str, shots: int) -> None:
    network = tiny.network(graph=graph)
    inputs = task(shots)
    with torch.inference_mode():
        direct = forward(network, inputs)
        final = refined(Runner(network))(inputs)
        first = proposals(Runner(network))(inputs)
    usable = inputs[2]
    torch.testing.assert_close(final[:, usable], torch.cat([out.coordinates[-1] for out in direct])[:, usable])
    torch.testing.assert_close(first[:, usable], torch.cat([out.proposals.peak for out in direct])[:, usable])
    assert (final - first).abs().max() > 1e-3


def test_network_runs_without_dropout() -> None:
    network = tiny.network(dropout=0.5).train()
    localise = refined(Runner(network))
    inputs = task()
    with torch.inference_mode():
        torch.testing.assert_close(localise(inputs), localise(inputs), rtol=0, atol=0)


def test_less_graph_is_the_same_weights_with_another_graph() -> None:
    network = tiny.network(graph="predicted", bias="markov")
    whole_task = task(1)
    features, coordinates, visible, prior, query = whole_task[:5]
    shown = visible[None, None]
    with torch.inference_mode():
        fixed = with_graph(network, "fixed").encode_support(features[None], shown, prior[None], coordinates[None])
        whole = network.encode_support(features[None], shown, prior[None], coordinates[None])
        torch.testing.assert_close(fixed.tokens, whole.tokens)
        torch.testing.assert_close(fixed.graph.weights, whole.graph.prior)
        # a zero graph through the layers for neighbours is the network that has none
        nothing = network.localise(
            query, whole._replace(graph=type(whole.graph)(*(0 * m for m in whole.graph))).expand(3)
        )
        none = refined(Runner(with_graph(network, "none")))(whole_task)
    torch.testing.assert_close(none[:, visible], nothing.coordinates[-1][:, visible])
    assert with_graph(network, "fixed").mask_token.data_ptr() == network.mask_token.data_ptr()  # nothing is copied


def test_more_graph_than_trained_is_refused() -> None:
    with pytest.raises(SettingsError, match="trained with graph 'fixed' cannot be run with 'predicted'"):
        with_graph(tiny.network(graph="fixed"), "predicted")


@pytest.mark.parametrize(
    ("graph", "names"),
    [("none", ["none"]), ("fixed", ["none", "fixed"]), ("predicted", ["none", "fixed", "predicted"])],
)
def test_variants(graph: str, names: list[str]) -> None:
    network = tiny.network(graph=graph)
    state = torch.random.get_rng_state()
    methods = variants(network)
    assert torch.equal(torch.random.get_rng_state(), state)  # training may go on as if nothing had happened
    assert list(methods) == ["model, proposals", *(f"model, graph {name}" for name in names)]
    inputs = task()
    with torch.inference_mode():
        last = list(methods.values())[-1](inputs)
        torch.testing.assert_close(last, refined(Runner(network))(inputs), rtol=0, atol=0)
        found = [method(inputs)[:, :5] for method in methods.values()]
    assert all(not torch.equal(a, b) for i, a in enumerate(found) for b in found[:i])


def test_names_may_be_kept_from_a_network_that_makes_use_of_them() -> None:
    network = tiny.network(graph="fixed", consistency=True, mirror=True)
    methods = variants(network)
    assert list(methods)[1] == "model, not told left and right"
    unnamed = task(shots=1)
    flipped = unnamed.coordinates * torch.tensor([-1.0, 1.0]) + torch.tensor([1.0, 0.0])
    plain = Shots(unnamed.features[None], unnamed.coordinates[None])
    mirrored = Shots(plain.features.flip(-1), flipped[None])
    unnamed = unnamed._replace(looks=lambda sizes, mirror, turn: mirrored if mirror else plain)
    named = unnamed._replace(order=torch.tensor([1, 0, 2, 3, 4, 5]))
    with torch.inference_mode():
        secret, told = (methods[name](named) for name in ("model, not told left and right", "model, graph fixed"))
        torch.testing.assert_close(secret, methods["model, graph fixed"](unnamed), rtol=0, atol=0)
    assert not torch.equal(secret[:, :5], told[:, :5])


def test_copying_is_the_mean_of_the_supports() -> None:
    inputs = task(shots=3, queries=4)
    found = copy_support(inputs)
    assert found.shape == (4, 6, 2)
    torch.testing.assert_close(found[2], inputs[1].mean(0))


def test_matching_finds_a_shifted_pattern_and_ignores_common_features() -> None:
    generator = torch.Generator().manual_seed(1)
    pattern = torch.randn(1, 32, 8, 8, generator=generator)
    shifted = pattern.roll((2, 1), dims=(2, 3))  # two cells down, one to the right
    coordinates = (torch.tensor([[[1, 2], [4, 3], [5, 5]]]) + 0.5) / 8
    inputs = Task(pattern, coordinates, torch.ones(3, dtype=torch.bool), torch.zeros(3, 3), shifted)
    expected = coordinates + torch.tensor([1, 2]) / 8
    for centred in (False, True):
        torch.testing.assert_close(nearest_feature(centred=centred)(inputs), expected, atol=0.03, rtol=0)
    # what all cells of an image share tells nothing: centring removes it, without centring it drowns the rest
    common = 50 * torch.randn(2, 32, 1, 1, generator=generator)
    disturbed = inputs._replace(features=pattern + common[:1], query=shifted + common[1:])
    torch.testing.assert_close(nearest_feature()(disturbed), nearest_feature()(inputs), atol=1e-4, rtol=0)
    assert (nearest_feature(centred=False)(disturbed) - expected).abs().max() > 0.1


def test_matching_with_one_layer_uses_its_channels_only() -> None:
    inputs = task()
    part = nearest_feature(slice(4, 10))(inputs)
    cut = inputs._replace(features=inputs.features[:, 4:10], query=inputs.query[:, 4:10])
    alone = nearest_feature()(cut)
    torch.testing.assert_close(part, alone)


def test_layers_of_a_backbone() -> None:
    backbone = SimpleNamespace(model=SimpleNamespace(channels=[4, 6, 6], out_indices=[3, 11, 12]))
    assert layer_channels(backbone) == {3: slice(0, 4), 11: slice(4, 10), 12: slice(10, 16)}  # type: ignore[arg-type]
    names = ["copy support", *(f"nearest feature, layer {layer}" for layer in (3, 11, 12))]
    assert list(baselines(backbone)) == names  # type: ignore[arg-type]


# --- matching with the network's projections -----------------------------------------------------------------


@pytest.mark.parametrize("centred", [False, True])
def test_whitened_matching_compares_what_enters_the_encoder(centred: bool) -> None:
    network = tiny.network(centred=centred, layout=True, direct_match=True)
    inputs = task(shots=3)
    visible = inputs[2]
    with torch.inference_mode():
        found = whitened_matching(network)(inputs)
        # the same network with a silent layout, everything after the encoder's entrance out of the way
        assert network.layout_proj is not None
        network.layout_proj.weight.zero_()
        network.layout_proj.bias.zero_()
        generator = network.proposal_generator
        generator.support_proj.weight.zero_()
        generator.support_proj.bias.zero_()
        assert generator.direct is not None
        generator.direct.fill_(20.0)
        expected = proposals(Runner(network))(inputs)
    torch.testing.assert_close(found[:, visible], expected[:, visible])


def test_whitened_matching_finds_each_keypoint_on_its_own_photo() -> None:
    torch.manual_seed(0)
    network = Network(tiny.settings(width=64, centred=True, layout=True, direct_match=True)).eval()
    photos = torch.randn(6, 16, 8, 8)
    start_from_matching(network, photos)
    places = cell_centres(8, 8)[[9, 21, 34, 54]][None]
    inputs = Task(photos[:1], places, torch.ones(4, dtype=torch.bool), torch.zeros(4, 4), photos[:1])
    with torch.inference_mode():
        found = whitened_matching(network)(inputs)
    torch.testing.assert_close(found, places, atol=0.06, rtol=0)  # half a cell
