"""Properties of the whole network, for every variant of it."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecape.errors import SettingsError
from edgecape.model import graph
from edgecape.model.network import Network, Output
from edgecape.model.settings import NetworkSettings

import golden
import graphs
import tiny

every_variant = pytest.mark.parametrize("changes", tiny.VARIANTS.values(), ids=tiny.VARIANTS.keys())
a_few = settings(max_examples=4, deadline=None, derandomize=True)
seeds = st.integers(0, 2**16)


@cache
def built(*changes) -> Network:
    return tiny.network(**dict(changes))


def run(changes, episode) -> Output:
    with torch.no_grad():
        return built(*changes.items())(*episode)


def keypoints(output: Output, index) -> Output:
    """The output for some of the keypoints: a slice or an order."""
    return output._replace(
        coordinates=output.coordinates[:, :, index],
        proposals=type(output.proposals)(*(part[:, index] for part in output.proposals)),
        usable=output.usable[:, index],
        graph=type(output.graph)(*(matrix[:, index][:, :, index] for matrix in output.graph)),
    )


def samples(output: Output, index: slice) -> Output:
    return output._replace(
        coordinates=output.coordinates[:, index],
        proposals=type(output.proposals)(*(part[index] for part in output.proposals)),
        usable=output.usable[index],
        graph=type(output.graph)(*(matrix[index] for matrix in output.graph)),
    )


def assert_same(first: Output, second: Output, tolerance: float = 1e-5):
    """The usable keypoints and the whole graph agree."""
    assert torch.equal(first.usable, second.usable)
    assert first.usable.any()
    close = {"rtol": 0, "atol": tolerance}
    usable = first.usable
    torch.testing.assert_close(first.coordinates[:, usable], second.coordinates[:, usable], **close)
    for one, other in zip(first.proposals, second.proposals, strict=True):
        torch.testing.assert_close(one[usable], other[usable], rtol=1e-5, atol=tolerance)
    for one, other in zip(first.graph, second.graph, strict=True):
        torch.testing.assert_close(one, other, **close)


# --- what a sample is surrounded by does not matter -------------------------------------------------------------------


@every_variant
@a_few
@given(K=st.integers(1, 9), shots=st.integers(1, 3), extra=st.integers(1, 20), seed=seeds)
def test_padding_changes_nothing(changes, K, shots, extra, seed):
    episode = tiny.episode(K, shots, seed=seed)
    padded = run(changes, tiny.pad(episode, extra))
    assert_same(run(changes, episode), keypoints(padded, slice(K)))
    assert not padded.graph.normalised[:, K:].any()
    assert not padded.graph.normalised[:, :, K:].any()


@every_variant
@a_few
@given(K=st.tuples(st.integers(1, 9), st.integers(1, 9)), shots=st.integers(1, 3), seed=seeds)
def test_batching_changes_nothing(changes, K, shots, seed):
    first, second = tiny.episode(K[0], shots, seed=seed), tiny.episode(K[1], shots, seed=seed + 1)
    batched = run(changes, tiny.concatenate(first, second))
    assert_same(run(changes, first), keypoints(samples(batched, slice(0, 1)), slice(K[0])))
    assert_same(run(changes, second), keypoints(samples(batched, slice(1, 2)), slice(K[1])))


@every_variant
@a_few
@given(K=st.integers(2, 9), shots=st.integers(1, 3), seed=seeds)
def test_keypoints_have_no_order(changes, K, shots, seed):
    episode = tiny.episode(K, shots, seed=seed)
    order = torch.randperm(K, generator=torch.Generator().manual_seed(seed))
    assert_same(keypoints(run(changes, episode), order), run(changes, tiny.permute(episode, order)))


@every_variant
def test_shots_have_no_order(changes):
    episode = tiny.episode(7, shots=4, seed=3, hide=0.4)
    turned = episode._replace(
        support=episode.support.flip(1), visible=episode.visible.flip(1), coordinates=episode.coordinates.flip(1)
    )
    assert_same(run(changes, episode), run(changes, turned))


@pytest.mark.parametrize("prior", ["fixed", "predicted"])
def test_the_leak_of_official_padding_is_a_setting(prior):
    """Padding inside the network leaks into the predictor's image features, as in the released code, and from there
    into the graph; without a predictor nothing notices."""
    official, clean = (run({"graph": prior, "pad_keypoints_to": size}, tiny.episode(6, seed=1)) for size in (100, 0))
    same = torch.allclose(official.graph.weights, clean.graph.weights, atol=1e-5)
    assert same is (prior == "fixed")


# --- what cannot be seen stays silent ---------------------------------------------------------------------------------


@every_variant
def test_invisible_keypoints_are_silent(changes):
    """Neither where an invisible keypoint would be nor its edges change anything, in one shot or in all of them."""
    episode = tiny.episode(7, shots=3, seed=5, hide=0.0)
    episode.visible[:, :, 2] = False
    episode.visible[:, 1, 4] = False
    moved = episode._replace(coordinates=episode.coordinates.clone(), prior=episode.prior.clone())
    moved.coordinates[:, :, 2] = torch.tensor([0.9, 0.05])
    moved.coordinates[:, 1, 4] = torch.tensor([0.1, 7.0])
    moved.prior[:, 2] = moved.prior[:, :, 2] = 1 - episode.prior[:, 2]
    output = run(changes, episode)
    assert_same(output, run(changes, moved), tolerance=1e-6)
    assert not output.graph.normalised[:, 2].any()
    assert not output.graph.normalised[:, :, 2].any()


def test_isolated_keypoints_get_nothing_from_the_graph():
    """With a fixed graph, the row of a keypoint without edges is 0, and so is its column."""
    episode = tiny.episode(6, seed=2, hide=0.0)
    episode.prior[:, 3] = episode.prior[:, :, 3] = 0
    found = run({"graph": "fixed"}, episode).graph.normalised
    assert not found[:, 3].any()
    assert not found[:, :, 3].any()
    assert found[:, :3].any()


@every_variant
def test_without_any_usable_keypoint_all_is_finite(changes):
    episode = tiny.concatenate(tiny.episode(5, seed=1), tiny.episode(5, seed=2))
    episode.visible[1] = False
    output = run(changes, episode)
    assert torch.isfinite(output.coordinates).all()
    assert not output.graph.normalised[1].any()
    assert_same(run(changes, tiny.episode(5, seed=1)), samples(output, slice(0, 1)))


# --- the graph --------------------------------------------------------------------------------------------------------


@every_variant
@a_few
@given(K=st.integers(1, 12), shots=st.integers(1, 3), seed=seeds)
def test_graph_is_symmetric_and_its_normalised_rows_sum_to_one_or_zero(changes, K, shots, seed):
    episode = tiny.episode(K, shots, seed=seed)
    prior, weights, normalised = run(changes, episode).graph
    usable = episode.visible.any(dim=1)
    assert (weights >= 0).all()
    assert torch.equal(weights, weights.transpose(1, 2))
    connected = weights.sum(-1) > 1e-3  # of weaker ones the reference's 1e-8 takes a share
    sums = normalised.sum(-1)
    torch.testing.assert_close(sums[connected], torch.ones_like(sums[connected]), rtol=0, atol=1e-4)
    assert not sums[weights.sum(-1) == 0].any()
    assert not weights[~usable].any()
    told = torch.zeros_like(prior) if changes.get("graph") == "none" else episode.prior
    assert torch.equal(prior, graph.mask_adjacency(told, usable))


@pytest.mark.parametrize("residual", ["cosine", "mlp", "attention"])
def test_training_starts_from_the_prior(residual):
    """c and b are 0 in a fresh network, so the predicted graph is the prior, and the decoder moves nothing."""
    episode = tiny.episode(8, shots=2, batch=3, seed=4)
    with torch.no_grad():
        output = Network(tiny.settings(residual=residual)).eval()(*episode)
    expected = graph.mask_adjacency(episode.prior, output.usable)
    assert torch.equal(output.graph.weights, expected)
    assert torch.equal(output.graph.normalised, graph.row_normalise(expected))
    for coordinates in output.coordinates:
        torch.testing.assert_close(coordinates, output.proposals.peak, rtol=0, atol=1e-5)


@pytest.mark.parametrize("bias", ["off", "markov", "shortest_path"])
@pytest.mark.parametrize("prior", ["none", "fixed", "predicted"])
def test_prior_matters_where_it_should(prior, bias):
    episode = tiny.episode(6, seed=1, hide=0.0)
    other = episode._replace(prior=graphs.fully_connected(6)[None] - episode.prior)
    same = torch.allclose(
        *(run({"graph": prior, "bias": bias}, e).coordinates[-1] for e in (episode, other)), atol=1e-6
    )
    assert same is (prior == "none")


def test_an_untrained_shortest_path_bias_is_no_bias():
    episode = tiny.episode(6, seed=1)
    biased, plain = tiny.network(bias="shortest_path"), tiny.network(bias="off")
    for layer in biased.decoder.layers:
        torch.nn.init.zeros_(layer.structural_bias.table.weight)
    plain.load_state_dict({name: value for name, value in biased.state_dict().items() if ".table." not in name})
    with torch.no_grad():
        assert_same(biased(*episode), plain(*episode), tolerance=1e-6)


# --- sizes ------------------------------------------------------------------------------------------------------------


@every_variant
@pytest.mark.parametrize("K", [1, 300])
def test_any_number_of_keypoints(changes, K):
    output = run(changes, tiny.episode(K, grid=(3, 3), seed=K))
    assert output.coordinates.shape == (2, 1, K, 2)
    assert torch.isfinite(output.coordinates).all()
    assert output.graph.normalised.shape == (1, K, K)


@pytest.mark.parametrize("shots", range(1, 11))
def test_one_to_ten_shots(shots):
    """S copies of one shot are that one shot."""
    single = tiny.episode(6, seed=8)
    several = single._replace(
        support=single.support.expand(-1, shots, -1, -1, -1),
        visible=single.visible.expand(-1, shots, -1),
        coordinates=single.coordinates.expand(-1, shots, -1, -1),
    )
    for refinement in ("averaged", "independent"):
        changes = {"shot_refinement": refinement}
        assert_same(run(changes, single), run(changes, several))


@every_variant
@pytest.mark.parametrize("grid", [(3, 7), (8, 2)])
def test_feature_maps_need_not_be_square(changes, grid):
    output = run(changes, tiny.episode(5, shots=2, grid=grid, seed=6))
    assert output.proposals.similarity.shape == (1, 5, *grid)
    assert ((output.coordinates > 0) & (output.coordinates < 1)).all()


# --- support and query ------------------------------------------------------------------------------------------------


def test_a_keypoint_is_averaged_over_the_shots_that_show_it():
    """Its token is what those shots alone would give."""
    episode = tiny.episode(4, shots=3, seed=9, hide=0.0)
    episode.visible[:, 1, 2] = False
    network = tiny.network(graph="fixed")
    with torch.no_grad():
        tokens = network.encode_support(*episode[1:5]).tokens
        shown = [0, 2]
        alone = network.encode_support(
            episode.support[:, shown], episode.visible[:, shown], episode.prior, episode.coordinates[:, shown]
        ).tokens
    torch.testing.assert_close(tokens[:, 2], alone[:, 2])
    assert not torch.allclose(tokens[:, 1], alone[:, 1], atol=1e-3)


@every_variant
def test_one_support_serves_many_queries(changes):
    """encode_support once, expand, localise: the same as forward for each query."""
    network = tiny.network(**changes)
    episode, others = tiny.episode(6, shots=2, seed=1), tiny.episode(6, batch=3, seed=2)
    with torch.no_grad():
        encoded = network.encode_support(episode.support, episode.visible, episode.prior, episode.coordinates)
        together = network.decode(
            network.match(network.query_cells(others.query), encoded.expand(3)), encoded.expand(3)
        )
        for number, query in enumerate(others.query):
            assert_same(network(query[None], *episode[1:]), samples(together, slice(number, number + 1)))


@every_variant
def test_maps_and_coordinates_say_the_same(changes):
    episode = tiny.episode(6, shots=2, seed=1)
    maps = golden.gaussian_maps(episode.coordinates, (224, 224), 3.5)
    if "matching" in changes:
        with pytest.raises(ValueError, match="needs keypoint coordinates"):
            run(changes, episode._replace(coordinates=None, maps=maps))
    else:
        assert_same(run(changes, episode), run(changes, episode._replace(coordinates=None, maps=maps)))


def test_visibility_may_be_given_for_all_shots():
    episode = tiny.episode(6, shots=3, seed=1)
    common = episode.visible.all(dim=1)
    each = common[:, None].expand(-1, 3, -1)
    assert_same(run({}, episode._replace(visible=common)), run({}, episode._replace(visible=each)), tolerance=0)


def test_keypoints_must_be_somewhere():
    with pytest.raises(ValueError, match="coordinates or keypoint maps"):
        run({}, tiny.episode()._replace(coordinates=None))


# --- gradients --------------------------------------------------------------------------------------------------------


@every_variant
def test_gradients_are_finite_and_reach_every_parameter(changes):
    network = tiny.network(**changes).train()
    episode = tiny.concatenate(tiny.episode(7, shots=2, seed=1), tiny.episode(4, shots=2, seed=2, hide=0.0))
    output = network(*episode)
    (output.coordinates[:, output.usable].sum() + output.proposals.expected[output.usable].sum()).backward()
    # the last image←keypoint attention of the predictor is followed by nothing; the mask token is for L_adj
    idle = ("pose_graph.layers.1.to_image", "pose_graph.layers.1.norm4", "mask_token")
    for name, parameter in network.named_parameters():
        if name.startswith(idle):
            assert parameter.grad is None, name
        else:
            assert torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("bias", ["off", "markov"])
def test_hidden_keypoints_teach_only_the_graph(bias):
    """L_adj's pass reaches the predictor, the tokens it starts from, and the mask token; nothing else."""
    network = tiny.network(bias=bias)
    episode = tiny.episode(6, seed=1, hide=0.0)
    hidden = torch.tensor([[True, False, True, False, False, True]])
    network(*episode._replace(hidden=hidden)).reconstruction.sum().backward()
    reached = {name.split(".")[0] for name, parameter in network.named_parameters() if parameter.grad is not None}
    assert reached == {"pose_graph", "keypoint_proj", "mask_token"}


def test_hiding_replaces_tokens_of_usable_keypoints_by_the_mask_token():
    network, episode = tiny.network(), tiny.episode(6, seed=1, hide=0.0)
    episode.visible[:, :, 5] = False
    decoded = []
    network.decoder.register_forward_hook(lambda module, arguments, output: decoded.append(output.last_reference))

    def reconstruct(*hidden: int) -> torch.Tensor:
        mask = torch.zeros(1, 6, dtype=torch.bool)
        mask[0, list(hidden)] = True
        with torch.no_grad():
            return network(*episode._replace(hidden=mask)).reconstruction[:, :5]

    plain, one_hidden = reconstruct(), reconstruct(1)
    torch.testing.assert_close(plain, decoded[0][:, :5])
    assert torch.equal(reconstruct(5), plain)
    assert not torch.allclose(one_hidden, plain, atol=1e-4)
    with torch.no_grad():
        network.mask_token += 0.5
    assert torch.equal(reconstruct(), plain)
    assert not torch.allclose(reconstruct(1), one_hidden, atol=1e-4)


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 30, "heads": 2}, "width 30"),
        ({"width": 36, "heads": 8}, "width 36"),
        ({"hops": 0}, "hops is 0"),
        ({"decoder_layers": 0}, "decoder_layers is 0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"dropout": -0.1}, "dropout is -0.1"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes, message):
    with pytest.raises(SettingsError, match=message):
        NetworkSettings(**changes)


def test_size_of_the_default_network():
    """The released head has 15.56 M parameters, of which the predictor 8.2 M (six tensors of it are dead there)."""
    network = Network()
    count = {name: sum(p.numel() for p in module.parameters()) for name, module in network.named_children()}
    assert sum(count.values()) == pytest.approx(15.56e6, rel=0.01)
    assert count["pose_graph"] == pytest.approx(8.2e6, rel=0.02)
