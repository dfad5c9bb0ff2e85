"""The network and the baselines as methods."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from edgecape.errors import SettingsError
from edgecape.evaluation.episodes import Episode
from edgecape.evaluation.evaluate import Features, Task, found_in_photos
from edgecape.evaluation.methods import (
    GRAPHS,
    ModelMethod,
    as_preset,
    baselines,
    copy_support,
    final,
    layer_channels,
    nearest_feature,
    propagated,
    proposals,
    told,
    variants,
    whitened_matching,
)
from edgecape.matching.multiview import MultiView, Shots
from edgecape.matching.network import MatchingNetwork
from edgecape.matching.scores import probabilities
from edgecape.matching.settings import MatchingSettings, ViewSettings
from edgecape.matching.views import Picture
from edgecape.model.network import Network
from edgecape.model.proposals import cell_centres
from edgecape.training.initialise import start_from_matching

import pictures
import tiny
import toy


def task(shots: int = 2, queries: int = 3, K: int = 6, channels: int = 16, grid: int = 4) -> Task:
    generator = torch.Generator().manual_seed(0)
    one = tiny.episode(K, shots, grid=(grid, grid))
    query = torch.randn(queries, channels, grid, grid, generator=generator)
    visible = torch.tensor([True] * (K - 1) + [False])
    features = torch.randn(shots, channels, grid, grid, generator=generator)
    return pictures.task(features, one.coordinates[0], visible, one.prior[0], query)


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
        last = final(ModelMethod(network))(inputs)
        first = proposals(ModelMethod(network))(inputs)
    usable = inputs.visible
    torch.testing.assert_close(last[:, usable], torch.cat([out.coordinates[-1] for out in direct])[:, usable])
    torch.testing.assert_close(first[:, usable], torch.cat([out.proposals.peak for out in direct])[:, usable])
    assert (last - first).abs().max() > 1e-3


def test_network_runs_without_dropout() -> None:
    network = tiny.network(dropout=0.5).train()
    localise = final(ModelMethod(network))
    inputs = task()
    with torch.inference_mode():
        torch.testing.assert_close(localise(inputs), localise(inputs), rtol=0, atol=0)


def test_less_graph_is_what_a_network_that_has_less_would_compute() -> None:
    """The same weights in a network with a fixed graph, and in one that has none."""
    network, inputs = tiny.network(graph="predicted", bias="markov"), task(1)
    for graph in ("none", "fixed"):
        less = Network(replace(network.settings, graph=graph)).eval()
        less.load_state_dict({name: network.state_dict()[name] for name in less.state_dict()})
        with torch.inference_mode():
            expected = torch.cat([output.coordinates[-1] for output in forward(less, inputs)])
            found = final(ModelMethod(network), graph)(inputs)
        torch.testing.assert_close(found[:, inputs.visible], expected[:, inputs.visible])


def test_told_less_of_a_graph() -> None:
    known = tiny.network()(*tiny.episode(5, seed=1)).graph
    assert told("predicted", known) is known
    assert torch.equal(told("fixed", known).weights, known.prior) and not told("none", known).normalised.any()


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
        torch.testing.assert_close(last, final(ModelMethod(network))(inputs), rtol=0, atol=0)
        found = [method(inputs)[:, :5] for method in methods.values()]
    assert all(not torch.equal(a, b) for i, a in enumerate(found) for b in found[:i])


@pytest.mark.parametrize("matching", [None, MatchingSettings(views=ViewSettings(mirror=True, quarter_turns=True))])
def test_supports_are_encoded_once_for_all_that_is_told_of_their_graph(matching, monkeypatch) -> None:
    network = tiny.network(matching=matching)
    encoded: list[torch.Tensor] = []
    encode = MultiView.encode

    def counting(self, shots, visible, prior, flip_index=None):
        encoded.append(prior)
        return encode(self, shots, visible, prior, flip_index)

    inputs = task(shots=1)
    others = [
        inputs,
        inputs._replace(prior=1 - inputs.prior - torch.eye(6)),
        inputs._replace(visible=torch.ones(6, dtype=torch.bool)),
        inputs._replace(flip_index=torch.tensor([1, 0, 2, 3, 4, 5])),
        task(shots=2),
    ]
    with torch.inference_mode():
        expected = [final(ModelMethod(network), graph)(one) for one in others for graph in (None, *GRAPHS)]
        monkeypatch.setattr(MultiView, "encode", counting)
        method = ModelMethod(network)
        found = [final(method, graph)(one) for one in others for graph in (None, *GRAPHS)]
    assert len(encoded) == len(others)
    assert all(map(torch.equal, found, expected))


def test_names_may_be_kept_from_a_network_that_makes_use_of_them() -> None:
    network = tiny.network(matching=MatchingSettings(views=ViewSettings(mirror=True)), graph="fixed")
    methods = variants(network)
    assert list(methods)[1] == "model, not told left and right"
    unnamed = task(shots=1)
    named = unnamed._replace(flip_index=torch.tensor([1, 0, 2, 3, 4, 5]))
    with torch.inference_mode():
        secret, aware = (methods[name](named) for name in ("model, not told left and right", "model, graph fixed"))
        torch.testing.assert_close(secret, variants(network)["model, graph fixed"](unnamed), rtol=0, atol=0)
    assert not torch.equal(secret[:, :5], aware[:, :5])


def test_copying_is_the_mean_of_the_supports() -> None:
    inputs = task(shots=3, queries=4)
    found = copy_support(inputs)
    assert found.shape == (4, 6, 2)
    torch.testing.assert_close(found[2], inputs.coordinates.mean(0))


def test_matching_finds_a_shifted_pattern_and_ignores_common_features() -> None:
    generator = torch.Generator().manual_seed(1)
    pattern = torch.randn(1, 32, 8, 8, generator=generator)
    shifted = pattern.roll((2, 1), dims=(2, 3))  # two cells down, one to the right
    coordinates = (torch.tensor([[[1, 2], [4, 3], [5, 5]]]) + 0.5) / 8
    known = (coordinates, torch.ones(3, dtype=torch.bool), torch.zeros(3, 3))
    inputs = pictures.task(pattern, *known, shifted)
    expected = coordinates + torch.tensor([1, 2]) / 8
    for centre in (False, True):
        torch.testing.assert_close(nearest_feature(centre=centre)(inputs), expected, atol=0.03, rtol=0)
    # what all cells of an image share tells nothing: centring removes it, without centring it drowns the rest
    common = 50 * torch.randn(2, 32, 1, 1, generator=generator)
    disturbed = pictures.task(pattern + common[:1], *known, shifted + common[1:])
    torch.testing.assert_close(nearest_feature()(disturbed), nearest_feature()(inputs), atol=1e-4, rtol=0)
    assert (nearest_feature(centre=False)(disturbed) - expected).abs().max() > 0.1


def test_matching_with_one_layer_uses_its_channels_only() -> None:
    inputs = task()
    part = nearest_feature(slice(4, 10))(inputs)
    known = (inputs.coordinates, inputs.visible, inputs.prior)
    cut = pictures.task(inputs.features[:, 4:10], *known, inputs.query[:, 4:10])
    alone = nearest_feature()(cut)
    torch.testing.assert_close(part, alone)


def test_layers_of_a_backbone() -> None:
    backbone = SimpleNamespace(model=SimpleNamespace(channels=[4, 6, 6], out_indices=[3, 11, 12]))
    assert layer_channels(backbone) == {3: slice(0, 4), 11: slice(4, 10), 12: slice(10, 16)}  # type: ignore[arg-type]
    names = ["copy support", *(f"nearest feature, layer {layer}" for layer in (3, 11, 12))]
    assert list(baselines(backbone)) == names  # type: ignore[arg-type]


# --- matching with the network's projections -----------------------------------------------------------------


@pytest.mark.parametrize("centre", [False, True])
def test_whitened_matching_compares_what_enters_the_encoder(centre: bool) -> None:
    network = tiny.network(matching=replace(tiny.NOTHING, centre=centre, layout=True, direct_cosine=True))
    inputs = task(shots=3)
    visible = inputs.visible
    with torch.inference_mode():
        found = whitened_matching(network)(inputs)
        # the same network with a silent layout, everything after the encoder's entrance out of the way
        assert network.layout_proj is not None
        network.layout_proj.weight.zero_()
        network.layout_proj.bias.zero_()
        generator = network.proposal_generator
        generator.support_proj.weight.zero_()
        generator.support_proj.bias.zero_()
        network.direct.fill_(20.0)
        expected = proposals(ModelMethod(network))(inputs)
    torch.testing.assert_close(found[:, visible], expected[:, visible])


def test_whitened_matching_finds_each_keypoint_on_its_own_photo() -> None:
    torch.manual_seed(0)
    network = MatchingNetwork(tiny.settings(width=64), MatchingSettings()).eval()
    photos = torch.randn(6, 16, 8, 8)
    start_from_matching(network, photos)
    places = cell_centres(8, 8)[[9, 21, 34, 54]][None]
    inputs = pictures.task(photos[:1], places, torch.ones(4, dtype=torch.bool), torch.zeros(4, 4), photos[:1])
    with torch.inference_mode():
        found = whitened_matching(network)(inputs)
    torch.testing.assert_close(found, places, atol=0.06, rtol=0)  # half a cell


def test_a_model_as_a_method_of_the_family() -> None:
    network, inputs = tiny.network(graph="predicted", bias="off"), task()
    with torch.inference_mode():
        for name, graph in (("capeformer", "none"), ("graphcape", "fixed"), ("edgecape-no-bias", "predicted")):
            expected = final(ModelMethod(network), graph)(inputs)
            torch.testing.assert_close(as_preset(name, network)(inputs), expected, rtol=0, atol=0)
        matched = proposals(ModelMethod(network))(inputs)
        torch.testing.assert_close(as_preset("pomnet", network)(inputs), matched, rtol=0, atol=0)
    with pytest.raises(SettingsError, match="trained with bias 'off', edgecape has 'markov'"):
        as_preset("edgecape", network)
    with pytest.raises(SettingsError, match="trained with graph 'fixed', edgecape-no-bias needs 'predicted'"):
        as_preset("edgecape-no-bias", tiny.network(graph="fixed", bias="off"))


@torch.inference_mode()
def test_propagated_poses_are_those_of_other_queries(tmp_path, monkeypatch) -> None:
    """Each query beside the support and the surest of the others, never beside itself; nothing is added of none."""
    data = toy.lamps(tmp_path, 5)
    network = toy.estimator(matching=MatchingSettings(), graph="fixed", bias="off").torch_runtime.network
    features, method = Features(data, toy.store()), ModelMethod(network)
    multiview, queries = method.multiview, (1, 2, 3, 4)
    wanted: dict[str, torch.Tensor] = {}

    def by_hand(task: Task) -> torch.Tensor:
        first = method(task)
        places = first.output.coordinates[-1]
        sure = probabilities(first, None)[:, task.visible].mean(dim=1)
        found = []
        for i, query in enumerate(queries):
            others = sorted((j for j in range(4) if j != i), key=lambda j: -sure[j])[:2]
            own = task.shots(multiview.pictures)
            beside = features.marked([queries[j] for j in others], multiview.pictures, places[others])
            shots = Shots(*(torch.cat(x, dim=2) for x in zip(own, beside.shots, strict=True)))
            seen = torch.cat((task.visible[None, None], beside.visible & task.visible), dim=1)
            encoded = multiview.encode(shots, seen, task.prior[None], task.flip_index)
            found.append(multiview(features.queries([query], multiview.query_views), encoded).output.coordinates[-1])
        wanted["none"] = final(method)(task)
        return torch.cat(found)

    methods = {"by hand": by_hand, "two": propagated(method, None, 2), "none": propagated(method, None, 0)}
    points = found_in_photos(data, Episode((0,), queries), methods, features)
    np.testing.assert_allclose(points["two"], points["by hand"], atol=1e-2)
    assert not np.allclose(points["two"], points["none"], atol=1e-2)
    plain = found_in_photos(data, Episode((0,), queries), {"final": final(method)}, features)["final"]
    np.testing.assert_allclose(points["none"], plain, atol=1e-2)
    monkeypatch.setattr("edgecape.evaluation.methods.SURE", 0.0)  # sure enough
    sure = found_in_photos(data, Episode((0,), queries), {"two": propagated(method, None, 2)}, features)["two"]
    np.testing.assert_array_equal(sure, plain)


def test_a_covered_query_stays_covered_as_a_support(tmp_path) -> None:
    data = toy.lamps(tmp_path, 3)
    places = torch.full((1, data.categories[0].K, 2), 0.5)
    plain, covered = (
        Features(data, toy.store(), cover).marked([1], (Picture(),), places).shots.features for cover in (0.0, 0.5)
    )
    assert not torch.equal(plain, covered)
    assert torch.equal(covered[0, 0], Features(data, toy.store(), 0.5).queries([1], (0,))[0])
