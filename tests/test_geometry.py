"""Box → crop → frame and back, and the crop of the evaluation protocol to the bit."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecape import geometry
from edgecape.data.objects import read_coco
from edgecape.io.images import load_image
from edgecape.model.backbone import normalise_pixels

import golden

many = settings(deadline=None, derandomize=True, max_examples=60)
finite = {"allow_nan": False, "allow_infinity": False}
places = st.floats(-3000, 3000, **finite)
sides = st.floats(0.5, 3000, **finite)
boxes = st.tuples(places, places, sides, sides)
frames = st.sampled_from([(224, 224), (224, 336), (448, 196), (1, 1)])

# --- transforms ------------------------------------------------------------------------------------------------------


@many
@given(
    box=boxes,
    size=frames,
    scale=st.floats(0.3, 3),
    rotation=st.floats(-360, 360),
    shift=st.tuples(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5)),
    points=st.lists(st.tuples(places, places), min_size=1, max_size=5),
)
def test_there_and_back(box, size, scale, rotation, shift, points):
    transform = geometry.crop_transform(box, size, scale, rotation, shift)
    back = geometry.apply(geometry.inverse(transform), geometry.apply(transform, points))
    # frame pixels are known to about 1e-12 of their size
    np.testing.assert_allclose(back, points, rtol=0, atol=1e-6)


@many
@given(box=boxes, point=st.tuples(st.floats(0, 224), st.floats(0, 224)))
def test_the_way_back_is_the_rule_of_the_protocol(box, point):
    """p · side / 224 + centre − side / 2."""
    x, y, w, h = box
    side = geometry.crop_side(box)
    assert side == 1.25 * max(w, h)
    expected = np.array(point) * side / 224 + (x + w / 2, y + h / 2) - side / 2
    found = geometry.apply(geometry.inverse(geometry.crop_transform(box)), point)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)


@many
@given(box=boxes, size=frames, rotation=st.floats(-180, 180))
def test_the_crop_is_square_and_covers_the_shorter_side(box, size, rotation):
    """The box's centre is the frame's centre; lengths shrink by one factor in all directions."""
    x, y, w, h = box
    transform = geometry.crop_transform(box, size, rotation=rotation)
    centre = geometry.apply(transform, (x + w / 2, y + h / 2))
    np.testing.assert_allclose(centre, (size[1] / 2, size[0] / 2), atol=1e-6)
    turned = transform[:2, :2] * geometry.crop_side(box) / min(size)
    np.testing.assert_allclose(turned @ turned.T, np.eye(2), atol=1e-12)


@pytest.mark.parametrize(
    ("options", "corner"),
    [
        ({}, (22.4, 22.4)),  # a box fills 1 / 1.25 of the frame
        ({"scale": 1.25}, (40.32, 40.32)),  # more of the photo, so the box is smaller
        ({"padding": 1.0}, (0.0, 0.0)),
        ({"shift": (0.1, -0.05)}, (44.8, 11.2)),
        ({"rotation": 90.0}, (22.4, 201.6)),  # counter-clockwise: the top left corner comes to the bottom left
        ({"size": (448, 224)}, (22.4, 134.4)),
    ],
)
def test_where_a_corner_lands(options, corner):
    transform = geometry.crop_transform((10, 20, 100, 100), **options)
    np.testing.assert_allclose(geometry.apply(transform, (10, 20)), corner, atol=1e-9)


def test_points_through_a_perspective():
    corners = np.array([(0, 0), (100, 0), (100, 100), (0, 100)], dtype=np.float32)
    moved = np.array([(3, 5), (90, -4), (110, 95), (-6, 120)], dtype=np.float32)
    transform = cv2.getPerspectiveTransform(corners, moved)
    assert not geometry.is_affine(transform)
    np.testing.assert_allclose(geometry.apply(transform, corners), moved, atol=1e-4)
    np.testing.assert_allclose(geometry.apply(geometry.inverse(transform), moved), corners, atol=1e-4)


@pytest.mark.parametrize(
    ("box", "clipped"),
    [
        ((10, 20, 30, 40), (10, 20, 29, 39)),  # the protocol takes the last pixel as the end
        ((-5, -7, 30, 40), (0, 0, 29, 39)),  # and keeps the width of what it moves in
        ((90, 70, 30, 40), (90, 70, 9, 9)),  # the photo ends at 99, 79
        ((0, 0, 100, 80), (0, 0, 99, 79)),
        ((0, 0, 1000, 1000), (0, 0, 99, 79)),
        ((10.5, 20.25, 30.5, 40.5), (10.5, 20.25, 29.5, 39.5)),
        ((99, 10, 5, 5), None),  # nothing left
        ((100, 10, 5, 5), None),
        ((10, 79, 5, 5), None),
        ((10, 10, 1, 5), None),  # one pixel wide has no area
        ((10, 10, 0, 5), None),
        ((10, 10, -4, 5), None),
    ],
)
def test_boxes_are_clipped_as_in_the_protocol(box, clipped):
    assert geometry.clip_box(box, width=100, height=80) == clipped


# --- pixels ----------------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_crop_and_keypoint_maps_of_the_protocol(shared):
    """Pixels, maps and joints of an item as the released code prepares it."""
    folder = shared / "golden/dataset"
    expected = golden.arrays(folder, "dataset_golden")
    instances = read_coco(folder / "ann.json", folder / "images").instances
    for role, index in zip("sq", expected["paired_1"][3].int().tolist(), strict=True):
        instance = instances[index]
        transform = geometry.crop_transform(instance.box)
        frame = geometry.warp(load_image(instance.image), transform, (224, 224))
        pixels = normalise_pixels(torch.from_numpy(frame)[None])[0]
        assert (pixels - expected[f"item3_img_{role}"]).abs().max() < 1e-6

        points = torch.from_numpy(geometry.apply(transform, instance.keypoints)).float()
        visible, K = torch.from_numpy(instance.visible), len(points)
        if role == "s":
            maps = golden.gaussian_maps(points / 224, (224, 224), 3.5) * visible[:, None, None]
            assert torch.equal(maps.half().float(), expected["item3_target_s"][:K])
        else:
            assert (points - expected["item3_joints_q"][:K, :2])[visible].abs().max() < 1e-4
            centre, scale = expected["item3_center"].tolist(), expected["item3_scale"].tolist()
            x, y, w, h = instance.box
            assert [x + w / 2, y + h / 2] == centre
            assert [geometry.crop_side(instance.box) / 200] * 2 == pytest.approx(scale)


def rounded_bilinear(image: np.ndarray, transform: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The protocol's sampling, pixel by pixel: positions rounded to 1/32 (each part to 1/1024 before), zero outside
    the photo."""
    height, width = size
    inverse = np.linalg.inv(transform)[:2]
    frame = np.zeros((height, width, image.shape[2]))
    for v in range(height):
        for u in range(width):
            x, y = ((round(a * u * 1024) + round((b * v + c) * 1024) + 16) // 32 / 32 for a, b, c in inverse)
            for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
                row, column = math.floor(y) + i, math.floor(x) + j
                if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
                    frame[v, u] += (1 - abs(y - row)) * (1 - abs(x - column)) * image[row, column]
    return frame


@pytest.mark.parametrize(
    ("box", "options"),
    [
        ((10, 5, 20, 20), {}),
        ((10, 5, 20, 20), {"rotation": 33.0, "scale": 0.7}),
        ((-30, 2, 60, 20), {}),  # half outside
        ((5, 5, 31, 31), {"size": (12, 20)}),
    ],
)
def test_sampling(box, options):
    image = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    size = options.setdefault("size", (16, 16))
    transform = geometry.crop_transform(box, **options)
    frame = geometry.warp(image, transform, size)
    assert frame.shape == (*size, 3)
    assert frame.dtype == np.uint8
    assert np.abs(frame - rounded_bilinear(image, transform, size)).max() <= 1.0


def test_outside_the_photo_all_is_black():
    image = np.full((40, 50, 3), 200, dtype=np.uint8)
    for box in ((500, 10, 20, 20), (-500, 10, 20, 20), (10, 500, 20, 20), (10, -500, 20, 20)):
        assert not geometry.warp(image, geometry.crop_transform(box), (32, 32)).any()


def test_photos_may_be_longer_than_a_16_bit_number():
    image = np.zeros((40, 40_000, 3), dtype=np.uint8)
    image[:, 36_000:] = 90
    frame = geometry.warp(image, geometry.crop_transform((35_990, 10, 20, 20), (32, 32)), (32, 32))
    assert not frame[16, :15].any()
    assert (frame[16, 18:] == 90).all()


def test_perspective_warp_puts_points_where_apply_says():
    image = np.zeros((100, 100, 3), dtype=np.uint8)
    image[39:42, 59:62] = 255
    transform = np.array([[1.1, 0.1, 3.0], [-0.05, 0.9, 8.0], [5e-4, -3e-4, 1.0]])
    np.testing.assert_allclose(
        centre_of(geometry.warp(image, transform, (120, 120))), geometry.apply(transform, (60, 40)), atol=0.3
    )


def centre_of(frame: np.ndarray) -> tuple[float, float]:
    """Centre (x, y) of what is bright."""
    weight = frame[:, :, 0].astype(float)
    rows, columns = np.indices(weight.shape)
    return float((weight * columns).sum() / weight.sum()), float((weight * rows).sum() / weight.sum())


@pytest.mark.parametrize("shape", [(1200, 1600), (1201, 1599), (733, 2047)])
@pytest.mark.parametrize("rotation", [0.0, 25.0])
def test_shrinking_smoothly_keeps_positions(shape, rotation):
    """Halving a photo moves its pixel centres by half a pixel each time; the dot must still land where it belongs."""
    image = np.zeros((*shape, 3), dtype=np.uint8)
    x, y = 0.61 * shape[1], 0.37 * shape[0]
    cv2.circle(image, (round(x), round(y)), 60, (255, 255, 255), -1)
    transform = geometry.crop_transform((0, 0, shape[1], shape[0]), (96, 96), rotation=rotation)
    frame = geometry.Pyramid(image).warp(transform, (96, 96))
    np.testing.assert_allclose(centre_of(frame), geometry.apply(transform, (round(x), round(y))), atol=0.1)


def test_shrinking_smoothly_averages():
    """A fine checkerboard becomes grey, not noise; the protocol's crop does neither average nor blur."""
    image = np.indices((1024, 1024)).sum(axis=0) % 2 * np.uint8(255)
    image = np.repeat(image[:, :, None], 3, axis=2).astype(np.uint8)
    transform = geometry.crop_transform((0, 0, 1024, 1024), (100, 100), padding=1.0)
    inside = (slice(2, -2), slice(2, -2))
    assert np.abs(geometry.Pyramid(image).warp(transform, (100, 100))[inside].astype(int) - 127).max() <= 2
    assert np.ptp(geometry.warp(image, transform, (100, 100))[inside]) > 100


def test_enlarging_is_not_smoothed():
    image = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    transform = geometry.crop_transform((10, 10, 30, 30))
    plain = geometry.warp(image, transform, (224, 224))
    smooth = geometry.Pyramid(image).warp(transform, (224, 224))
    assert np.array_equal(plain, smooth)


@pytest.mark.parametrize("quarters", [0, 1, 2, 3, -1, 5])
def test_a_quarter_turn_moves_points_as_numpy_moves_pixels(quarters: int) -> None:
    frame = np.arange(49).reshape(7, 7)
    turned = np.rot90(frame, quarters)
    points = np.array([[0, 0], [6, 0], [2, 5], [3, 3]])
    moved = geometry.apply(geometry.quarter_turn((7, 7), quarters), points).round().astype(int)
    assert [turned[y, x] for x, y in moved] == [frame[y, x] for x, y in points]
