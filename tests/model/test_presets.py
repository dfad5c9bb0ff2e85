"""The table of methods in docs/architecture.md, as code."""

from __future__ import annotations

import pytest

from edgecape.errors import SettingsError
from edgecape.model import presets
from edgecape.model.network import Network

import golden
import tiny


@pytest.mark.parametrize(
    ("settings", "graph", "bias"),
    [
        (presets.preset("capeformer").settings(), "none", "off"),
        (presets.preset("graphcape").settings(), "fixed", "off"),
        (presets.edgecape(1), "fixed", "off"),
        (presets.edgecape(2), "predicted", "off"),
        (presets.edgecape(), "predicted", "markov"),
    ],
)
def test_methods(settings, graph, bias):
    assert (settings.graph, settings.bias) == (graph, bias)
    network = Network(settings)
    assert (network.pose_graph is not None) == (graph == "predicted")
    assert (network.decoder.layers[0].structural_bias is not None) == (bias == "markov")


@pytest.mark.parametrize("phase", [1, 2, 3])
def test_released_networks_are_those_of_the_parity_tests(phase):
    assert presets.released_edgecape(phase) == golden.settings(phase)


def test_the_released_graphcape():
    settings = presets.released_graphcape()
    assert settings.backbone.name == presets.SWINV2_TINY and settings.backbone.image_size == (256, 256)
    assert settings.decoder_positions and settings.aggregate_transposed and settings.channels == 768


@pytest.mark.parametrize("name", presets.PRESETS)
def test_a_method_by_name_is_settings_of_the_one_network(name):
    chosen, sizes = presets.preset(name), tiny.settings(dropout=0.3)
    settings = chosen.settings(sizes)
    assert (settings.graph, settings.bias) == (chosen.graph, chosen.bias)
    assert (settings.width, settings.dropout) == (sizes.width, 0.3)  # sizes are nobody's
    assert chosen.about and (chosen.left_out or "bias" in name or "edgecape" in name)
    Network(settings)


def test_an_unknown_method():
    with pytest.raises(SettingsError, match="no method 'graphcap'; did you mean 'graphcape'"):
        presets.preset("graphcap")
    with pytest.raises(SettingsError, match="there are capeformer, graphcape"):
        presets.preset("x")
