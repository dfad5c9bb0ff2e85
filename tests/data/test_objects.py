"""Reading COCO-keypoints files: order, filters, odd and damaged input, real files."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgecape.data.dataset import coverage, usable
from edgecape.data.objects import read_coco
from edgecape.errors import DataError

from coco_files import annotation, picture, sample, write

Content = dict[str, Any]


def test_content(tmp_path: Path) -> None:
    dataset = read_coco(write(tmp_path / "some.json", sample()), "photos")
    assert dataset.name == "some"
    dog, chair = dataset.categories
    assert (dog.id, dog.name, dog.K, dog.edges, dog.file_base) == (5, "dog", 3, ((0, 1), (1, 2)), 0)
    assert (dog.names, dog.supercategory) == (("nose", "neck", "tail"), "body")
    assert (chair.K, chair.edges, chair.names, chair.file_base) == (4, (), None, None)
    first = dataset.instances[2]
    assert first.annotation_id == 1
    assert first.image == Path("photos/a/10.png")
    assert first.visible.tolist() == [True, True, False]
    np.testing.assert_array_equal(first.keypoints, [[10, 11], [12, 13], [0, 0]])
    assert dataset.notes == ()


@pytest.mark.parametrize(
    ("changes", "pairs"),
    [
        ({}, ()),
        ({"keypoints": ["tail", "right_ear", "left_ear"]}, ((1, 2),)),  # their names tell
        ({"keypoints": ["tail", "right_ear", "left_ear"], "symmetry": []}, ()),  # the file knows better
        ({"symmetry": [[0, 2]]}, ((0, 2),)),
    ],
)
def test_left_and_right(tmp_path: Path, changes: Content, pairs: tuple[tuple[int, int], ...]) -> None:
    content = sample()
    content["categories"][0].update(changes)
    dog, chair = read_coco(write(tmp_path / "some.json", content), "photos").categories
    assert (dog.symmetry, chair.symmetry) == (pairs, ())


def test_images_as_listed_then_annotations_as_listed(tmp_path: Path) -> None:
    dataset = read_coco(write(tmp_path / "a.json", sample()), "")
    assert [instance.annotation_id for instance in dataset.instances] == [2, 4, 1, 3]
    assert [instance.index for instance in dataset.instances] == [0, 1, 2, 3]
    assert [members.tolist() for members in dataset.by_category] == [[1, 2], [0, 3]]


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((2, 3, 30, 20), (2, 3, 29, 19)),  # a box of w pixels ends at x + w - 1
        ((-5, -4, 20, 20), (0, 0, 19, 19)),
        ((30, 20, 30, 20), (30, 20, 9, 9)),
        ((0.5, 0.25, 10.5, 5), (0.5, 0.25, 9.5, 4)),
    ],
)
def test_boxes_are_clipped_as_in_the_protocol(tmp_path: Path, box: tuple, expected: tuple) -> None:
    content = sample()
    content["annotations"] = [annotation(1, 10, 5, [1, 1, 2] * 3, bbox=list(box))]
    assert read_coco(write(tmp_path / "a.json", content), "").instances[0].box == expected


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"iscrowd": 1}, "a crowd"),
        ({"keypoints": [0] * 9}, "no keypoint is marked"),
        ({"num_keypoints": 0}, "no keypoint is marked"),
        ({"keypoints": []}, "no keypoints"),
        ({"keypoints": None}, "no keypoints"),
        ({"bbox": None}, "no box"),
        ({"bbox": [2, 3, 0, 0]}, "no area"),
        ({"bbox": [2, 3, 1, 20]}, "no area"),  # one pixel wide
        ({"bbox": [100, 3, 10, 10]}, "no area"),
        ({"bbox": [20, 20, -10, -10]}, "no area"),
        ({"area": 0}, "no area"),
        ({"image_id": 99}, "image is not listed"),
    ],
)
def test_what_is_no_use_is_skipped_with_a_note(tmp_path: Path, change: Content, note: str) -> None:
    content = sample()
    content["annotations"][3].update(change)
    dataset = read_coco(write(tmp_path / "a.json", content), "")
    assert [instance.annotation_id for instance in dataset.instances] == [2, 1, 3]
    assert len(dataset.notes) == 1
    assert note in dataset.notes[0]
    assert "first: 4" in dataset.notes[0]


def test_missing_area_crowd_and_count_are_no_reason_to_skip(tmp_path: Path) -> None:
    content = sample()
    for entry in content["annotations"]:
        del entry["area"], entry["iscrowd"], entry["num_keypoints"]
    assert len(read_coco(write(tmp_path / "a.json", content), "").instances) == 4


def set_(part: str, index: int, **changes: Any) -> Callable[[Content], None]:
    return lambda content: content[part][index].update(changes)


def drop(part: str, index: int, key: str) -> Callable[[Content], None]:
    return lambda content: content[part][index].pop(key)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda content: content.pop("images"), ["images", "list"]),
        (lambda content: content.update(annotations={}), ["annotations", "list"]),
        (lambda content: content["annotations"].append(7), ["annotations", "list"]),
        (set_("categories", 1, id=5), ["category id 5", "twice"]),
        (set_("images", 1, id=30), ["image id 30", "twice"]),
        (set_("annotations", 1, id=1), ["annotation id 1", "twice"]),
        (set_("annotations", 1, id="x"), ["annotation number 1", "'x'"]),
        (drop("annotations", 1, "id"), ["annotation number 1", "None"]),
        (drop("categories", 0, "name"), ["category 5", "None"]),
        (set_("categories", 1, keypoints="abc"), ["'chair'", "'abc'"]),
        (drop("images", 0, "file_name"), ["image 30", "file_name"]),
        (set_("annotations", 2, category_id=77), ["annotation 3", "77"]),
        (set_("annotations", 2, category_id=[5]), ["annotation 3", "[5]"]),
        (set_("annotations", 2, image_id="ten"), ["annotation 3", "'ten'"]),
        (set_("annotations", 2, keypoints="1 2 3"), ["annotation 3", "1 2 3"]),
        (set_("annotations", 2, keypoints=[1, 2, "v"] * 4), ["annotation 3", "finite numbers"]),
        (set_("annotations", 2, keypoints=[1, float("nan"), 2] * 4), ["annotation 3", "finite numbers"]),
        (set_("annotations", 2, keypoints=[1, 2, 2, 3]), ["annotation 3", "4 numbers"]),
        (set_("annotations", 0, keypoints=[1, 2, 2] * 2), ["annotation 1", "'dog'", "2 keypoints", "names 3"]),
        (set_("annotations", 2, keypoints=[1, 2, 2] * 5), ["'chair'", "annotation 2 has 4", "annotation 3"]),
        (set_("annotations", 2, bbox=[1, 2, 3]), ["annotation 3", "[1, 2, 3]"]),
        (set_("annotations", 2, bbox=[1, 2, float("inf"), 4]), ["annotation 3", "finite numbers"]),
        (set_("annotations", 2, area="big"), ["annotation 3", "'big'"]),
        (set_("annotations", 2, num_keypoints=None), ["annotation 3", "num_keypoints"]),
        (drop("images", 1, "width"), ["image 10", "a/10.png", "width None"]),
        (set_("images", 1, height=0), ["image 10", "height 0"]),
        (set_("images", 1, width="wide"), ["image 10", "'wide'"]),
        (set_("categories", 0, skeleton=[[0, 1, 2]]), ["'dog'", "pairs"]),
        (set_("categories", 0, skeleton=[0, 1]), ["'dog'", "pairs"]),
        (set_("categories", 0, skeleton=7), ["'dog'", "pairs"]),
        (set_("categories", 0, symmetry=[[0, 3]]), ["'dog'", "symmetry", "counted from 0"]),
        (set_("categories", 0, symmetry=[[0, 1], [1, 2]]), ["'dog'", "symmetry", "at most once"]),
        (set_("categories", 0, symmetry="left"), ["'dog'", "symmetry", "pairs"]),
        (set_("categories", 0, skeleton=[["nose", "neck"]]), ["'dog'", "pairs"]),
        (set_("categories", 0, skeleton=[[0, 1], [1, 7]]), ["'dog'", "(1, 7)", "3 keypoints"]),
        (set_("categories", 0, skeleton=[[-1, 1]]), ["'dog'", "(-1, 1)"]),
        (set_("categories", 0, skeleton=[[0, 1], [2, 3]]), ["'dog'", "(0, 1)", "(2, 3)"]),
        (lambda content: content.update(info={"edge_base": 2}), ["info.edge_base", "2"]),
    ],
)
def test_damaged_structure_is_an_error_that_says_where(tmp_path: Path, damage: Callable, words: list[str]) -> None:
    content = sample()
    damage(content)
    path = write(tmp_path / "bad.json", content)
    with pytest.raises(DataError) as error:
        read_coco(path, tmp_path)
    for word in [str(path), *words]:
        assert word in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "7", "{", '{"images": [', "\x00\x01", "\xff"])
def test_not_a_coco_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"bad\.json"):
        read_coco(path, "")


def test_gzip(tmp_path: Path) -> None:
    whole = gzip.compress(json.dumps(sample()).encode())
    path = tmp_path / "some.json.gz"
    path.write_bytes(whole)
    dataset = read_coco(path, "")
    assert (dataset.name, len(dataset.instances)) == ("some", 4)
    for damaged in (whole[:-20], b"no gzip", whole[:40] + b"\x00" * 40 + whole[80:]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"some\.json\.gz"):
            read_coco(path, "")


@pytest.mark.parametrize("name", ["none.json", "."])
def test_no_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"does not exist|cannot be read"):
        read_coco(tmp_path / name, "")


def test_missing_image_size_is_read_from_the_picture(tmp_path: Path) -> None:
    content = sample()
    for image in content["images"]:
        del image["width"], image["height"]
    path = write(tmp_path / "a.json", content)
    for image in content["images"]:
        picture(tmp_path / image["file_name"], 16, 12)
    assert {instance.box for instance in read_coco(path, tmp_path).instances} == {(2, 3, 13, 8)}


def test_an_image_without_objects_needs_no_size(tmp_path: Path) -> None:
    content = sample()
    del content["images"][2]["width"]
    assert len(read_coco(write(tmp_path / "a.json", content), "").instances) == 4


def test_double_edges_and_loops_are_dropped(tmp_path: Path) -> None:
    content = sample()
    content["categories"][0]["skeleton"] = [[1, 0], [0, 1], [1, 2], [1, 2], [2, 2]]
    dataset = read_coco(write(tmp_path / "a.json", content), "")
    assert sorted(map(sorted, dataset.categories[0].edges)) == [[0, 1], [1, 2]]
    assert "3 edges dropped" in dataset.notes[0]


def test_category_without_keypoints_and_objects(tmp_path: Path) -> None:
    content = sample()
    content["categories"].append({"id": 9, "name": "empty", "skeleton": None, "keypoints": None})
    dataset = read_coco(write(tmp_path / "a.json", content), "")
    assert dataset.categories[2].K == 0
    assert dataset.by_category[2].tolist() == []


# --- parts of a data set -------------------------------------------------------------------------------------


def test_objects_of_some_categories(tmp_path: Path) -> None:
    dataset = read_coco(write(tmp_path / "a.json", sample()), tmp_path)
    for wanted in ("chair", "2"):
        chosen = usable(dataset, [wanted])
        assert sorted(dataset.instances[index].annotation_id for index in chosen) == [2, 3]
        assert str(coverage(dataset, chosen)) == "1 of 2 categories, 2 of 4 objects (50.0%)"


def test_objects_whose_images_exist(tmp_path: Path) -> None:
    dataset = read_coco(write(tmp_path / "a.json", sample()), tmp_path)
    with pytest.raises(DataError, match=r"no image is there.*30\.png"):
        usable(dataset, skip_missing=True)
    picture(tmp_path / "b/30.png")
    there = usable(dataset, skip_missing=True)
    assert there == {0, 1}
    cover = coverage(dataset, there)
    assert (cover.categories, cover.instances, cover.instances_total) == (2, 2, 4)
    assert usable(dataset, ["dog"], skip_missing=True) == {1}


def test_a_category_without_objects_is_not_covered(tmp_path: Path) -> None:
    content = sample()
    content["categories"].append({"id": 9, "name": "hand"})
    dataset = read_coco(write(tmp_path / "a.json", content), tmp_path)
    assert str(coverage(dataset, usable(dataset))) == "2 of 3 categories, 4 of 4 objects (100.0%)"


def test_unknown_category(tmp_path: Path) -> None:
    dataset = read_coco(write(tmp_path / "a.json", sample()), tmp_path)
    with pytest.raises(DataError, match=r"no category 'chairs'; did you mean chair\?"):
        usable(dataset, ["chairs"])


# --- real files ----------------------------------------------------------------------------------------------

OBJECTS = {  # of the ten MP-100 files, after the protocol's filters
    "split1_test": 2000,
    "split1_val": 2000,
    "split2_test": 1994,
    "split2_val": 1993,
    "split3_test": 2000,
    "split3_val": 2000,
    "split4_test": 1811,
    "split4_val": 1994,  # of 2000: six AFLW boxes have negative sides
    "split5_test": 1998,  # two of them
    "split5_val": 2000,
}


@pytest.mark.shared
@pytest.mark.parametrize("split", OBJECTS)
def test_mp100(shared: Path, split: str) -> None:
    dataset = read_coco(shared / f"data/mp100_annotations/mp100_{split}.json.gz", "none")
    assert len(dataset.instances) == OBJECTS[split]
    assert len(dataset.categories) == (20 if "test" in split else 10)
    assert "MP-100, original edition" in dataset.notes
    assert not any("warning" in note for note in dataset.notes)
    for category in dataset.categories:
        assert category.K > 0
        if category.edges:
            assert category.file_base == (0 if category.name in ("car", "bus", "suv") else 1)
    for instance in dataset.instances:
        K = dataset.category_of(instance).K
        assert instance.keypoints.shape == (K, 2)
        assert instance.visible.shape == (K,)


@pytest.mark.shared
def test_mp100_has_42_skeletons_and_99_categories_with_objects(shared: Path) -> None:
    skeletons, categories, filled = set(), set(), set()
    for path in sorted((shared / "data/mp100_annotations").glob("*.json.gz")):
        dataset = read_coco(path, "none")
        for category, members in zip(dataset.categories, dataset.by_category, strict=True):
            categories.add(category.id)
            skeletons.update([category.id] if category.edges else [])
            filled.update([category.id] if len(members) else [])
    assert (len(categories), len(skeletons), len(filled)) == (100, 42, 99)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("annotations", "images", "categories", "objects"),
    [
        ("data/mpmini/annotations/train.json", "data/mpmini/images", 82, 6061),
        ("data/mpmini/annotations/val.json", "data/mpmini/images", 9, 648),
        ("data/mpmini/annotations/test.json", "data/mpmini/images", 14, 1606),
        ("data/mmpose_samples/annotations.json", "data/mmpose_samples/images", 21, 63),
        ("golden/dataset/ann.json", "golden/dataset/images", 2, 44),
    ],
)
def test_real_files(shared: Path, annotations: str, images: str, categories: int, objects: int) -> None:
    dataset = read_coco(shared / annotations, shared / images)
    assert (len(dataset.categories), len(dataset.instances)) == (categories, objects)
    assert {category.file_base for category in dataset.categories} <= {0, None}
    assert dataset.notes == ()
    assert len(usable(dataset, skip_missing=True)) == objects


@pytest.mark.shared
@pytest.mark.parametrize("shots", [1, 5])
def test_order_of_objects_gives_the_official_pairs(shared: Path, shots: int) -> None:
    dataset = read_coco(shared / "golden/dataset/ann.json", "none")
    expected = np.load(shared / "golden/dataset/dataset_golden.npz")[f"paired_{shots}"]
    drawn = random.Random(1)
    pairs = []
    episodes = len(expected) // (15 * len(dataset.categories))
    for members in dataset.by_category:
        for _ in range(episodes):
            chosen = drawn.sample(members.tolist(), shots + 15)
            pairs += [[*chosen[:shots], query] for query in chosen[shots:]]
    np.testing.assert_array_equal(pairs, expected)
