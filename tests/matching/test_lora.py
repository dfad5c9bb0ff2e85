"""LoRA: nothing at the start, saved with the head, learned without the backbone, folded in for prediction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from edgecape.data.crops import plain_crop
from edgecape.data.features import FeatureStore
from edgecape.errors import SettingsError
from edgecape.io.images import load_image
from edgecape.matching.lora import LoRA
from edgecape.matching.network import MatchingNetwork, lora_of
from edgecape.matching.settings import LoraSettings
from edgecape.model.backbone import Backbone
from edgecape.model.settings import BackboneSettings, NetworkSettings
from edgecape.runtime.torch_runtime import TorchRuntime
from edgecape.training.loop import train
from edgecape.training.settings import PHASES, PhaseSettings
from edgecape.weights.store import load_model

import tiny
from toy import TINY_WIDTH as WIDTH
from toy import lamps, tiny_dinov2, training

SIZE = (56, 56)
TWO = LoraSettings(blocks=2, rank=3)
BACKBONE = BackboneSettings("tiny", SIZE, layers=(2, 3))
NETWORK = NetworkSettings(
    channels=2 * WIDTH, width=16, heads=2, ffn=16, encoder_layers=1, decoder_layers=1, dropout=0.0, backbone=BACKBONE
)
MATCHING = replace(tiny.NOTHING, lora=TWO)


def backbone(settings: BackboneSettings = BACKBONE) -> Backbone:
    torch.manual_seed(0)
    return Backbone(tiny_dinov2(layers=4), settings).eval()


def lora(updated: bool = True) -> LoRA:
    torch.manual_seed(1)
    made = LoRA(TWO, WIDTH)
    if updated:
        for name, value in made.named_parameters():
            if name.endswith("up"):
                torch.nn.init.normal_(value)
    return made


def pixels(batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 3, *SIZE, generator=torch.Generator().manual_seed(2))


def through(made: LoRA, whole: Backbone) -> torch.Tensor:
    """As training goes."""
    return made(whole, whole.lower(pixels(), len(made.blocks)))


def test_at_the_start_nothing_is_changed():
    plain = backbone()(pixels())
    assert torch.equal(through(lora(updated=False), backbone()), plain)
    assert torch.equal(lora(updated=False).fold(backbone())(pixels()), plain)


def test_the_updates_are_low_rank_and_those_of_the_linear_layers():
    made, whole = lora(), backbone()
    updated = through(made, whole)
    assert not torch.allclose(updated, whole(pixels()), atol=1e-3)
    for weights, block in zip(made.weights(whole), whole.model.encoder.layer[1:], strict=True):
        own = dict(block.named_parameters())
        for name, weight in weights.items():
            assert torch.linalg.matrix_rank(weight - own[name]) == 3
            own[name].data.copy_(weight)
    torch.testing.assert_close(whole(pixels()), updated)  # the same made by hand


def test_folded_in_it_is_a_plain_backbone_and_the_rest_is_shared():
    made, whole = lora(), backbone()
    before = {name: value.clone() for name, value in whole.state_dict().items()}
    folded = made.fold(whole)
    torch.testing.assert_close(folded(pixels()), through(made, whole))
    assert all(torch.equal(value, before[name]) for name, value in whole.state_dict().items())  # left as it was
    shared = {value.data_ptr() for value in whole.parameters()} & {value.data_ptr() for value in folded.parameters()}
    assert len(shared) == len(list(whole.parameters())) - 2 * 6


def test_what_lies_below_does_not_depend_on_the_updates():
    assert backbone().lower(pixels(), 2).shape == (2, 1 + 16, WIDTH)
    whole = backbone()
    torch.testing.assert_close(whole.upper(whole.lower(pixels(), 2), 2), whole(pixels()))


@pytest.mark.parametrize(
    ("wrong", "blocks"),
    [({"layers": (1, 3)}, 2), ({}, 4), ({"name": "microsoft/swinv2-tiny-patch4-window8-256", "layers": (1,)}, 2)],
)
def test_blocks_that_cannot_be_split_off(wrong, blocks):
    from edgecape.weights.backbones import backbone_config

    settings = replace(BACKBONE, **wrong)
    whole = backbone(settings) if settings.name == "tiny" else Backbone(backbone_config(settings.name), settings)
    with pytest.raises(SettingsError, match="cannot be split off"):
        whole.below(blocks)


def test_another_width_is_named():
    with pytest.raises(SettingsError, match="does not fit"):
        LoRA(TWO, 2 * WIDTH).fold(backbone())


def test_numbers_that_make_no_sense():
    with pytest.raises(SettingsError, match="rank"):
        LoraSettings(blocks=1, rank=0)


# --- cached, trained, saved ---------------------------------------------------------------------------------------


def test_one_cache_serves_all_heads(tmp_path: Path):
    data = lamps(tmp_path / "photos", 2)
    crops = [plain_crop(one.image, one.box, SIZE) for one in data.instances]
    first = FeatureStore(backbone(), "tiny", tmp_path / "cache", blocks=2, lora=lora())
    mine = first.get(crops)
    assert first.computed == 2 and mine.shape == (2, 2 * WIDTH, 4, 4)
    other = first.with_lora(None)
    untouched = other.get(crops)
    assert other.computed == 0 and not torch.allclose(mine, untouched, atol=1e-3)
    plain = FeatureStore(backbone(), "tiny", tmp_path / "cache").get(crops)
    torch.testing.assert_close(untouched, plain, atol=2e-2, rtol=1e-2)  # rounded to float16 on the way


def test_what_is_cached_is_named_by_where_it_ends():
    """Layers may be counted from the end: of four blocks, -1 is the fourth."""
    three, four, last = (
        FeatureStore(backbone(replace(BACKBONE, layers=layers)), "tiny", blocks=1) for layers in ((3,), (4, -1), (-1,))
    )
    assert three.identity != four.identity == last.identity


def learns_features() -> PhaseSettings:
    rest = ("image_proj.", "keypoint_proj.", "encoder.", "proposal_generator.", "decoder.")
    return replace(
        PHASES["base"], name="adapt", freeze=rest, epochs=1, learning_rate=1e-2, warmup=2, heatmap_loss_weight=1.0
    )


def test_a_phase_learns_the_features_alone_and_the_model_keeps_them(tmp_path: Path):
    data = lamps(tmp_path / "photos", 6)
    store = FeatureStore(backbone(), "tiny", tmp_path / "cache", blocks=2)
    settings = training(8, phases=(learns_features(),), network=NETWORK, matching=MATCHING, initialisation="matching")
    before = {name: value.clone() for name, value in backbone().state_dict().items()}
    network = train(settings, data, store, tmp_path / "run", validation=data)
    assert all(torch.equal(value, before[name]) for name, value in store.backbone.state_dict().items())
    learned = lora_of(network)
    assert learned is not None
    ups = [value for name, value in learned.named_parameters() if name.endswith("up")]
    assert all(value.abs().max() > 0 for value in ups)

    runtime = TorchRuntime(network, store.backbone, "tiny", device="cpu")
    crops = [plain_crop(one.image, one.box, SIZE) for one in data.instances[:2]]
    frames = np.stack([crop.render(load_image(crop.photo), SIZE) for crop in crops])
    with torch.inference_mode():  # images and data sets go the same way
        torch.testing.assert_close(runtime.features(frames), FeatureStore.of(runtime).get(crops), atol=2e-2, rtol=1e-2)
    runtime.save(tmp_path / "saved")
    again = lora_of(load_model(tmp_path / "saved").network())
    assert again is not None and all(map(torch.equal, again.parameters(), learned.parameters()))


@pytest.mark.parametrize("matches", [True, False])
def test_baselines_see_features_that_nobody_trained(monkeypatch: pytest.MonkeyPatch, matches: bool):
    from edgecape.evaluation.benchmark import choose_methods

    network = MatchingNetwork(NETWORK, replace(MATCHING, direct_cosine=matches))
    model = TorchRuntime(network, backbone(), "tiny", device="cpu")
    monkeypatch.setattr(TorchRuntime, "load", lambda *_, **__: model)
    methods, _ = choose_methods("any", (3,), True, None)
    rows = {name: store for store, several in methods.items() for name in several}
    assert [name for name, store in rows.items() if store.folded is not store.backbone] == [
        "model, proposals",
        "model, graph none",
        "model, graph fixed",
        "model, graph predicted",
    ]
    assert {"copy support", "nearest feature, layer 3"} <= set(rows)
    assert ("whitened matching" in rows) == matches


def test_a_phase_in_which_nothing_could_learn(tmp_path: Path):
    data = lamps(tmp_path / "photos", 4)
    settings = training(2, phases=(learns_features(),), network=NETWORK, initialisation="matching")
    store = FeatureStore(backbone(), "tiny")
    with pytest.raises(SettingsError, match="freezes all that could learn"):
        train(settings, data, store, tmp_path / "run")
