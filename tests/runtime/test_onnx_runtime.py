"""A model as ONNX graphs: the same prompts and predictions, without torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgecape import EdgeCape, Prompt, Support
from edgecape.cli.main import main
from edgecape.errors import SettingsError, WeightsError
from edgecape.matching.settings import MatchingSettings, ViewSettings
from edgecape.runtime import export
from edgecape.runtime.onnx_runtime import FACTS, OnnxRuntime

import toy

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

ALL = ViewSettings(
    mirror=True, mirror_query=True, quarter_turns=True, scales=(1.0, 0.85), auto_margin=2.0, auto_fit=-9.0
)
NAMES = ("foot left", "foot right", *(f"part {k}" for k in range(2, 7)))


@pytest.fixture(scope="module")
def model() -> EdgeCape:
    return toy.estimator(matching=MatchingSettings(views=ALL))


@pytest.fixture(scope="module", autouse=True)
def _traced_once():
    """Tracing takes seconds and is the same for every precision."""
    trace, traced = export._traced, {}

    def once(module, inputs, dims):
        key = (type(module), getattr(module, "fast", None), id(getattr(module, "multiview", None)))
        if key not in traced:
            traced[key] = trace(module, inputs, dims), module  # kept, so that no other gets its id
        return traced[key][0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "_traced", once)
        yield


@pytest.fixture(scope="module")
def exported(model: EdgeCape, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    model.export(folder)
    return folder


@pytest.fixture(scope="module")
def lamps(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Support], list[Path]]:
    from edgecape.formats.supports import read_supports

    shots = read_supports(toy.write_lamps(tmp_path_factory.mktemp("lamps"), 8)).supports
    return shots[:3], [Path(shot.image) for shot in shots[3:]]


@pytest.mark.parametrize("shots", [1, 3])
@pytest.mark.parametrize("names", [None, NAMES])
def test_the_same_prompts_and_poses_at_every_effort(model, exported, lamps, shots, names):
    other = EdgeCape.from_pretrained(exported)
    assert isinstance(other.runtime, OnnxRuntime) and other.fingerprint == model.fingerprint
    supports = [Support(s.image, s.keypoints, s.skeleton, names=names) for s in lamps[0][:shots]]
    mine, theirs = model.prompt(supports), other.prompt(supports)
    for name in ("tokens", "places", "graph"):
        np.testing.assert_allclose(getattr(theirs, name), getattr(mine, name), atol=1e-4, err_msg=name)
    used = set()
    for effort in ("fast", "auto", "best"):
        for prompt in (mine, theirs):  # a prompt of one is good for the other
            pairs = zip(*(one.predict(prompt, lamps[1], effort=effort) for one in (model, other)), strict=True)
            for a, b in pairs:
                assert np.abs(a.keypoints - b.keypoints).max() < 1e-4 * max(a.box[2:])
                np.testing.assert_allclose(b.scores, a.scores, atol=1e-4)
                assert a.effort == b.effort
                used.add((effort, a.effort))
    assert used >= {("fast", "fast"), ("best", "best")}


@pytest.mark.parametrize("keypoints", [1, 2, 40])
def test_any_number_of_keypoints(model, exported, lamps, keypoints):
    points = np.random.default_rng(0).random((keypoints, 2)) * 60 + 20
    support = Support(lamps[0][0].image, points)
    for effort in ("fast", "best"):
        a, b = (
            one.predict(one.prompt(support), lamps[1][0], effort=effort)[0]
            for one in (model, EdgeCape.from_pretrained(exported))
        )
        assert np.abs(a.keypoints - b.keypoints).max() < 1e-4 * max(a.box[2:])


def test_a_network_as_published_is_exported_too(lamps, tmp_path):
    published = toy.estimator(matching=None)
    published.export(tmp_path / "out")
    other = EdgeCape.from_pretrained(tmp_path / "out")
    for a, b in zip(*(one.predict(one.prompt(lamps[0][0]), lamps[1]) for one in (published, other)), strict=True):
        assert np.abs(a.keypoints - b.keypoints).max() < 1e-4 * max(a.box[2:])


@pytest.mark.parametrize(("precision", "off"), [("fp16", 0.02), ("int8", 0.3)])
def test_smaller_weights_find_nearly_the_same(model, lamps, tmp_path, exported, precision, off):
    model.export(tmp_path, precision)
    sizes = [sum(path.stat().st_size for path in folder.glob("*.onnx")) for folder in (tmp_path, exported)]
    assert sizes[0] < sizes[1]
    prompt = model.prompt(lamps[0][0])
    found = EdgeCape.from_pretrained(tmp_path).predict(prompt, lamps[1], effort="fast")
    away = [np.abs(a.keypoints - b.keypoints).max() / max(a.box[2:]) for a, b in
            zip(found, model.predict(prompt, lamps[1], effort="fast"), strict=True)]  # fmt: skip
    assert np.median(away) < off


def test_it_runs_where_there_is_no_torch(exported, lamps, tmp_path):
    """Neither torch nor transformers is imported: both are blocked."""
    model = EdgeCape.from_pretrained(exported)
    model.prompt(lamps[0][0]).save(tmp_path / "lamp.prompt")
    code = f"""
import sys
sys.modules["torch"] = sys.modules["transformers"] = None
from edgecape import EdgeCape, Prompt
prompt = Prompt.load({str(tmp_path / "lamp.prompt")!r})
pose = EdgeCape.from_pretrained({str(exported)!r}).predict(prompt, {str(lamps[1][0])!r})[0]
print(pose.keypoints.tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = model.predict(Prompt.load(tmp_path / "lamp.prompt"), lamps[1][0])[0].keypoints
    np.testing.assert_allclose(json.loads(done.stdout), expected, atol=1e-3)


def test_a_folder_that_is_damaged_is_refused(exported, lamps, tmp_path):
    with pytest.raises(WeightsError, match="is no exported model"):
        OnnxRuntime(tmp_path)
    folder = tmp_path / "copy"
    shutil.copytree(exported, folder)
    (folder / "features.onnx").write_bytes(b"nothing")
    with pytest.raises(WeightsError, match=r"features\.onnx is missing or damaged; export the model again"):
        EdgeCape.from_pretrained(folder).prompt(lamps[0][0])
    facts = json.loads((folder / FACTS).read_text())
    for content, message in (
        ({**facts, "format": 99}, "another version"),
        ({"format": 1}, "damaged"),
        ({**facts, "more": 1}, "damaged"),
        ([], "damaged"),
    ):
        (folder / FACTS).write_text(json.dumps(content))
        with pytest.raises(WeightsError, match=message):
            EdgeCape.from_pretrained(folder)


def test_what_only_torch_can_do_is_refused(exported, tmp_path):
    model = EdgeCape.from_pretrained(exported)
    for wish in (lambda: model.to("cpu"), lambda: model.save_pretrained(tmp_path), lambda: model.export(tmp_path)):
        with pytest.raises(SettingsError, match="does not run in torch"):
            wish()


def test_the_commands(exported, model, lamps, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(EdgeCape, "from_pretrained", classmethod(lambda cls, *a, **k: model))
    assert main(["export", str(tmp_path / "out")]) == 0
    assert f"use it with --model {tmp_path / 'out'}" in capsys.readouterr().out
    monkeypatch.undo()
    support = tmp_path / "lamp.json"
    shot = lamps[0][0]
    support.write_text(json.dumps({"image": str(shot.image), "keypoints": shot.keypoints.tolist()}))
    wanted = ["predict", str(lamps[1][0]), "--support", str(support), "-o", str(tmp_path / "found"), "--effort", "fast"]
    assert main([*wanted, "--model", str(exported), "--runtime", "onnx"]) == 0
    assert (tmp_path / "found/predictions.csv").is_file()
    assert json.loads((tmp_path / "found/run.json").read_text())["looked for"]["effort"] == "fast"
    capsys.readouterr()
    assert main([*wanted[:-1], "best", "--model", str(exported)]) == 2
    assert "effort" in capsys.readouterr().err
    assert main([*wanted, "--runtime", "onnx"]) == 2
    assert "edgecape export OUT" in capsys.readouterr().err
