"""Drawn kinds: rays meet surfaces, left mirrors right, and a keypoint is where the picture shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from edgecape.cli.data import main
from edgecape.data.check import check_file
from edgecape.data.objects import read_coco
from edgecape.errors import DataError, SettingsError
from edgecape.io.images import load_image
from edgecape.solids.dataset import draw_dataset, photos_in
from edgecape.solids.kinds import APART, KEYPOINTS, MIRROR, Kind, Landmark, Part, Spot, place_of, posed, random_kind
from edgecape.solids.pictures import picture_of
from edgecape.solids.settings import Drawing
from edgecape.solids.shapes import HITS, Shape, hit, surface, unit

SEEDS = st.integers(0, 10_000)
SHAPES = st.sampled_from(sorted(HITS))


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- shapes ------------------------------------------------------------------------------------------------


@given(SHAPES, SEEDS)
def test_rays_meet_the_surface_and_first_on_the_near_side(shape: Shape, seed: int) -> None:
    random = rng(seed)
    origin = unit(random.normal(size=3)) * random.uniform(2, 6)
    directions = 0.7 * random.normal(size=(40, 3)) - origin
    far, normals = hit(shape, origin, directions)
    assert (far > 0).all()
    met = np.isfinite(far)
    points = origin + far[met, None] * directions[met]
    for point, normal, direction in zip(points, normals[met], directions[met], strict=True):
        assert surface(shape, point) == pytest.approx(point, abs=1e-6)  # on it
        before = point - 1e-3 * direction
        assert np.linalg.norm(before) >= np.linalg.norm(surface(shape, before)) - 1e-9  # not yet inside
        assert normal @ direction <= 1e-9  # turned to whoever looks


@given(SHAPES, SEEDS)
def test_who_aims_at_the_middle_meets_it_and_who_looks_away_does_not(shape: Shape, seed: int) -> None:
    origin = unit(rng(seed).normal(size=3)) * 3
    far, _ = hit(shape, origin, np.stack([-origin, origin]))
    assert 0 < far[0] < 1 and np.isinf(far[1])


# --- kinds -------------------------------------------------------------------------------------------------


@given(SEEDS)
def test_a_kind_is_a_definition(seed: int) -> None:
    kind = random_kind(rng(seed))
    names = kind.names
    assert KEYPOINTS[0] <= len(names) <= KEYPOINTS[1] and len(set(names)) == len(names)
    assert {names[i].removeprefix("left ") for i, _ in kind.symmetry} == {
        names[j].removeprefix("right ") for _, j in kind.symmetry
    }
    assert 2 * len(kind.symmetry) == sum(landmark.side != 0 for landmark in kind.landmarks)
    reached = {0}
    for j, k in kind.edges:
        assert j < k and j in reached
        reached.add(k)
    assert len(reached) == len(names) and len(kind.edges) == len(names) - 1  # a tree


@given(SEEDS)
def test_at_rest_right_is_the_mirror_image_of_left_and_no_two_are_at_one_place(seed: int) -> None:
    kind = random_kind(rng(seed))
    places = posed(kind.parts)
    points = np.array([place_of(landmark, kind.parts, places) for landmark in kind.landmarks])
    for left, right in kind.symmetry:
        assert points[right] == pytest.approx(points[left] * MIRROR, abs=1e-9)
    told = [k for k, landmark in enumerate(kind.landmarks) if landmark.side >= 0]
    gaps = np.linalg.norm(points[told, None] - points[None, told], axis=-1)
    assert gaps[~np.eye(len(told), dtype=bool)].min(initial=np.inf) > 0.9 * APART * np.ptp(points, axis=0).max()


# --- pictures ----------------------------------------------------------------------------------------------


def ball(landmarks: list[Landmark], spots: tuple[Spot, ...] = ()) -> Kind:
    """A grey ball that is seen from ahead or behind, with red spots."""
    body = Part("body", "ball", np.ones(3), 0, spots, -1, np.zeros(3), np.zeros(3))
    palette = np.array(((0.5, 0.5, 0.5), (1.0, 0.0, 0.0)))
    return Kind((body,), tuple(landmarks), (), palette, False, 0.0, 0.0, True, 0.0, 0.0)


AHEAD, BEHIND, LEFT = (np.array(at, dtype=float) for at in ((1, 0, 0), (-1, 0, 0), (0, 1, 0)))


def test_what_is_turned_away_cannot_be_seen() -> None:
    kind = ball([Landmark("ahead", 0, 0, AHEAD), Landmark("behind", 0, 0, BEHIND)])
    for seed in range(10):
        assert picture_of(kind, rng(seed), 96).visible.tolist() == [True, False]


@given(SEEDS)
def test_a_keypoint_is_where_its_spot_is(seed: int) -> None:
    """On the pixels: where the keypoint is said to be it is red, on the other side of the ball it is not."""
    spot = Spot(unit(AHEAD + 0.19 * LEFT), 0.35, 1)
    kind = ball([Landmark("spot", 0, 0, spot.at)], (spot,))
    drawn = picture_of(kind, rng(seed), 128)
    (x, y), (left, top, width, height) = drawn.keypoints[0], drawn.box
    assert drawn.visible.all() and left <= x <= left + width and top <= y <= top + height
    # At the rim the pixels around it are those of the background.
    assume(np.hypot(x - left - width / 2, y - top - height / 2) < width / 2 - 3)
    patch = drawn.image[round(y) - 1 : round(y) + 2, round(x) - 1 : round(x) + 2].reshape(-1, 3).astype(float).mean(0)
    assert patch[0] > 1.4 * max(patch[1:])
    mirrored = round(2 * (left + width / 2) - x), round(2 * (top + height / 2) - y)
    if np.hypot(mirrored[0] - x, mirrored[1] - y) > 0.5 * width:
        other = drawn.image[mirrored[1], mirrored[0]].astype(float)
        assert other[0] < 1.4 * max(*other[1:], 1.0)


@given(SEEDS)
def test_what_can_be_seen_lies_in_the_box_and_the_box_in_the_picture(seed: int) -> None:
    drawn = picture_of(random_kind(rng(seed)), rng(seed, 1), 96)
    left, top, width, height = drawn.box
    assert left >= 0 and top >= 0 and left + width <= 96 and top + height <= 96
    x, y = drawn.keypoints[drawn.visible].T
    assert ((x >= left - 3) & (x <= left + width + 3) & (y >= top - 3) & (y <= top + height + 3)).all()


def test_one_differs_from_the_next_and_the_same_seed_draws_the_same() -> None:
    kind = random_kind(rng(3))
    one, again, other = (picture_of(kind, rng(seed), 96) for seed in (0, 0, 1))
    assert (one.image == again.image).all() and (one.keypoints == again.keypoints).all()
    assert (one.image != other.image).any() and (one.keypoints != other.keypoints).any()


def test_photos_stand_behind(tmp_path: Path) -> None:
    Image.new("RGB", (300, 200), (10, 250, 20)).save(tmp_path / "green.png")
    photos = photos_in(tmp_path)
    kind = ball([Landmark("ahead", 0, 0, AHEAD)])
    corners = [picture_of(kind, rng(seed), 64, photos).image[0, 0].tolist() for seed in range(30)]
    assert 10 <= corners.count([10, 250, 20]) <= 26  # 60 % of them


# --- a data set --------------------------------------------------------------------------------------------


def test_a_data_set_like_any_other(tmp_path: Path) -> None:
    path = draw_dataset(tmp_path, Drawing(kinds=3, objects=4, size=64))
    assert check_file(path, tmp_path / "images").clean
    dataset = read_coco(path, tmp_path / "images")
    assert len(dataset.categories) == 3 and {category.supercategory for category in dataset.categories} == {"solids"}
    assert load_image(tmp_path / "train.jpg").shape == (3 * 64, 4 * 64, 3)
    kind = random_kind(rng(0, 1))
    assert dataset.categories[1].names == tuple(kind.names)
    assert dataset.categories[1].edges == kind.edges and list(dataset.categories[1].symmetry) == kind.symmetry
    drawn = picture_of(kind, rng(0, 1, 2), 64)
    instance = dataset.instances[4 + 2]
    assert instance.visible.tolist() == drawn.visible.tolist()
    assert instance.keypoints[drawn.visible] == pytest.approx(drawn.keypoints[drawn.visible], abs=0.01)
    assert np.abs(load_image(instance.image).astype(int) - drawn.image).mean() < 12  # a JPEG of it


def test_drawn_again_it_is_the_same_and_nothing_else_is_replaced(tmp_path: Path) -> None:
    few = Drawing(kinds=1, objects=2, size=64)
    path = draw_dataset(tmp_path, few)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.*")}
    path.unlink()  # as if it had been stopped
    assert draw_dataset(tmp_path, few) == path
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.*")} == before
    with pytest.raises(DataError, match="made otherwise"):
        draw_dataset(tmp_path, replace(few, seed=1))
    assert path.read_bytes() == before[path]
    draw_dataset(tmp_path, replace(few, seed=1), name="val")
    assert json.loads(path.read_text()) != json.loads(path.with_name("val.json").read_text())


@pytest.mark.parametrize("wrong", [{"kinds": 0}, {"objects": 1}, {"size": 8}, {"seed": -1}])
def test_too_few(wrong: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="two objects"):
        draw_dataset(tmp_path, Drawing(**wrong))
    assert not list(tmp_path.iterdir())


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", str(tmp_path / "solids"), "--kinds", "2", "--objects", "2", "--size", "64"]) == 0
    assert "2 kinds, 2 objects of each" in capsys.readouterr().out
    with pytest.raises(DataError, match="has no photos"):
        main(["draw", str(tmp_path / "others"), "--backgrounds", str(tmp_path / "nowhere")])
