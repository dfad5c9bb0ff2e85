"""LabelMe files: ours, and as LabelMe writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgecape import formats
from edgecape.errors import AnnotationError, DataError
from edgecape.formats import LabelledImage, LabelSet, to_supports

from labels_for_tests import assert_same, cow, make_photo


def point(label: str, x: float, y: float, **more: Any) -> dict[str, Any]:
    return {"label": label, "points": [[x, y]], "group_id": None, "shape_type": "point", "flags": {}, **more}


def rectangle(label: str, *corners: list[float], **more: Any) -> dict[str, Any]:
    return {"label": label, "points": list(corners), "group_id": None, "shape_type": "rectangle", "flags": {}, **more}


def labelme(*shapes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A file as LabelMe 5 saves it."""
    return {
        "version": "5.4.1",
        "flags": {},
        "shapes": list(shapes),
        "imagePath": "..\\photos\\cow.jpg",
        "imageData": None,
        "imageHeight": 48,
        "imageWidth": 64,
        **more,
    }


def save(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def test_a_file_by_labelme(tmp_path: Path) -> None:
    other = {"label": "grass", "points": [[0, 0], [1, 0], [1, 1]], "shape_type": "polygon"}
    content = labelme(point("tail", 1, 2), point("eye", 3.5, 4), rectangle("cow", [9, 8], [1, 2]), other)
    (labels,) = formats.read(save(tmp_path / "cow.json", content))
    assert labels.names == ("tail", "eye")  # as they come
    assert labels.category == "cow"
    assert labels.skeleton is None
    (image,) = labels.images
    assert (image.file, image.width, image.height) == ("../photos/cow.jpg", 64, 48)
    (thing,) = image.objects
    assert thing.keypoints.tolist() == [[1, 2], [3.5, 4]]
    assert thing.box == (1, 2, 8, 6)  # whichever corner was drawn first
    assert to_supports(labels)[0].image == tmp_path / "../photos/cow.jpg"


def test_groups_are_objects(tmp_path: Path) -> None:
    shapes = [point("a", 1, 1, group_id=2), point("a", 5, 5, group_id=7), rectangle("cow", [4, 4], [6, 6], group_id=7)]
    (labels,) = formats.read(
        save(tmp_path / "cow.json", labelme(*shapes, rectangle("car", [0, 0], [9, 9], group_id=8)))
    )
    assert [(thing.keypoints.tolist(), thing.box) for thing in labels.images[0].objects] == [
        ([[1, 1]], None),
        ([[5, 5]], (4, 4, 2, 2)),
    ]


def test_a_folder_has_one_definition(tmp_path: Path) -> None:
    save(tmp_path / "a.json", labelme(point("eye", 1, 1), imagePath="a.jpg"))
    save(tmp_path / "sub" / "b.json", labelme(point("tail", 2, 2), imagePath="b.jpg"))
    save(tmp_path / "sub" / "settings.json", {"something": "else"})
    save(tmp_path / ".half.json", labelme(point("mistake", 2, 2)))
    (labels,) = formats.read(tmp_path)
    assert labels.names == ("eye", "tail")
    assert [image.file for image in labels.images] == ["a.jpg", "sub/b.jpg"]
    assert labels.images[1].objects[0].visible.tolist() == [False, True]


def test_ours_is_what_labelme_loads(tmp_path: Path) -> None:
    formats.write(tmp_path, cow(), "labelme")
    content = json.loads((tmp_path / "cow 1.json").read_text(encoding="utf-8"))
    assert set(content) >= {"version", "flags", "shapes", "imagePath", "imageData", "imageHeight", "imageWidth"}
    assert content["imagePath"] == "cow 1.png"
    for shape in content["shapes"]:
        assert isinstance(shape["label"], str)
        assert isinstance(shape["group_id"], int)
        assert isinstance(shape["description"], str)
        assert shape["shape_type"] in ("point", "rectangle")
        assert all(isinstance(value, bool) for value in shape["flags"].values())
        assert all(len(xy) == 2 and all(isinstance(v, float) for v in xy) for xy in shape["points"])
    assert [shape["label"] for shape in content["shapes"]][:3] == ["cow", "left eye", "Nüster"]


def test_photos_in_folders_have_their_files_beside_them(tmp_path: Path) -> None:
    image = LabelledImage("farm/cow.jpg", 100, 120, cow().images[0].objects)
    formats.write(tmp_path, LabelSet(cow().names, None, "cow", [image]), "labelme")
    assert json.loads((tmp_path / "farm" / "cow.json").read_text())["imagePath"] == "cow.jpg"
    assert formats.read(tmp_path)[0].images[0].file == "farm/cow.jpg"


def test_one_photo_can_be_one_file(tmp_path: Path) -> None:
    labels = LabelSet(cow().names, cow().skeleton, "cow", cow().images[:1])
    formats.write(tmp_path / "one.json", labels, "labelme")
    assert_same(formats.read(tmp_path / "one.json")[0], labels)
    with pytest.raises(AnnotationError, match="would hold 2 photos"):
        formats.write(tmp_path / "two.json", cow(), "labelme")


def test_files_lead_to_photos_that_are_elsewhere(tmp_path: Path) -> None:
    make_photo(tmp_path / "photos" / "farm" / "cow.png", (100, 120))
    image = LabelledImage("farm/cow.png", 100, 120, cow().images[0].objects)
    formats.write(tmp_path / "out", LabelSet(cow().names, None, "cow", [image], tmp_path / "photos"), "labelme")
    content = json.loads((tmp_path / "out" / "farm" / "cow.json").read_text())
    assert content["imagePath"] == "../../photos/farm/cow.png"
    assert to_supports(formats.read(tmp_path / "out")[0])[0].image.is_file()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (labelme(), "no LabelMe shapes of type 'point'"),
        (labelme(point("a", 1, 1), point("a", 2, 2)), "'a' is there twice; give each object a group_id"),
        (labelme(point("a", 1, 1), *[rectangle("b", [0, 0], [1, 1])] * 2), "2 rectangles"),
        (labelme(point("a", 1, 1) | {"points": []}), "damaged"),
        (labelme(point("a", 1, 1) | {"points": [[1, 2, 3]]}), "damaged"),
        (labelme(point("a", 1, 1) | {"points": [["x", "y"]]}), "damaged"),
        (labelme(point("a", float("inf"), 1)), "keypoint 0 is at"),
        (labelme(point("a", 1, 1) | {"label": 5}), "5 is not a text"),
        (labelme(point("a", 1, 1), imageWidth="64"), "the size of"),
        (labelme(point("a", 1, 1), imagePath=None), "None is not a text"),
        ({"imagePath": "a.jpg"}, "'shapes' is missing"),
        (labelme(point("a", 1, 1), edgecape={"skeleton": [[0, 1]]}), "does not fit 1 keypoints"),
    ],
)
def test_damaged_files(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        formats.read(save(tmp_path / "a.json", content), "labelme")
    assert "a.json" in str(caught.value)
