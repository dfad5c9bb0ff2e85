from __future__ import annotations

import json
import shutil
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from edgecape import EdgeCape
from edgecape.cli.demo import program
from edgecape.cli.main import main
from edgecape.examples import all_examples
from edgecape.studio.limits import Limits
from edgecape.studio.models import Project
from edgecape.studio.project import ProjectStore

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
    assert str(tmp_path / "index.html") in out and "edgecape demo --studio" in out


def test_commands_to_try_can_be_typed_as_they_are(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inside = Path(".venv/bin/edgecape")
    inside.parent.mkdir(parents=True)
    inside.write_text("")
    inside.chmod(0o755)
    monkeypatch.setattr("sys.argv", [str(inside)])
    monkeypatch.setenv("PATH", "")
    assert program() == str(inside)
    monkeypatch.setenv("PATH", str(inside.parent.resolve()))
    assert program() == "edgecape"
    monkeypatch.setattr("sys.argv", ["main.py"])
    assert program() == "edgecape"


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
    page = (tmp_path / "out" / "index.html").read_text()
    assert "found on 1 other<" in page and str(tmp_path / "mine.json") in page


def test_names_are_written_in_larger_pictures(model, tmp_path: Path):
    for folder, options in (("plain", []), ("named", ["--names"])):
        assert main(["demo", "-o", str(tmp_path / folder), *options]) == 0
    plain, named = (Image.open(tmp_path / folder / "lamp.png").size for folder in ("plain", "named"))
    assert named[0] > 1.5 * plain[0] and named[1] > 1.5 * plain[1]


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


# --- a zoo -------------------------------------------------------------------------------------------------------

ZOO = Path(__file__).parents[2] / "examples/zoo"


class Page(HTMLParser):
    """Counts what a page holds, and notes what it would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.addresses: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.addresses += [value for name, value in attributes if name in ("href", "src")]


def test_the_zoo_on_one_page_that_needs_no_other_file(model, tmp_path: Path):
    assert main(["demo", "--support", str(ZOO / "horse.json"), "--query", str(ZOO), "-o", str(tmp_path)]) == 0
    text = (tmp_path / "index.html").read_text()
    page = Page()
    page.feed(text)
    others = [path.stem.replace("-", " ") for path in ZOO.glob("*.png") if path.stem != "horse"]
    assert len(others) == 14 and page.tags["figure"] == 2 + 14  # the horse is not looked for on itself
    assert all(f">{name}<" in text for name in others)
    assert page.tags["circle"] == 17 * (2 + 14) and "<title>left hind hoof: 0." in text
    assert page.addresses and all(address.startswith("data:") for address in page.addresses)
    assert "examples/zoo --studio" in text and "edgecape predict" in text


def test_names_from_files_are_text_on_the_page(model, tmp_path: Path):
    example = all_examples()[1]
    Image.fromarray(example.support.image).save(tmp_path / "a.png")
    Image.fromarray(example.queries[0]).save(tmp_path / "<b> & c.png")
    names = ["<script>", "&", "c", "d", "e", "f", "g", "h", "i"][: len(example.support.keypoints)]
    entry = {"image": "a.png", "keypoints": example.support.keypoints.tolist(), "names": names}
    (tmp_path / "mine.json").write_text(json.dumps(entry))
    mine, photo = str(tmp_path / "mine.json"), str(tmp_path / "<b> & c.png")
    assert main(["demo", "--support", mine, "--query", photo, "-o", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out/index.html").read_text()
    assert "<script" not in text and "&lt;script&gt;" in text and "<b>" not in text


def test_a_folder_with_nothing_but_the_support(model, tmp_path: Path, capsys):
    shutil.copy(ZOO / "horse.png", tmp_path)
    shutil.copy(ZOO / "horse.json", tmp_path)
    arguments = ["--support", str(tmp_path / "horse.json"), "--query", str(tmp_path), "-o", str(tmp_path / "out")]
    assert main(["demo", *arguments]) == 2
    assert "give others with --query" in capsys.readouterr().err


# --- in the studio -----------------------------------------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch) -> list[Path]:
    """Folders that the studio was opened on, with nobody to serve."""
    folders: list[Path] = []

    def serve(project, *_, **__):
        folders.append(project)

    monkeypatch.setattr("edgecape.studio.server.serve", serve)
    return folders


def project(folder: Path) -> Project:
    return ProjectStore(folder, Limits()).read()


def test_what_was_found_opens_in_the_studio(model, opened, tmp_path: Path, capsys):
    arguments = ["demo", "--support", str(ZOO / "horse.json"), "--query", str(ZOO / "zebra.png"), "-o", str(tmp_path)]
    assert main([*arguments, "--studio", "--no-browser"]) == 0
    (folder,) = opened
    made = project(folder)
    assert made.name == "horse" and len(made.names) == 17 and len(made.skeleton) == 18 and made.prior == "mine"
    assert made.shots[0].points[0].x == 197 and made.photos[made.shots[0].photo].width == 200
    (query,) = made.queries
    assert query.state == "predicted" and len(query.pose.keypoints) == 17 and not any(query.pose.moved)
    found = json.loads((tmp_path / "horse.json").read_text())["poses"][0]
    assert query.pose.keypoints == found["keypoints"]
    before = (folder / "project.json").read_bytes()
    assert main([*arguments, "--studio"]) == 0  # what somebody did there is kept
    assert opened == [folder, folder] and (folder / "project.json").read_bytes() == before
    assert "as it was left" in capsys.readouterr().out


def test_bundled_examples_in_the_studio(model, opened, tmp_path: Path):
    assert main(["demo", "-o", str(tmp_path), "--studio"]) == 0
    made = project(opened[0])
    assert made.name == "cat" and len(made.photos) == 3 and made.photos[made.queries[0].photo].name == "the same cat"


def test_a_photo_without_marks_opens_the_studio_to_mark_it(opened, tmp_path: Path, capsys):
    arguments = ["--support", str(ZOO / "horse.png"), "--query", str(ZOO / "zebra.png"), str(ZOO / "cow.png")]
    assert main(["demo", *arguments, "-o", str(tmp_path)]) == 0
    made = project(opened[0])
    assert made.names == [] and made.shots[0].points == [] and made.photos[made.shots[0].photo].name == "horse.png"
    assert [made.photos[query.photo].name for query in made.queries] == ["cow.png", "zebra.png"]
    assert all(query.state == "waiting" for query in made.queries)
    assert "no keypoints yet" in capsys.readouterr().out
    assert main(["demo", "--support", "no.png", "--query", str(ZOO / "cow.png"), "-o", str(tmp_path)]) == 2
    assert "no.png" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["horse-to-mark"]
