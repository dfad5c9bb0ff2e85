"""YOLO-pose data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from edgecape import formats
from edgecape.errors import AnnotationError, DataError, ImageError
from edgecape.formats import LabelledImage, LabelledObject, LabelSet

from labels_for_tests import assert_same, cow, make_photo


def dataset(
    root: Path,
    lines: str,
    config: dict[str, Any] | None = None,
    photo: str = "images/a.png",
    label: str = "labels/a.txt",
) -> Path:
    """As Ultralytics describes one: 200 × 100 pixels, one class, two keypoints."""
    content = {"train": "images", "val": "images", "kpt_shape": [2, 3], "names": {0: "cow"}, **(config or {})}
    make_photo(root / photo, (200, 100))
    (root / label).parent.mkdir(parents=True, exist_ok=True)
    (root / label).write_text(lines)
    (root / "data.yaml").write_text(yaml.safe_dump(content))
    return root


LINE = "0 0.5 0.5 0.2 0.4 0.25 0.5 2 0.75 0.1 1\n"


def test_a_data_set_by_others(tmp_path: Path) -> None:
    (labels,) = formats.read(dataset(tmp_path, LINE, {"flip_idx": [1, 0]}))
    assert labels.category == "cow"
    assert labels.names == ("kp0", "kp1")
    assert labels.root == tmp_path / "images"
    (image,) = labels.images
    assert (image.file, image.width, image.height) == ("a.png", 200, 100)
    (thing,) = image.objects
    np.testing.assert_allclose(thing.keypoints, [[50, 50], [150, 10]], rtol=1e-6)
    assert thing.codes.tolist() == [2, 1]
    assert thing.box == pytest.approx((80, 30, 40, 40))


def test_two_numbers_per_keypoint(tmp_path: Path) -> None:
    dataset(tmp_path, "0 0.5 0.5 0.2 0.4 0.25 0.5 0 0\n\n", {"kpt_shape": [2, 2]})
    assert formats.read(tmp_path)[0].images[0].objects[0].codes.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("config", "photo", "label", "file"),
    [
        ({"train": "images/train"}, "images/train/a.png", "labels/train/a.txt", "train/a.png"),
        ({"train": ["images/one", "images/two"]}, "images/two/a.png", "labels/two/a.txt", "two/a.png"),
        (
            {"train": "train/images", "val": "valid/images"},
            "train/images/a.png",
            "train/labels/a.txt",
            "train/images/a.png",
        ),
        ({"path": "cows", "train": "images"}, "cows/images/a.png", "cows/labels/a.txt", "a.png"),
        ({"path": "of/another/machine", "val": "images"}, "images/a.png", "labels/a.txt", "a.png"),
    ],
)
def test_where_things_lie(tmp_path: Path, config: dict[str, Any], photo: str, label: str, file: str) -> None:
    (labels,) = formats.read(dataset(tmp_path, LINE, config, photo, label))
    assert [image.file for image in labels.images] == [file]
    assert len(labels.images[0].objects) == 1
    assert labels.root is not None
    assert (labels.root / file).is_file()


def test_photos_listed_in_a_text_file(tmp_path: Path) -> None:
    dataset(tmp_path, LINE, {"train": "train.txt", "val": None})
    (tmp_path / "train.txt").write_text("./images/a.png\n")
    assert [image.file for image in formats.read(tmp_path)[0].images] == ["a.png"]


def test_photos_without_a_label_file_have_no_objects(tmp_path: Path) -> None:
    dataset(tmp_path, LINE)
    make_photo(tmp_path / "images" / "b.png", (5, 5))
    assert [len(image.objects) for image in formats.read(tmp_path)[0].images] == [1, 0]


def test_several_classes(tmp_path: Path) -> None:
    things = (LabelledObject([[1, 2], [3, 4]]), LabelledObject([[5, 6], [7, 8]]))
    cows = LabelSet(["eye", "tail"], [(0, 1)], "cow", [LabelledImage("a.png", 10, 10, things[:1])])
    cars = LabelSet(["lamp", "door"], None, "car", [LabelledImage("a.png", 10, 10, things[1:])])
    formats.write(tmp_path, [cows, cars], "yolo")
    make_photo(tmp_path / "images" / "a.png", (10, 10))
    for got, want in zip(formats.read(tmp_path), (cows, cars), strict=True):
        assert_same(got, want, without="box")


def test_what_ultralytics_asks_for(tmp_path: Path) -> None:
    """Columns, whole classes, numbers between 0 and 1, the keys of data.yaml."""
    outside = LabelledObject([[-3, 5], [50, 130], [9, 9]], box=(-10, -10, 300, 300))
    image = LabelledImage("a.png", 100, 120, (*cow().images[0].objects, outside))
    formats.write(tmp_path, LabelSet(cow().names, cow().skeleton, "cow", [image]), "yolo")
    config = yaml.safe_load((tmp_path / "data.yaml").read_text(encoding="utf-8"))
    assert config["kpt_shape"] == [3, 3]
    assert config["names"] == {0: "cow"}
    assert config["kpt_names"] == {0: ["left eye", "Nüster", "tail"]}
    assert {"train", "val"} <= set(config)
    rows = np.loadtxt(tmp_path / "labels" / "a.txt")
    assert rows.shape == (3, 5 + 3 * 3)
    assert set(rows[:, 0]) == {0}
    numbers = np.delete(rows[:, 5:].reshape(3, 3, 3), 2, axis=2)
    assert numbers.min() >= 0
    assert numbers.max() <= 1
    assert rows[:, 1:5].max() <= 1
    assert rows[2, 7::3].tolist() == [0, 0, 2]  # outside the photo is nowhere
    assert rows[2, 1:5].tolist() == [0.5, 0.5, 1, 1]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([LabelSet(["a"]), LabelSet(["a", "b"])], "one number of keypoints"),
        (
            [LabelSet(["a"], images=[LabelledImage("a.png", None, None, (LabelledObject([[1, 1]]),))])],
            r"size of a\.png",
        ),
    ],
)
def test_labels_that_yolo_cannot_hold(tmp_path: Path, labels: list[LabelSet], message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        formats.write(tmp_path / "out", labels, "yolo")
    assert not (tmp_path / "out").exists()


def test_we_read_what_sleap_io_writes(tmp_path: Path) -> None:
    sleap_io = pytest.importorskip("sleap_io")
    for image in cow().images:
        make_photo(tmp_path / image.file, image.size("test"))
    formats.write(tmp_path / "ours.json", cow(), "coco")
    theirs = sleap_io.load_coco(str(tmp_path / "ours.json"))
    sleap_io.save_ultralytics(theirs, str(tmp_path / "theirs"), split_ratios={"train": 1.0}, verbose=False)
    (labels,) = formats.read(tmp_path / "theirs")
    assert labels.skeleton == ((0, 1), (1, 2))
    got = [thing.keypoints for image in labels.images for thing in image.objects]
    want = [thing.keypoints for image in cow().images for thing in image.objects]
    np.testing.assert_allclose(got, want, atol=1e-3)


@pytest.mark.parametrize(
    ("lines", "config", "message"),
    [
        ("0 0.5 0.5 0.2 0.4\n", {}, r"a\.txt, line 1 .*5 numbers, but kpt_shape \[2, 3\] asks for 11"),
        (LINE + LINE.replace("0.25", "x"), {}, r"a\.txt, line 2 .*'x'"),
        (LINE.replace("0 0.5", "1 0.5"), {}, r"a\.txt, line 1 .*class 1 is not one of \[0\]"),
        (LINE.replace("0.25", "nan"), {}, r"a\.txt, line 1 .*not finite"),
        (LINE, {"kpt_shape": [2]}, r"data\.yaml is damaged"),
        (LINE, {"kpt_shape": [2, 4]}, r"data\.yaml is damaged: kpt_shape is \[2, 4\]"),
        (LINE, {"names": 5}, r"data\.yaml is damaged"),
        (LINE, {"kpt_names": {0: ["one"]}}, r"data\.yaml: .*2 keypoints, but 1 are named"),
        (LINE, {"skeleton": [[0, 2]]}, r"data\.yaml: .*does not fit 2 keypoints"),
        (LINE, {"train": "elsewhere", "val": None}, "no photos"),
    ],
)
def test_damaged_data_sets(tmp_path: Path, lines: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        formats.read(dataset(tmp_path, lines, config))


def test_a_data_set_without_keypoints(tmp_path: Path) -> None:
    (tmp_path / "data.yaml").write_text("names: [cow]\n")
    with pytest.raises(DataError, match=r"no data\.yaml with kpt_shape"):
        formats.read(tmp_path, "yolo")


def test_a_damaged_photo(tmp_path: Path) -> None:
    (dataset(tmp_path, LINE) / "images" / "a.png").write_bytes(b"nothing")
    with pytest.raises(ImageError, match=r"a\.png"):
        formats.read(tmp_path)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 9)}]}}\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("config", [f"{BOMB}kpt_shape: [1, 2]\nnames: [*i]\n", f"{MERGES}kpt_shape: [1, 2]\n"])
def test_a_few_lines_that_would_fill_any_memory(tmp_path: Path, config: str) -> None:
    (tmp_path / "data.yaml").write_text(config)
    with pytest.raises(DataError, match=r"data\.yaml"):
        formats.read(tmp_path, "yolo")
