"""Recipes of all methods by name."""

from __future__ import annotations

import pytest

from edgecape.model.presets import PRESETS
from edgecape.training.methods import as_method
from edgecape.training.settings import RECIPES, recipe


@pytest.mark.parametrize("of", RECIPES)
@pytest.mark.parametrize("name", PRESETS)
def test_every_recipe_trains_every_method(name: str, of: str) -> None:
    settings, preset = as_method(recipe(of), name), PRESETS[name]
    settings.check()
    last = settings.decoder or settings.phases[-1]
    assert (last.graph, last.bias) == (preset.graph, preset.bias)
    assert (settings.network.graph, settings.network.bias) == (preset.graph, preset.bias)
    assert settings.episodes.between == preset.between
    if preset.decodes:  # all have the same length
        assert [phase.epochs for phase in settings.phases] == [phase.epochs for phase in recipe(of).phases]
    else:
        assert settings.phases and all(phase.match_only for phase in settings.phases)


def test_our_decoder_is_taught_as_the_method_says() -> None:
    found = {name: as_method(recipe("small"), name).decoder for name in PRESETS}
    assert found.pop("pomnet") is None
    told = {name: (one.learns, one.graph_loss) for name, one in found.items() if one is not None}
    assert told["edgecape"] == ("both", "masked") and told["sdpnet"] == ("both", "gcn")
    assert told["graphcape"] == told["capeformer"] == ("decoder", "off")
    assert found["fmmp"] is not None and found["fmmp"].episodes.between == PRESETS["fmmp"].between > 0


def test_edgecape_is_the_recipe_itself() -> None:
    for name in RECIPES:
        assert as_method(recipe(name), "edgecape") == recipe(name)


def test_how_the_graph_of_sdpnet_is_supervised() -> None:
    settings = as_method(recipe("paper"), "sdpnet")
    assert [phase.graph_loss for phase in settings.phases] == ["off", "gcn", "gcn"]
    assert not settings.network.predictor_sees_image
    assert [phase.graph_loss for phase in as_method(recipe("paper"), "graphcape").phases] == ["off"] * 3
