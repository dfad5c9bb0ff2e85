"""Recipes of all methods by name."""

from __future__ import annotations

import pytest

from edgecape.errors import SettingsError
from edgecape.model.presets import PRESETS
from edgecape.training.methods import as_method
from edgecape.training.settings import RECIPES, recipe

NOT_OURS = ("graphormer-bias", "sdpnet")


@pytest.mark.parametrize(
    ("name", "of"), [(name, of) for of in RECIPES for name in PRESETS if of == "paper" or name not in NOT_OURS]
)
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


@pytest.mark.parametrize("name", NOT_OURS)
def test_what_our_decoder_has_not(name: str) -> None:
    with pytest.raises(SettingsError, match=f"method '{name}'; take the recipe paper"):
        as_method(recipe("small"), name)


def test_edgecape_is_the_recipe_itself() -> None:
    for name in RECIPES:
        assert as_method(recipe(name), "edgecape") == recipe(name)


def test_how_the_graph_of_sdpnet_is_supervised() -> None:
    settings = as_method(recipe("paper"), "sdpnet")
    assert [phase.graph_loss for phase in settings.phases] == ["off", "gcn", "gcn"]
    assert not settings.network.predictor_sees_image
    assert [phase.graph_loss for phase in as_method(recipe("paper"), "graphcape").phases] == ["off"] * 3
