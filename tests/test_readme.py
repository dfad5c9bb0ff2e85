"""What the README and the help texts promise works as it stands there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgecape.cli.demo import demo
from edgecape.cli.main import COMMANDS, main
from edgecape.cli.predict import predict
from edgecape.examples.lamps import draw_lamp
from edgecape.io.video import write_video

from toy import estimator

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
SCRIPTS = [text for language, text in BLOCKS if language == "python"]
LINES = [
    line
    for language, text in BLOCKS
    if language != "python"
    for line in text.replace("\\\n", " ").splitlines()
    if line.startswith("edgecape ")
]
HELP = [
    line.strip().removeprefix("Example: ")
    for command in (predict, demo)
    for line in (command.__doc__ or "").splitlines()
    if "Example: " in line
]
RUN = ("predict", "demo")  # quick enough to be run; of the others, options are looked up


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files the examples speak of, with a small model; the current folder."""
    made = estimator()
    monkeypatch.setattr("edgecape.predictor.EdgeCape.from_pretrained", lambda source=None: made)
    monkeypatch.setattr("edgecape.studio.server.serve", lambda *given, **options: None)  # nobody sits before it
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    names = ["my.jpg", "cow1.jpg", "cow2.jpg", "cow3.jpg", "a.jpg", "b.jpg", "c.jpg", "photos/1.jpg", "photos/2.jpg"]
    for n, name in enumerate(names):
        Image.fromarray(draw_lamp((100.0 - 5 * n, -20.0, 40.0), hue=20 * n, ground=220, seed=n)[0]).save(name)
    content = {"image": "cow1.jpg", "keypoints": [[120, 80], [64, 200], [210, 190]], "skeleton": [[0, 1], [0, 2]]}
    Path("cow.json").write_text(json.dumps(content))
    write_video("clip.mp4", [np.asarray(Image.open("a.jpg"))] * 3, fps=10)
    return tmp_path


@pytest.mark.parametrize("script", SCRIPTS)
def test_python_examples(lab, script):
    names: dict = {}
    exec(compile(script, "README.md", "exec"), names)
    if "poses" in names:
        poses, prompt = names["poses"], names["prompt"]
        assert len(poses) == 2
        K = len(prompt)
        assert poses[0].keypoints.shape == (K, 2) and poses[0].scores.shape == (K,)
        assert prompt.graph.shape == prompt.prior.shape == (K, K)


def test_the_five_lines_are_there():
    assert any("model.predict(prompt" in script for script in SCRIPTS) and LINES and HELP


@pytest.mark.parametrize("line", [*LINES, *HELP])
def test_command_lines(lab, capsys, line):
    words = shlex.split(line, comments=True)[1:]
    if words[0] in RUN and not any("://" in word for word in words):
        before = set(lab.rglob("*"))
        assert main(words) == 0
        assert {".csv", ".json"} & {path.suffix for path in set(lab.rglob("*")) - before}
        return
    options = [word.split("=")[0] for word in words if word.startswith("--")]
    given = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    with pytest.raises(SystemExit) as stop:
        main([*words[:given], "--help"])
    said = capsys.readouterr().out
    assert stop.value.code == 0 and [option for option in options if option not in said] == []


def test_commands_that_are_spoken_of_exist():
    assert set(re.findall(r"`edgecape (\w+)", README)) <= set(COMMANDS)


def test_it_is_short():
    assert len(README.splitlines()) < 120
