"""Model folders that somebody, or a bad disk, has changed: used as they are, or refused in one sentence."""

from __future__ import annotations

import copy
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from edgecape import EdgeCape
from edgecape.errors import EdgeCapeError, SettingsError, WeightsError
from edgecape.examples import lamp
from edgecape.matching.scores import FEATURES, Calibration
from edgecape.matching.settings import LoraSettings, MatchingSettings, ViewSettings
from edgecape.weights.config import ModelConfig, _settings
from edgecape.weights.store import load_model

import toy

F = len(FEATURES)
MATCHING = MatchingSettings(views=ViewSettings(mirror=True, scales=(1.0, 0.9)))
DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory):
    """A folder with a model of ours that has a calibration."""
    folder = tmp_path_factory.mktemp("models") / "model"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgecape.runtime.torch_runtime.load_backbone", lambda *_: (toy.ToyBackbone(), "toy"))
        made = toy.estimator(matching=MATCHING)
        made.torch_runtime.calibration = Calibration((0.0,) * F, (1.0,) * F, (0.1,) * (2 * F), 0.5)
        made.save_pretrained(folder)
        yield folder


def load(folder: Path) -> EdgeCape:
    return EdgeCape.from_pretrained(folder, device="cpu")


def refused(folder: Path) -> str:
    with pytest.raises(EdgeCapeError) as caught:
        load(folder)
    said = str(caught.value)
    assert "\n" not in said and len(said) < 600
    return said


@pytest.fixture
def config(model: Path):
    """What config.json says; what a test leaves there is taken back."""
    before = (model / "config.json").read_text()
    yield json.loads(before)
    (model / "config.json").write_text(before)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("network", "width"), "32", "setting 'width' cannot be '32'"),
        (("network", "width"), 32.5, "'width' cannot be 32.5"),
        (("network", "width"), True, "'width' cannot be True"),
        (("network", "width"), 10**400, "'width' cannot be 1000"),
        (("network", "width"), DEEP, "'width' cannot be "),
        (("network", "heads"), 0, "heads is 0"),
        (("network", "dropout"), math.nan, "'dropout' cannot be nan"),
        (("network", "graph"), "drawn", "'graph' cannot be 'drawn'"),
        (("network", "wings"), 2, "unknown setting 'wings'"),
        (("network", "encoder_layers"), 900_000, "do not fit 900003 layers"),
        (("network", "ffn"), 900_000, "'encoder.layers.0"),
        (("network",), [1], "settings are a table of names and values"),
        (("backbone", "image_size"), [112], r"'image_size' cannot be \(112,\)"),
        (("backbone", "image_size"), [112, 5000], "both sides must be in 1 to 4096"),
        (("backbone", "layers"), [], "at least one layer"),
        (("backbone", "fingerprint"), 7, "fingerprint of the backbone is a text"),
        (("backbone",), None, "damaged"),
        (("matching", "voting"), None, "'voting' cannot be None"),
        (("matching", "voting"), 7, "settings are a table"),
        (("matching", "voting", "rounds"), 10**6, "1000000 rounds"),
        (("matching", "voting", "near"), [0.1, math.inf], "'near' cannot be"),
        (("matching", "views", "scales"), [1e-300], "crop sizes in 0.1 to 10"),
        (("matching", "lora"), {"blocks": 5, "rank": 2}, "do not fit"),
        (("training",), "yesterday", "what is told of the training a table"),
        (("calibration",), "good", "calibration is damaged"),
        (("calibration",), [], "calibration is damaged"),
        (("calibration", "mean"), "0" * F, "is no list of numbers"),
        (("calibration", "mean"), [0.0], "fitted by another version of edgecape: to 1"),
        (("calibration", "mean"), ["0"] * F, "'0' is no number"),
        (("calibration", "mean"), [math.nan] * F, "nan is no number"),
        (("calibration", "deviation"), [0.0] * F, "deviations above 0"),
        (("calibration", "deviation"), [1.0] * (F + 1), f"{F + 1} and {2 * F}"),
        (("calibration", "weights"), [1.0] * F, f"{F} and {F}"),
        (("calibration", "weights"), [10**400] * 2 * F, "is no number"),
        (("calibration", "bias"), None, "None is no number"),
    ],
)
def test_a_wrong_value_in_the_configuration(model: Path, config, place, value, message):
    at = config
    for name in place[:-1]:
        at = at[name]
    at[place[-1]] = value
    (model / "config.json").write_text(json.dumps(config))
    said = refused(model)
    assert re.search(message, said), said


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "", "null", "7", "{}", '{"format": [[]]}', "\0"])
def test_what_is_no_configuration(model: Path, config, text):
    (model / "config.json").write_text(text)
    assert "config.json" in refused(model) or "format" in refused(model)


# --- anything ------------------------------------------------------------------------------------------------------

ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 40), st.floats(), st.just(10**400), st.text(max_size=5), st.just(DEEP),
    st.lists(st.integers(-2, 300), max_size=3), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Of every value of a tree, but for the training's, which no prediction depends on."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [place for key, one in inner if key != "training" for place in places(one, (*path, key))]
    return [path, *below] if path else below


def answer(folder: Path) -> str:
    """What is said of a model; nothing if it predicts."""
    example = lamp()
    try:
        loaded = load(folder)
        (pose,) = loaded.predict(loaded.prompt(example.support), [example.queries[0]])
    except EdgeCapeError as error:
        return str(error)
    return "" if pose.keypoints.shape == example.support.keypoints.shape else "the\nwrong shape"


def change(content: Any, path: tuple[Any, ...], value: Any, how: str) -> Any:
    content = copy.deepcopy(content)
    at = content
    for key in path[:-1]:
        at = at[key]
    if how == "remove":
        del at[path[-1]]
    elif how == "add" and isinstance(at, dict):
        at["new"] = value
    else:
        at[path[-1]] = value
    return content


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_of_the_configuration(model: Path, config, data):
    """It is refused in one sentence, or the model predicts."""
    path = data.draw(st.sampled_from(places(config)))
    changed = change(config, path, data.draw(ODD), data.draw(st.sampled_from(("set", "remove", "add"))))
    (model / "config.json").write_text(json.dumps(changed))
    said = answer(model)
    assert "\n" not in said and len(said) < 600


@dataclass(frozen=True)
class Wings:
    number: int | None = None
    kinds: tuple[Literal["left", "right"], ...] = ()
    span: tuple[float, float] = (0.0, 1.0)


@pytest.mark.parametrize(
    ("values", "fine"),
    [
        ({"number": None}, True),
        ({"number": 2, "kinds": [], "span": [1, 2.5]}, True),
        ({"kinds": ["left", "right", "left"]}, True),
        ({"number": "2"}, False),
        ({"number": 2.0}, False),
        ({"kinds": ["up"]}, False),
        ({"kinds": "left"}, False),
        ({"span": [1]}, False),
        ({"span": [1, None]}, False),
    ],
)
def test_a_setting_takes_what_its_type_says(values, fine):
    if fine:
        assert _settings(Wings, values) == Wings(**{k: tuple(v) if type(v) is list else v for k, v in values.items()})
        return
    with pytest.raises(SettingsError, match="cannot be"):
        _settings(Wings, values)


def test_settings_survive_the_round_trip():
    config = ModelConfig(toy.NETWORK, MatchingSettings(lora=LoraSettings(blocks=2)), "abc", None, {"phase": "base"})
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


# --- tensors -------------------------------------------------------------------------------------------------------


def wrong(state: dict[str, torch.Tensor], how: str) -> dict[str, torch.Tensor]:
    name = "image_proj.weight"
    if how == "empty":
        return {}
    if how == "lacks":
        return {key: value for key, value in state.items() if key != name}
    other = {
        "shape": state[name][:, :3].contiguous(),
        "nan": torch.full_like(state[name], float("nan")),
        "scalar": torch.tensor(1.0),
    }
    return state | ({"wings": torch.zeros(2)} if how == "more" else {name: other[how]})


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("empty", "they are 0 tensors"),
        ("lacks", "they lack 'image_proj.weight'"),
        ("more", "they hold 'wings'"),
        ("shape", r"'image_proj.weight' is \(64, 3, 1, 1\) where \(64, 24, 1, 1\) is wanted"),
        ("scalar", r"'image_proj.weight' is \(\) where"),
        ("nan", "'image_proj.weight' has values that are not numbers"),
    ],
)
def test_wrong_tensors(model: Path, tmp_path: Path, how: str, message: str):
    (tmp_path / "config.json").write_text((model / "config.json").read_text())
    save_file(wrong(load_file(model / "model.safetensors"), how), tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match=message) as caught:
        load_model(tmp_path).network()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"state_dict": {}},
        {"state_dict": {"a": 1}},
        {"state_dict": {1: torch.zeros(2)}},
        {"state_dict": [torch.zeros(2)]},
        {"state_dict": {"keypoint_head_module.a": torch.zeros(2)}},
        {"state_dict": {"keypoint_head_module.input_proj.weight": torch.tensor(1.0)}},
        {"state_dict": {"keypoint_head.transformer.encoder.layers.x.a": torch.zeros(2)}},
        [torch.zeros(2)],
    ],
)
def test_checkpoints_of_nothing(tmp_path: Path, content: Any):
    torch.save(content, tmp_path / "a.pth")
    with pytest.raises(WeightsError) as caught:
        EdgeCape.from_pretrained(tmp_path / "a.pth", device="cpu", phase=1)
    assert "\n" not in str(caught.value)
