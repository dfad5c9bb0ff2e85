from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecape.data.crops import (
    COVER,
    PLAIN,
    AugmentSettings,
    PixelChanges,
    augmented_crop,
    change_pixels,
    inside,
    plain_crop,
)
from edgecape.geometry import crop_transform, warp
from edgecape.matching.views import MIRRORED, show

PHOTO = Path("photo.png")
SIZE = (112, 112)
BOX = (40.0, 30.0, 100.0, 60.0)
STRONG = AugmentSettings(strong_probability=1.0)


def test_the_plain_view_is_the_evaluation_crop():
    crop = augmented_crop(PHOTO, BOX, SIZE, PLAIN, seed=0, instance=3, number=0)
    np.testing.assert_array_equal(crop.transform, crop_transform(BOX, SIZE))
    assert crop.changes is None and crop.key == plain_crop(PHOTO, BOX, SIZE).key


def test_views_are_reproducible_and_all_differ():
    def transform(seed: int, instance: int, number: int) -> bytes:
        return augmented_crop(PHOTO, BOX, SIZE, STRONG, seed, instance, number).transform.tobytes()

    assert transform(0, 1, 2) == transform(0, 1, 2)
    numbers = [(seed, instance, number) for seed in range(3) for instance in range(3) for number in range(3)]
    assert len({transform(*each) for each in numbers}) == len(numbers)


def test_the_paper_s_augmentation_stays_in_its_limits_and_rotates_as_often_as_it_says():
    angles, scales = [], []
    for number in range(600):
        linear = augmented_crop(PHOTO, BOX, SIZE, AugmentSettings(), 0, 0, number).transform[:2, :2]
        scales.append(112 / 125 / np.sqrt(np.linalg.det(linear)))
        angles.append(np.degrees(np.arctan2(linear[0, 1], linear[0, 0])))
    assert min(scales) >= 0.85 - 1e-9 and max(scales) <= 1.15 + 1e-9
    assert np.abs(angles).max() <= 30 + 1e-9
    assert np.mean(np.abs(angles) > 1e-9) == pytest.approx(0.6, abs=0.06)


@given(number=st.integers(0, 10_000), x=st.floats(0.1, 0.9), y=st.floats(0.1, 0.9))
def test_coordinates_follow_the_pixels_through_any_warp(number, x, y):
    """A bright dot drawn on the photo is where `coordinates` says it is in the frame."""
    crop = augmented_crop(PHOTO, BOX, SIZE, STRONG, seed=1, instance=0, number=number).seen(number % 8)
    point = np.array([[BOX[0] + x * BOX[2], BOX[1] + y * BOX[3]]], dtype=np.float32).round()
    where = crop.coordinates(point, SIZE)[0] * SIZE[0]
    if not ((where > 8) & (where < SIZE[0] - 8)).all():
        return
    photo = np.zeros((140, 200, 3), dtype=np.uint8)
    column, row = point[0].astype(int)
    photo[row - 2 : row + 3, column - 2 : column + 3] = 255
    frame = show(warp(photo, crop.transform, SIZE), crop.view)[:, :, 0].astype(float)
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]]
    found = np.array([(frame * columns).sum(), (frame * rows).sum()]) / frame.sum()
    np.testing.assert_allclose(found, where, atol=0.6)


def test_pixels_change_and_geometry_stays():
    frame = np.random.default_rng(0).integers(0, 255, (60, 60, 3), dtype=np.uint8)
    changes = PixelChanges((1,), 0.4, 0.2, 0.3)
    changed = change_pixels(frame, changes)
    assert changed.shape == frame.shape and changed.dtype == np.uint8 and (changed != frame).any()
    again = change_pixels(frame, changes)
    np.testing.assert_array_equal(changed, again)


def test_inside():
    points = np.array([[0.0, 0.0], [0.999, 0.5], [1.0, 0.5], [-0.01, 0.5]], dtype=np.float32)
    assert inside(points).tolist() == [True, True, False, False]


@given(seed=st.integers(0, 1000))
def test_a_covered_crop_hides_a_share_of_the_frame_and_nothing_else(seed):
    plain = plain_crop(PHOTO, BOX, SIZE)
    crop = plain.covered(0.3, (seed,))
    image = np.random.default_rng(0).integers(0, 100, (140, 200, 3), dtype=np.uint8)
    frame, covered = plain.render(image, SIZE), crop.render(image, SIZE)
    hidden = (covered == COVER).all(axis=-1)
    assert hidden.mean() == pytest.approx(0.3, abs=0.02)
    np.testing.assert_array_equal(covered[~hidden], frame[~hidden])
    assert crop.key != plain.key and crop.key == plain.covered(0.3, (seed,)).key
    points = np.array([[60.0, 50.0]], dtype=np.float32)
    np.testing.assert_array_equal(crop.coordinates(points, SIZE), plain.coordinates(points, SIZE))


def test_a_covered_crop_in_a_mirror_hides_the_same():
    crop = plain_crop(PHOTO, BOX, SIZE).covered(0.3, (1,))
    image = np.random.default_rng(0).integers(0, 100, (140, 200, 3), dtype=np.uint8)
    for view in (MIRRORED, 2, 7):
        wanted, found = show(crop.render(image, SIZE), view), crop.seen(view).render(image, SIZE)
        differs = (wanted != found).any(axis=-1)
        assert differs.mean() < 0.02  # at most a row and a column, by rounding
