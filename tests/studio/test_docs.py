"""The script in docs/studio.md runs as it stands there."""

from __future__ import annotations

import json
import re
from pathlib import Path

from PIL import Image

from edgecape.cli.studio import studio

from service import client, lamp, serving

TEXT = (Path(__file__).parents[2] / "docs" / "studio.md").read_text(encoding="utf-8")


def test_the_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    for n in range(4):
        Image.fromarray(lamp(n)[0]).save(f"photos/{n}.jpg")
    (script,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    with serving(client(tmp_path / "project").app) as address:
        exec(compile(script.replace("http://127.0.0.1:7860", address), "docs/studio.md", "exec"), names := {})
    content = json.loads(Path("cows.json").read_text())
    assert [image["file_name"] for image in content["images"]] == [f"{n}.jpg" for n in range(4)]
    assert content["annotations"][0]["keypoints"] == [120, 80, 2, 64, 200, 2, 210, 190, 2]
    assert len(names["poses"]) == 3 and content["categories"][0]["skeleton"] == [[1, 2], [1, 3]]


def test_its_options_exist():
    options = set(re.findall(r"`(?:--\w+ \w+ )?(--[a-z-]+)", TEXT))
    assert options >= {"--port", "--no-browser", "--token", "--model"}
    assert all(option[2:].replace("-", "_") in (studio.__doc__ or "") for option in options)
