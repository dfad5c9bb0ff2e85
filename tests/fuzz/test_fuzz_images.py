"""Pictures of every format with some bytes changed, and arrays of any shape and type."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from PIL import Image

from edgecape.errors import ImageError
from edgecape.io.images import image_size, load_image

from hostile import answered, damaged, seeds, thorough

RGB = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)
GREY = Image.fromarray(RGB[..., 0])
EXIF = Image.Exif()
EXIF[0x0112] = 6


def encoded(picture: Image.Image, format: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format, **options)
    return buffer.getvalue()


PHOTO = Image.fromarray(RGB)
FILES: dict[str, bytes] = {
    "jpeg": encoded(PHOTO, "JPEG", exif=EXIF),
    "cmyk.jpeg": encoded(PHOTO.convert("CMYK"), "JPEG"),
    "mpo": encoded(PHOTO, "MPO", save_all=True, append_images=[PHOTO]),
    "png": encoded(PHOTO, "PNG", exif=EXIF),
    "16.png": encoded(Image.fromarray(RGB[..., 0].astype(np.uint16) * 99), "PNG"),
    "palette.png": encoded(PHOTO.convert("P"), "PNG", transparency=3),
    "apng": encoded(PHOTO, "PNG", save_all=True, append_images=[GREY]),
    "bmp": encoded(PHOTO, "BMP"),
    "tiff": encoded(PHOTO, "TIFF"),
    "lzw.tiff": encoded(PHOTO, "TIFF", compression="tiff_lzw"),
    "float.tiff": encoded(Image.fromarray(RGB[..., 0].astype(np.float32) * 40), "TIFF"),
    "pages.tiff": encoded(PHOTO, "TIFF", save_all=True, append_images=[GREY]),
    "webp": encoded(PHOTO, "WEBP", exif=EXIF),
    "gif": encoded(PHOTO, "GIF"),
    "animated.gif": encoded(PHOTO, "GIF", save_all=True, append_images=[GREY]),
    "ppm": encoded(PHOTO, "PPM"),
    "pgm": encoded(GREY, "PPM"),
    "jp2": encoded(PHOTO, "JPEG2000"),
    "eps": encoded(PHOTO, "EPS"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("images")


@pytest.mark.parametrize("kind", FILES)
@given(seed=seeds)
@thorough(0.5)
@pytest.mark.filterwarnings("ignore")
def test_mutated_files(seed: int, kind: str, folder: Path) -> None:
    path = folder / f"picture.{kind}"
    path.write_bytes(damaged(FILES[kind], random.Random(seed)))
    check(answered(load_image, path))
    size = answered(image_size, path)
    assert isinstance(size, ImageError) or min(size) >= 0


@given(seed=seeds)
@thorough()
@pytest.mark.filterwarnings("ignore")
def test_arrays(seed: int) -> None:
    chance = random.Random(seed)
    shape = [chance.choice((0, 1, 2, 3, 4, 5, 40)) for _ in range(chance.choice((0, 1, 2, 2, 3, 3, 3, 4)))]
    kind = chance.choice(("u1", "u2", "i1", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "?", "O", "U3", "M8[s]"))
    numbers = np.random.default_rng(seed).normal(0, chance.choice((0.1, 100, 1e4)), shape)
    if chance.random() < 0.2:
        numbers = numbers * np.nan
    check(answered(load_image, numbers.astype(kind)))


def check(found: Any) -> None:
    if not isinstance(found, ImageError):
        assert found.dtype == np.uint8 and found.ndim == 3 and found.shape[2] == 3 and found.size
