from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from edgecape import EdgeCape
from edgecape.cli.main import main
from edgecape.examples import all_examples

from toy import estimator


@pytest.fixture
def model(monkeypatch):
    made = estimator()
    monkeypatch.setattr("edgecape.predictor.EdgeCape.from_pretrained", lambda source=None: made)


def test_bundled_examples(model, tmp_path: Path, capsys):
    assert main(["demo", "-o", str(tmp_path)]) == 0
    for example in all_examples():
        with Image.open(tmp_path / f"{example.name}.png") as picture:
            assert picture.width > 800 and picture.height > 300
        content = json.loads((tmp_path / f"{example.name}.json").read_text())
        K = len(example.support.keypoints)
        assert len(content["poses"]) == len(example.queries)
        assert all(len(pose["keypoints"]) == len(pose["scores"]) == K for pose in content["poses"])
        assert len(content["graph"]) == K
    out = capsys.readouterr().out
    assert str(tmp_path) in out and "next:" in out


def test_your_own_pictures(model, tmp_path: Path):
    example = all_examples()[1]
    Image.fromarray(example.support.image).save(tmp_path / "a.png")
    Image.fromarray(example.queries[0]).save(tmp_path / "b.png")
    entry = {"image": "a.png", "keypoints": example.support.keypoints.tolist()}
    (tmp_path / "mine.json").write_text(json.dumps(entry))
    arguments = [
        "--support",
        str(tmp_path / "mine.json"),
        "--query",
        str(tmp_path / "b.png"),
        "-o",
        str(tmp_path / "out"),
    ]
    assert main(["demo", *arguments]) == 0
    assert (tmp_path / "out" / "mine.png").exists()


def test_names_are_written_in_larger_pictures(model, tmp_path: Path):
    for folder, options in (("plain", []), ("named", ["--names"])):
        assert main(["demo", "-o", str(tmp_path / folder), *options]) == 0
    plain, named = (Image.open(tmp_path / folder / "lamp.png").size for folder in ("plain", "named"))
    assert plain[1] == 350 and named[1] == 590 and named[0] > 1.5 * plain[0]


def test_half_a_request(capsys, tmp_path):
    assert main(["demo", "--query", "b.png", "-o", str(tmp_path)]) == 2
    assert "both --support and --query" in capsys.readouterr().err


def test_a_keypoint_that_is_not_found_is_null(model, tmp_path: Path, monkeypatch):
    predict = EdgeCape.predict

    def lose(*given, **options):
        poses = predict(*given, **options)
        for pose in poses:
            pose.keypoints[1], pose.proposals[1], pose.scores[1] = float("nan"), float("nan"), 0
        return poses

    monkeypatch.setattr(EdgeCape, "predict", lose)
    assert main(["demo", "-o", str(tmp_path)]) == 0
    for example in all_examples():
        text = (tmp_path / f"{example.name}.json").read_text()
        assert "NaN" not in text
        for pose in json.loads(text)["poses"]:
            assert [place is None for place in pose["keypoints"]] == [k == 1 for k in range(len(pose["scores"]))]
            assert pose["scores"][1] == 0 and len(pose["box"]) == 4
