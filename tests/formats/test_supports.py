from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from edgecape.errors import AnnotationError, DataError, EdgeCapeError, SettingsError
from edgecape.formats.supports import read_supports

from coco_files import picture
from toy import write_lamps

ENTRY = {
    "image": "a.jpg",
    "keypoints": [[1, 2], [3, 4]],
    "skeleton": [[0, 1]],
    "names": ["x", "y"],
    "box": [0, 0, 9, 9],
}


def write(folder: Path, content: object) -> Path:
    path = folder / "support.json"
    path.write_text(json.dumps(content))
    picture(folder / "a.jpg")
    return path


def test_the_small_json(tmp_path):
    (support,), notes = read_supports(write(tmp_path, ENTRY))
    assert notes == []
    assert support.image == tmp_path / "a.jpg" and support.names == ("x", "y")
    assert support.skeleton == ((0, 1),) and support.box == (0, 0, 9, 9)
    assert len(read_supports(write(tmp_path, [ENTRY, ENTRY])).supports) == 2
    picture(tmp_path / "photos" / "a.jpg")
    (elsewhere,), _ = read_supports(write(tmp_path, ENTRY), images=tmp_path / "photos")
    assert elsewhere.image == tmp_path / "photos" / "a.jpg"


def test_the_small_json_may_tell_left_from_right(tmp_path):
    assert read_supports(write(tmp_path, ENTRY)).supports[0].symmetry is None
    assert read_supports(write(tmp_path, {**ENTRY, "symmetry": [[0, 1]]})).supports[0].symmetry == ((0, 1),)


def test_a_label_file(tmp_path):
    supports, _ = read_supports(write_lamps(tmp_path, 3))
    assert len(supports) == 3 and supports[0].keypoints.shape == (7, 2)
    assert all(Path(support.image).exists() for support in supports)
    assert np.isfinite(supports[0].keypoints).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**ENTRY, "colour": "red"}, "unknown field 'colour'"),
        ({**ENTRY, "skeleton": [[1, 2]]}, r"edge \(1, 2\)"),
        ({**ENTRY, "keypoints": [[1], [2]]}, r"\(x, y\)"),
        ({"something": 1}, "support.json"),
        ([], "support.json"),
        ({**ENTRY, "visible": ["false", "true"]}, "support.json: support 0: visible is"),
        ({**ENTRY, "names": "xy"}, "support.json: support 0: names is 'xy'"),
        ({**ENTRY, "image": 5}, "support.json: support 0 is damaged"),
        ({**ENTRY, "image": "gone.jpg"}, "gone.jpg of .*support.json does not exist; .*--support-images"),
    ],
)
def test_bad_files(tmp_path, content, message):
    with pytest.raises(EdgeCapeError, match=message):
        read_supports(write(tmp_path, content))


def test_two_definitions_in_a_file(tmp_path):
    path = write_lamps(tmp_path, 2, ("lamp", "light"))
    with pytest.raises(AnnotationError, match=r"2 keypoint definitions \(lamp, light\); .*--support-category"):
        read_supports(path)
    supports, _ = read_supports(path, category="light")
    assert [Path(shot.image).name for shot in supports] == ["2000.png", "2001.png"]
    with pytest.raises(AnnotationError, match="no kinds of object called 'cow'; it has lamp, light"):
        read_supports(path, category="cow")


def one_lamp(folder: Path, **changes: Any) -> Path:
    """A COCO file of one photo, whose edges could be counted from 0 or from 1."""
    path = write_lamps(folder, 1)
    content = json.loads(path.read_text())
    content["categories"][0]["skeleton"] = [[1, 2], [2, 3]]
    content["images"][0] |= changes
    path.write_text(json.dumps(content))
    return path


def test_the_reader_says_what_it_took_edges_for(tmp_path):
    path = one_lamp(tmp_path)
    supports, (note,) = read_supports(path)
    assert "lamp: edges taken as counted from 0" in note and "--edge-base" in note
    assert supports[0].skeleton == ((1, 2), (2, 3))
    supports, notes = read_supports(path, edge_base=1)
    assert supports[0].skeleton == ((0, 1), (1, 2)) and notes == []


def test_options_that_do_not_fit_the_file(tmp_path):
    path = write(tmp_path, ENTRY)
    for options in ({"category": "cow"}, {"edge_base": 1}):
        with pytest.raises(SettingsError, match="is a small JSON"):
            read_supports(path, **options)
    (tmp_path / "a.csv").write_text("image,keypoint,x,y\na.jpg,eye,1,2\n")
    with pytest.raises(SettingsError, match="is a csv file; an edge base is for COCO files"):
        read_supports(tmp_path / "a.csv", edge_base=0)
    with pytest.raises(DataError, match="formats that can: coco"):
        read_supports(path, format="word")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(DataError, match="no known format; .*--support-format"):
        read_supports(tmp_path / "a.txt")


@pytest.mark.parametrize("name", ["1000.png", "other/1000.png", "/home/me/photos/1000.png", "C:\\photos\\1000.png"])
def test_photos_that_were_moved(tmp_path, name):
    path = one_lamp(tmp_path / "labels", file_name=name)
    (tmp_path / "photos").mkdir()
    (tmp_path / "labels" / "1000.png").rename(tmp_path / "photos" / "1000.png")
    with pytest.raises(DataError, match="does not exist; say where its photos are with --support-images"):
        read_supports(path)
    assert read_supports(path, images=tmp_path / "photos").supports[0].image == tmp_path / "photos" / "1000.png"


def test_two_photos_of_one_name(tmp_path):
    path = write_lamps(tmp_path, 2)
    content = json.loads(path.read_text())
    for folder, image in zip("ab", content["images"], strict=True):
        image["file_name"] = f"{folder}/1000.png"
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"a/1000\.png and b/1000\.png of .* would both be"):
        read_supports(path, images=tmp_path)


@pytest.mark.parametrize(("change", "told"), [((0.5, 0.5), "resized"), ((2, 1), "resized"), (None, "turned")])
def test_a_photo_that_was_changed_since(tmp_path, change, told):
    path = one_lamp(tmp_path)
    with Image.open(tmp_path / "1000.png") as photo:
        width, height = photo.size
        if change:
            photo.resize((int(width * change[0]), int(height * change[1]))).save(tmp_path / "1000.png")
        else:
            exif = Image.Exif()
            exif[0x0112] = 6
            photo.crop((0, 0, width, height - 9)).save(tmp_path / "1000.png", exif=exif)
            path = one_lamp_again(path, width, height - 9)
    with pytest.raises(AnnotationError, match=f"says that .*1000.png has {width} × .*, but it has .* was {told}"):
        read_supports(path)


def one_lamp_again(path: Path, width: int, height: int) -> Path:
    """The file as a tool writes it that takes no notice of EXIF."""
    content = json.loads(path.read_text())
    content["images"][0] |= {"width": width, "height": height}
    path.write_text(json.dumps(content))
    return path


def forbidden(*_: Any, **__: Any) -> Any:
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize("name", ["support.json", "a.csv", "folder"])
def test_files_nobody_may_read(tmp_path, monkeypatch, name):
    path = write(tmp_path, ENTRY).with_name(name)
    (tmp_path / "a.csv").write_text("image,keypoint,x,y\n")
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr("builtins.open", forbidden)
    monkeypatch.setattr(Path, "iterdir", forbidden)
    with pytest.raises(DataError, match=f"{name} .*Permission denied"):
        read_supports(path)
