"""Changes that a head makes to the backbone: none at the start, saved with the head, learned without the backbone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from edgecape.data.crops import View
from edgecape.data.features import Crop, FeatureStore
from edgecape.errors import SettingsError
from edgecape.geometry import crop_transform
from edgecape.io.images import load_image
from edgecape.model.adapter import Adapter
from edgecape.model.backbone import Backbone
from edgecape.model.network import Network
from edgecape.model.settings import BackboneSettings, NetworkSettings
from edgecape.predictor import EdgeCape
from edgecape.training.loop import train
from edgecape.training.settings import PHASES, PhaseSettings
from edgecape.weights.store import load_model

from toy import TINY_WIDTH as WIDTH
from toy import lamps, tiny_dinov2, training

SIZE = (56, 56)
ADAPTED = BackboneSettings("tiny", SIZE, layers=(2, 3), adapted=2, rank=3)
NETWORK = NetworkSettings(
    channels=2 * WIDTH, width=16, heads=2, ffn=16, encoder_layers=1, decoder_layers=1, dropout=0.0, backbone=ADAPTED
)


def backbone(settings: BackboneSettings = ADAPTED) -> Backbone:
    torch.manual_seed(0)
    return Backbone(tiny_dinov2(layers=4), settings).eval()


def adapter(changed: bool = True) -> Adapter:
    torch.manual_seed(1)
    made = Adapter(2, WIDTH, 3)
    made.reset_parameters()
    if changed:
        for name, value in made.named_parameters():
            if name.endswith("up"):
                torch.nn.init.normal_(value)
    return made


def pixels(batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 3, *SIZE, generator=torch.Generator().manual_seed(2))


def test_at_the_start_nothing_is_changed():
    plain = backbone(replace(ADAPTED, adapted=0))(pixels())
    assert torch.equal(backbone()(pixels(), adapter(changed=False)), plain)
    assert torch.equal(backbone()(pixels()), plain)


def test_the_changes_are_low_rank_and_those_of_the_linear_maps():
    made, whole = adapter(), backbone()
    changed = backbone()(pixels(), made)
    assert not torch.allclose(changed, whole(pixels()), atol=1e-3)
    for number, block in enumerate(whole.model.encoder.layer[1:]):
        own = dict(block.named_parameters())
        for name, weight in made.changed(number, block).items():
            assert torch.linalg.matrix_rank(weight - own[name]) == 3
            own[name].data.copy_(weight)
    torch.testing.assert_close(whole(pixels()), changed)  # the same made by hand


def test_what_lies_below_does_not_depend_on_the_changes():
    both = backbone()
    begun = both.begin(pixels())
    assert begun.shape == (2, 1 + 16, WIDTH)
    torch.testing.assert_close(both.finish(begun, adapter()), both(pixels(), adapter()))


@pytest.mark.parametrize(
    "wrong",
    [{"layers": (1, 3)}, {"adapted": 4}, {"name": "microsoft/swinv2-tiny-patch4-window8-256", "layers": (1,)}],
)
def test_blocks_that_cannot_be_adapted(wrong):
    from edgecape.weights.backbones import backbone_config

    settings = replace(ADAPTED, **wrong)
    with pytest.raises(SettingsError, match="adapted blocks"):
        if settings.name == "tiny":
            backbone(settings)
        else:
            Backbone(backbone_config(settings.name), settings)


def test_another_width_is_named():
    with pytest.raises(SettingsError, match="cannot be adapted"):
        backbone()(pixels(), Adapter(2, 2 * WIDTH, 3))


def test_numbers_that_make_no_sense():
    with pytest.raises(SettingsError, match="rank"):
        BackboneSettings(adapted=1, rank=0)


# --- cached, trained, saved ---------------------------------------------------------------------------------------


def test_one_cache_serves_all_heads(tmp_path: Path):
    data = lamps(tmp_path / "photos", 2)
    crops = [Crop(one.image, View(crop_transform(one.box, SIZE))) for one in data.instances]
    first = FeatureStore(backbone(), "tiny", tmp_path / "cache", adapter=adapter())
    mine = first.get(crops)
    assert first.computed == 2 and mine.shape == (2, 2 * WIDTH, 4, 4)
    other = first.adapted(None)
    untouched = other.get(crops)
    assert other.computed == 0 and not torch.allclose(mine, untouched, atol=1e-3)
    plain = FeatureStore(backbone(replace(ADAPTED, adapted=0)), "tiny", tmp_path / "cache").get(crops)
    torch.testing.assert_close(untouched, plain, atol=2e-2, rtol=1e-2)  # rounded to float16 on the way


def test_what_is_cached_is_named_by_where_it_ends():
    """Layers may be counted from the end: of four blocks, -1 is the fourth."""
    ends = [FeatureStore(backbone(replace(ADAPTED, layers=layers, adapted=1)), "tiny") for layers in ((3,), (4, -1))]
    assert [store.backbone.below for store in ends] == [2, 3]
    assert len({store.identity for store in ends}) == 2
    same = FeatureStore(backbone(replace(ADAPTED, layers=(-1,), adapted=1)), "tiny")
    assert same.identity == ends[1].identity


def learns_features() -> PhaseSettings:
    rest = ("image_proj.", "keypoint_proj.", "encoder.", "proposal_generator.", "decoder.")
    return replace(
        PHASES["base"], name="adapt", freeze=rest, epochs=1, learning_rate=1e-2, warmup=2, heatmap_loss_weight=1.0
    )


def test_a_phase_learns_the_features_alone_and_the_model_keeps_them(tmp_path: Path):
    data = lamps(tmp_path / "photos", 6)
    store = FeatureStore(backbone(), "tiny", tmp_path / "cache")
    settings = training(8, phases=(learns_features(),), network=NETWORK, initialisation="matching")
    before = {name: value.clone() for name, value in backbone().state_dict().items()}
    network = train(settings, data, store, tmp_path / "run", validation=data)
    assert all(torch.equal(value, before[name]) for name, value in store.backbone.state_dict().items())
    assert network.adapter is not None
    ups = [value for name, value in network.adapter.named_parameters() if name.endswith("up")]
    assert all(value.abs().max() > 0 for value in ups)

    model = EdgeCape(network, store.backbone, "tiny", device="cpu")
    crops = [Crop(one.image, View(crop_transform(one.box, SIZE))) for one in data.instances[:2]]
    frames = [crop.view.render(load_image(crop.image), SIZE, crop.augment) for crop in crops]
    with torch.inference_mode():  # images and data sets go the same way
        torch.testing.assert_close(model._features(frames), FeatureStore.of(model).get(crops), atol=2e-2, rtol=1e-2)
    model.save_pretrained(tmp_path / "saved", with_backbone=False)
    stored = load_model(tmp_path / "saved")
    again = Network(stored.settings)
    again.load_state_dict(stored.head)
    assert again.adapter is not None
    assert all(map(torch.equal, again.adapter.parameters(), network.adapter.parameters()))


@pytest.mark.parametrize("matches", [True, False])
def test_baselines_see_features_that_nobody_trained(monkeypatch: pytest.MonkeyPatch, matches: bool):
    from edgecape.evaluation.benchmark import choose_methods

    network = Network(replace(NETWORK, direct_match=matches))
    model = EdgeCape(network, backbone(), "tiny", device="cpu")
    monkeypatch.setattr(EdgeCape, "from_pretrained", lambda *_, **__: model)
    methods, _ = choose_methods("any", (3,), True, None)
    rows = {name: store.adapter for store, localisers in methods.items() for name in localisers}
    assert [name for name, changes in rows.items() if changes is not None] == [
        "model, proposals",
        "model, graph none",
        "model, graph fixed",
        "model, graph predicted",
    ]
    assert {"copy support", "nearest feature, layer 3"} <= set(rows)
    assert ("whitened matching" in rows) == matches


def test_a_phase_in_which_nothing_could_learn(tmp_path: Path):
    data = lamps(tmp_path / "photos", 4)
    unadapted = replace(NETWORK, backbone=replace(ADAPTED, adapted=0))
    settings = training(2, phases=(learns_features(),), network=unadapted, initialisation="matching")
    store = FeatureStore(backbone(unadapted.backbone), "tiny")
    with pytest.raises(SettingsError, match="freezes all that could learn"):
        train(settings, data, store, tmp_path / "run")
