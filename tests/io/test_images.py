"""Any picture → RGB uint8, upright; a bad one → one sentence that names it."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from edgecape.errors import ImageError
from edgecape.io.images import image_size, load_image

RED = np.zeros((4, 6, 3), dtype=np.uint8) + np.array([255, 0, 0], dtype=np.uint8)


def gradient(dtype=np.uint8, top: float = 255.0) -> np.ndarray:
    """(4, 6) values from 0 to `top`."""
    return np.linspace(0, top, 24).reshape(4, 6).astype(dtype)


# --- kinds of pictures -----------------------------------------------------------------------------------------------


def rgba() -> Image.Image:
    """Red; the left half opaque, the right half invisible."""
    picture = Image.fromarray(RED).convert("RGBA")
    picture.putalpha(Image.fromarray(np.repeat([[255, 255, 255, 0, 0, 0]], 4, axis=0).astype(np.uint8)))
    return picture


def transparent_palette() -> Image.Image:
    picture = Image.fromarray(np.repeat([[1, 1, 1, 0, 0, 0]], 4, axis=0).astype(np.uint8), mode="P")
    picture.putpalette([0, 0, 0, 255, 0, 0])
    picture.info["transparency"] = 0
    return picture


grey = gradient()
shades = np.repeat(grey[:, :, None], 3, axis=2)
half_white = np.where(np.arange(6)[None, :, None] < 3, RED, np.uint8(255))
half_grey = np.where(np.arange(6)[None, :, None] < 3, shades, np.uint8(255))
stripes = np.repeat([[0, 255, 0, 255, 0, 255]], 4, axis=0).astype(np.uint8)

PICTURES = {
    "RGB": (Image.fromarray(RED), RED),
    "L": (Image.fromarray(grey), shades),
    "1": (Image.fromarray(stripes).convert("1"), np.repeat(stripes[:, :, None], 3, axis=2)),
    "P": (Image.fromarray(RED).convert("P", palette=Image.Palette.ADAPTIVE), RED),
    "P with transparency": (transparent_palette(), half_white),
    "RGBA": (rgba(), half_white),
    "LA": (Image.merge("LA", (Image.fromarray(grey), rgba().getchannel("A"))), half_grey),
    "CMYK": (Image.fromarray(RED).convert("CMYK"), RED),
    "I;16": (Image.fromarray(gradient(np.uint16, 5000)), shades),  # stretched to what is there
    "I": (Image.fromarray(gradient(np.int32, 70_000)), shades),
    "F": (Image.fromarray(gradient(np.float32, 1.0)), shades),
}


@pytest.mark.parametrize("mode", PICTURES)
def test_pil_modes(mode):
    picture, expected = PICTURES[mode]
    found = load_image(picture)
    assert found.dtype == np.uint8
    assert found.flags["C_CONTIGUOUS"]
    assert np.abs(found.astype(int) - expected).max() <= 1


@pytest.mark.parametrize("mode", PICTURES)
def test_files_are_read_as_the_picture_they_hold(mode, tmp_path):
    picture, expected = PICTURES[mode]
    path = tmp_path / ("picture.tif" if mode in ("CMYK", "I", "F") else "picture.png")  # PNG knows none of the three
    picture.save(path)
    for source in (path, str(path)):
        assert np.abs(load_image(source).astype(int) - expected).max() <= 1


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "gif", "ppm", "webp", "jpg"])
def test_file_formats(suffix, tmp_path):
    Image.fromarray(RED).save(tmp_path / f"red.{suffix}")
    assert np.abs(load_image(tmp_path / f"red.{suffix}").astype(int) - RED).max() <= 3


def test_jpeg_for_print(tmp_path):
    PICTURES["CMYK"][0].save(tmp_path / "print.jpg")
    assert np.abs(load_image(tmp_path / "print.jpg").astype(int) - RED).max() <= 3


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (RED, RED),
        (RED[:, ::-1], RED),  # not contiguous
        (grey, shades),
        (grey[:, :, None], shades),
        (np.asarray(rgba()), half_white),
        (gradient(np.uint16, 40_000), shades),
        (gradient(np.int64, 255), shades),
        (gradient(np.int32, 40_000), shades),
        (gradient(np.float32, 1.0), shades),
        (gradient(np.float64, 255.0), gradient(np.float64, 255.0).round()[:, :, None].repeat(3, 2)),
        (np.full((2, 2), 1000, dtype=np.uint16), np.zeros((2, 2, 3))),  # nothing to stretch
        (np.full((2, 2), -3), np.zeros((2, 2, 3))),
        (gradient(np.float32, 60_000.0), shades),  # not saturated
        (gradient(np.float32, 2.0) - 1, shades),
        (gradient(np.float64, 1e300), shades),
        (gradient(np.int16, 2550) - 500, shades),
        (np.zeros((2, 2)), np.zeros((2, 2, 3))),
    ],
)
def test_arrays(array, expected):
    found = load_image(array)
    assert found.dtype == np.uint8
    assert found.flags["C_CONTIGUOUS"]
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_a_float_tiff_is_stretched_not_saturated(tmp_path):
    Image.fromarray(gradient(np.float32, 5000.0)).save(tmp_path / "a.tif")
    assert np.abs(load_image(tmp_path / "a.tif").astype(int) - shades).max() <= 1


@pytest.mark.parametrize("suffix", ["tif", "gif", "webp", "png"])
def test_files_of_several_pictures_are_refused(suffix, tmp_path):
    first, second = Image.fromarray(RED), Image.fromarray(shades)
    first.save(tmp_path / f"a.{suffix}", save_all=True, append_images=[second])
    with pytest.raises(ImageError, match=rf"a\.{suffix} holds 2 pictures; save the one you mean"):
        load_image(tmp_path / f"a.{suffix}")
    with Image.open(tmp_path / f"a.{suffix}") as picture:  # whoever opened it has said which one
        picture.seek(1)
        assert np.abs(load_image(picture).astype(int) - shades).max() <= 12


def test_one_picture_in_several_sizes_or_with_a_preview_is_one(tmp_path):
    large, small = Image.fromarray(RED), Image.fromarray(RED[::2, ::2])
    small.encoderinfo = {"tiffinfo": {254: 1}}
    large.save(tmp_path / "pyramid.tif", save_all=True, append_images=[small])
    large.save(tmp_path / "phone.jpg", format="MPO", save_all=True, append_images=[small])
    for name in ("pyramid.tif", "phone.jpg"):
        assert load_image(tmp_path / name).shape == RED.shape


def test_postscript_is_not_run(tmp_path):
    (tmp_path / "a.jpg").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    with pytest.raises(ImageError, match="PostScript, a program that is not run"):
        load_image(tmp_path / "a.jpg")


# --- orientation -----------------------------------------------------------------------------------------------------

CORNERS = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[255, 255, 0], [0, 255, 255], [255, 0, 255]]], np.uint8)

# EXIF orientation → how the stored pixels of an upright picture lie
STORED = {
    1: CORNERS,
    2: CORNERS[:, ::-1],
    3: CORNERS[::-1, ::-1],
    4: CORNERS[::-1],
    5: CORNERS.transpose(1, 0, 2),
    6: np.rot90(CORNERS),
    7: np.rot90(CORNERS, 2).transpose(1, 0, 2),
    8: np.rot90(CORNERS, -1),
}


@pytest.mark.parametrize("orientation", STORED)
def test_pictures_are_turned_upright(orientation, tmp_path):
    """From a file, and from a PIL image that was opened from it: both show the same pixels."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(STORED[orientation])).save(tmp_path / "photo.png", exif=exif)
    assert np.array_equal(load_image(tmp_path / "photo.png"), CORNERS)
    with Image.open(tmp_path / "photo.png") as picture:
        assert np.array_equal(load_image(picture), CORNERS)
    assert image_size(tmp_path / "photo.png") == (3, 2)


# --- bad input -------------------------------------------------------------------------------------------------------


def damaged(tmp_path, kind: str):
    path = tmp_path / f"{kind}.png"
    if kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("this is no picture")
    elif kind == "truncated":
        noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(noise).save(path)
        path.write_bytes(path.read_bytes()[:3000])
    return path


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", "does not exist"),
        ("folder", "is a folder"),
        ("empty", "cannot"),
        ("text", "cannot"),
        ("truncated", "cannot"),
    ],
)
def test_bad_files_are_named(kind, reason, tmp_path):
    path = damaged(tmp_path, kind)
    with pytest.raises(ImageError, match=reason) as caught:
        load_image(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "text"])
def test_the_size_of_a_bad_file_is_an_error_too(kind, tmp_path):
    path = damaged(tmp_path, kind)
    with pytest.raises(ImageError, match=f"{kind}.png"):
        image_size(path)


def test_a_truncated_jpeg_is_no_picture(tmp_path):
    path = tmp_path / "photo.jpg"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:1500])
    with pytest.raises(ImageError, match=r"photo\.jpg cannot be"):
        load_image(path)


def test_decompression_bombs_are_refused(tmp_path, monkeypatch):
    Image.fromarray(RED).save(tmp_path / "bomb.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(ImageError, match=r"bomb\.png cannot be read: .*24 pixels"):
        load_image(tmp_path / "bomb.png")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (np.zeros((0, 5, 3), np.uint8), r"shape \(0, 5, 3\)"),
        (np.zeros((5, 0), np.uint8), r"shape"),
        (np.zeros((5, 5, 2), np.uint8), r"shape \(5, 5, 2\)"),
        (np.zeros((2, 5, 5, 3), np.uint8), r"shape"),
        (np.zeros(7), r"shape \(7,\)"),
        (np.full((2, 2, 3), np.nan), "not numbers"),
        (np.full((2, 2, 3), np.inf, np.float32), "not numbers"),
        (np.array([[-1.7e308, 1.7e308]]), "not numbers"),
        ("x" * 5000, "xxx does not exist"),
        ("a\0b", "does not exist"),
        (np.zeros((2, 2, 3), complex), "type complex128"),
        (np.full((2, 2, 3), "x"), "type <U1"),
        (Image.new("RGB", (0, 5)), "shape"),
        (None, "not NoneType"),
        (b"bytes", "not bytes"),
        ([[0, 0], [0, 0]], "not list"),
    ],
)
def test_bad_values_are_refused(source, reason):
    with pytest.raises(ImageError, match=reason):
        load_image(source)


def test_a_value_goes_by_the_name_it_is_given():
    with pytest.raises(ImageError, match="image frame 7 of film"):
        load_image(np.zeros((0, 5, 3), np.uint8), name="frame 7 of film")
