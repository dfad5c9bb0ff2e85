from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgecape import formats
from edgecape.cli.main import main
from edgecape.cli.predict import find_photos
from edgecape.errors import ImageError

from toy import estimator, write_lamps


@pytest.fixture
def model(monkeypatch):
    made = estimator()
    monkeypatch.setattr("edgecape.predictor.EdgeCape.from_pretrained", lambda source=None: made)
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("photos")
    write_lamps(where, 5)
    return where


@pytest.fixture
def support(folder: Path, tmp_path: Path) -> Path:
    content = json.loads((folder / "lamps.json").read_text())
    points = np.array(content["annotations"][0]["keypoints"]).reshape(-1, 3)[:, :2].tolist()
    entry = {"image": str(folder / "1000.png"), "keypoints": points, "skeleton": content["categories"][0]["skeleton"]}
    path = tmp_path / "lamp.json"
    path.write_text(json.dumps(entry))
    return path


@pytest.mark.parametrize("format", ["csv", "coco", "deeplabcut", "labelstudio", "labelme", "yolo"])
def test_a_folder_in_any_format(model, folder, support, tmp_path, capsys, format):
    out = tmp_path / "out"
    assert main(["predict", str(folder), "--support", str(support), "-o", str(out), "--format", format, "--draw"]) == 0
    assert "5 of 5 photos done" in capsys.readouterr().out
    assert len(list((out / "drawn").iterdir())) == 5
    target = next(path for path in out.iterdir() if path.name.startswith("predictions"))
    assert target.exists() and not [path for path in out.rglob("*") if path.suffix == ".tmp"]


def test_the_file_holds_what_the_api_gives(model, folder, support, tmp_path):
    out = tmp_path / "out"
    main(["predict", str(folder / "1001.png"), "--support", str(support), "-o", str(out), "--format", "coco"])
    from edgecape.supports import read_supports

    pose = model.predict(model.prompt(read_supports(support)), [folder / "1001.png"])[0]
    (labels,) = formats.read(out / "predictions.json")
    np.testing.assert_allclose(labels.images[0].objects[0].keypoints, pose.keypoints, atol=1e-2)


def test_points_on_the_command_line_and_a_label_file(model, folder, tmp_path):
    out = tmp_path / "out"
    photo, other = str(folder / "1000.png"), str(folder / "1001.png")
    given = ["--points", "100,200 150,120 90,90", "--edges", "0-1 1-2"]
    assert main(["predict", other, "--support", photo, *given, "-o", str(out)]) == 0
    assert main(["predict", other, "--support", str(folder / "lamps.json"), "-o", str(out)]) == 0


def test_bad_photos_are_named_and_the_rest_is_done(model, folder, support, tmp_path, capsys):
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    Image.open(folder / "1001.png").save(mixed / "good.png")
    (mixed / "broken.jpg").write_bytes(b"no")
    (mixed / "empty.png").write_bytes(b"")
    assert main(["predict", str(mixed), "--support", str(support), "-o", str(tmp_path / "out")]) == 1
    captured = capsys.readouterr()
    assert "1 of 3 photos done" in captured.out
    assert "broken.jpg" in captured.err and "empty.png" in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing-*.jpg"], "names no photo"),
        (["PHOTO"], "no support"),
        (["PHOTO", "--support", "PHOTO"], "without marks"),
        (["PHOTO", "--support", "PHOTO", "--points", "1;2"], "points are"),
        (["PHOTO", "--support", "gone.json"], "gone.json"),
        (["PHOTO", "--support", "PHOTO", "--points", "1,2", "--format", "doc"], "no format 'doc'"),
    ],
)
def test_bad_input(model, folder, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    photo = str(folder / "1000.png")
    assert main(["predict", *(photo if word == "PHOTO" else word for word in arguments)]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "edgecape-output").exists()


def test_finding_photos(folder, tmp_path):
    listing = tmp_path / "list.txt"
    listing.write_text(f"{folder / '1003.png'}\n\n{folder / '1001.png'}\n")
    assert [path.name for path in find_photos((str(listing),))] == ["1003.png", "1001.png"]
    assert len(find_photos((str(folder), str(folder / "1000.png")))) == 5
    assert len(find_photos((str(folder / "100[12].png"),))) == 2
    with pytest.raises(ImageError, match="names no photo"):
        find_photos((str(tmp_path / "nothing"),))
