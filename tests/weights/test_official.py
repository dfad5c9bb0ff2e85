"""Whole official checkpoints, made of the released key lists with random values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from edgecape import EdgeCape, Support
from edgecape.cli.main import main
from edgecape.errors import WeightsError
from edgecape.model.network import Network
from edgecape.weights.official import read_official

State = dict[str, torch.Tensor]


def random_state(shapes: dict[str, list[int]]) -> State:
    """Values that differ from key to key; the two copies of the backbone agree."""
    state: State = {}
    for index, (key, shape) in enumerate(sorted(shapes.items())):
        twin = key.replace("encoder_sample.", "encoder_query.")
        if twin != key and twin in state:
            state[key] = state[twin]
            continue
        generator = torch.Generator().manual_seed(index)
        state[key] = 0.02 * torch.randn(shape, generator=generator)
    for key in state:
        if key.startswith("encoder_sample."):
            state[key] = state[key.replace("encoder_sample.", "encoder_query.")]
    return state


@pytest.fixture(scope="module")
def edgecape_keys(shared: Path) -> dict[str, Any]:
    return json.loads((shared / "golden" / "edgecape_state_dict_keys.json").read_text())


@pytest.fixture(scope="module")
def phase3(edgecape_keys) -> State:
    return random_state(edgecape_keys["phase3"])


def save(path: Path, state: State, **meta: Any) -> Path:
    torch.save({"meta": meta, "state_dict": state}, path)
    return path


@pytest.mark.parametrize(
    ("phase", "prior", "bias"), [(1, "fixed", "off"), (2, "predicted", "off"), (3, "predicted", "markov")]
)
def test_every_phase_loads(edgecape_keys, tmp_path, phase, prior, bias):
    state = random_state(edgecape_keys[f"phase{phase}"])
    path = save(tmp_path / "o.pth", state, config=f"learn_skeleton={phase > 1},")
    official = read_official(path)
    assert (official.settings.graph, official.settings.bias) == (prior, bias)
    assert official.settings.pad_keypoints_to == (0 if phase == 1 else 100)
    Network(official.settings).load_state_dict(official.head)
    assert len(official.backbone) == 222


def test_phases_1_and_2_look_alike_and_must_be_told_apart(edgecape_keys, tmp_path):
    path = save(tmp_path / "o.pth", random_state(edgecape_keys["phase1"]))
    with pytest.raises(WeightsError, match="phase 1 or 2"):
        read_official(path)
    assert read_official(path, phase=1).settings.graph == "fixed"
    assert read_official(path, phase=2).settings.graph == "predicted"
    with pytest.raises(WeightsError, match="phase 1 or 2"):
        read_official(path, phase=3)


def test_the_wrong_phase_is_refused(phase3, tmp_path):
    with pytest.raises(WeightsError, match="phase 3, not 2"):
        read_official(save(tmp_path / "o.pth", phase3), phase=2)


def test_values_arrive_where_they_belong(phase3, tmp_path):
    official = read_official(save(tmp_path / "o.pth", phase3))
    head = "keypoint_head_module."
    stacked = phase3[f"{head}transformer.encoder.layers.1.self_attn.in_proj_weight"]
    assert torch.equal(official.head["encoder.layers.1.attention.k_proj.weight"], stacked[256:512])
    graph = phase3[f"{head}transformer.decoder.layers.2.ffn1.conv.weight"]
    assert torch.equal(official.head["decoder.layers.2.ffn.neighbours.weight"], graph[384:, :, 0])
    assert official.head["pose_graph.c"].item() == phase3[f"{head}skeleton_head.zero_conv.weight"].item()
    qkv = phase3["encoder_query.blocks.3.attn.qkv.weight"]
    assert torch.equal(official.backbone["encoder.layer.3.attention.attention.value.weight"], qkv[768:])


def test_missing_left_over_and_foreign_keys_are_named(phase3, tmp_path):
    key = "keypoint_head_module.kpt_branch.1.mlp.4.bias"
    with pytest.raises(WeightsError, match=r"kpt_branch\.1\.mlp\.4\.bias"):
        read_official(save(tmp_path / "a.pth", {k: v for k, v in phase3.items() if k != key}))
    with pytest.raises(WeightsError, match="surprise"):
        read_official(save(tmp_path / "b.pth", phase3 | {"keypoint_head_module.surprise": torch.zeros(1)}))
    with pytest.raises(WeightsError, match=r"blocks\.0\.extra"):
        extra = {f"encoder_{side}.blocks.0.extra": torch.zeros(1) for side in ("query", "sample")}
        read_official(save(tmp_path / "c.pth", phase3 | extra))
    with pytest.raises(WeightsError, match="different backbones"):
        read_official(save(tmp_path / "d.pth", phase3 | {"encoder_query.norm.bias": torch.ones(384)}))
    with pytest.raises(WeightsError, match="neither"):
        read_official(save(tmp_path / "e.pth", {"weight": torch.zeros(1)}))


def test_the_2024_layout_is_refused(edgecape_keys, tmp_path):
    state = {key: torch.zeros(1) for key in edgecape_keys["preICLR_5d98d2f_phase3_testcfg"]}
    with pytest.raises(WeightsError, match="2024 pre-ICLR"):
        read_official(save(tmp_path / "o.pth", state))


class Harmful:
    """Would write a file if it were unpickled."""

    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self):
        return (Path.write_text, (self.target, "executed"))


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path):
    torch.save({"state_dict": {}, "extra": Harmful(tmp_path / "proof")}, tmp_path / "bad.pth")
    with pytest.raises(WeightsError, match="run code"):
        read_official(tmp_path / "bad.pth")
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 truncated", b"text"])
def test_unreadable_files(tmp_path, content):
    (tmp_path / "bad.pth").write_bytes(content)
    with pytest.raises(WeightsError, match=r"bad\.pth"):
        read_official(tmp_path / "bad.pth")


def test_graphcape_loads_with_its_own_backbone(shared, tmp_path):
    keys = json.loads((shared / "golden" / "graphcape_state_dict_keys.json").read_text())["swinv2_tiny_graph_pre"]
    official = read_official(save(tmp_path / "g.pth", random_state(keys)))
    settings = official.settings
    assert settings.graph == "fixed" and settings.decoder_positions and settings.aggregate_transposed
    assert settings.backbone.image_size == (256, 256) and settings.map_stride == 4.0
    Network(settings).load_state_dict(official.head)


def test_convert_and_predict(phase3, tmp_path, capsys):
    """The command's folder is complete and predicts what the checkpoint itself does."""
    checkpoint = save(tmp_path / "o.pth", phase3)
    assert main(["convert", str(checkpoint), str(tmp_path / "model")]) == 0
    assert "graph predicted, bias markov" in capsys.readouterr().out
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (80, 120, 3), dtype=np.uint8))
    support = Support(picture, [(20, 30), (100, 60), (60, 40)], [(0, 1), (1, 2)])
    poses = []
    for source in (checkpoint, tmp_path / "model"):
        model = EdgeCape.from_pretrained(source, device="cpu")
        poses.append(model.predict(model.prompt(support), [picture])[0].keypoints)
    np.testing.assert_allclose(poses[0], poses[1], atol=1e-4)
    assert main(["convert", str(checkpoint), str(tmp_path / "model")]) == 2
    assert "holds a model already" in capsys.readouterr().err
