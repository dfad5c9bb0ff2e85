"""Reading pictures: any file, mode and EXIF orientation → RGB uint8."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgecape.errors import ImageError

if TYPE_CHECKING:
    from PIL import Image

RGB = NDArray[np.uint8]
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".gif", ".ppm", ".pgm", ".jp2", ".heic", ".heif")
HEIC_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")
NO_HEIC = "is HEIC, which needs pillow-heif: pip install 'edgecape[studio]', or save it as JPEG"
ORIENTATION = 0x0112  # in EXIF
SUBFILE, REDUCED = 254, 1  # in TIFF: a page is the first one in a smaller size


def load_image(source: str | os.PathLike[str] | Image.Image | NDArray[Any], name: str | None = None) -> RGB:
    """A path, PIL image or array → RGB uint8 (height, width, 3), upright as its EXIF orientation says.

    Values other than bytes: floats up to 1 are parts of white; what lies in 0…255 is taken as it is; everything else,
    and all 16-bit pictures, is stretched from its lowest to its highest value.
    """
    from PIL import Image

    if isinstance(source, np.ndarray):
        return _from_array(source, name or "array")
    if isinstance(source, Image.Image):
        return _from_pil(source, name or "PIL image")
    if not isinstance(source, (str, os.PathLike)):
        raise ImageError(f"an image is a path, a PIL image or an array, not {type(source).__name__}")
    if not os.path.isfile(source):  # also of names that no system takes
        raise ImageError(f"image {source!s:.200} {'is a folder' if os.path.isdir(source) else 'does not exist'}")
    try:
        _prepare(source)
        with Image.open(source) as picture:  # refuses decompression bombs (above 179 megapixels)
            check_opened(picture, str(source))
            return _from_pil(picture, str(source))
    except ImageError:
        raise
    except Exception as error:  # Pillow's decoders raise whatever they like on damaged files
        raise ImageError(f"image {source} cannot be read: {error}") from error


@cache
def open_heic() -> bool:
    """Teaches Pillow to open what phones save as .heic; False where pillow-heif is missing."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return False
    register_heif_opener()
    return True


def _prepare(path: str | os.PathLike[str]) -> None:
    with open(path, "rb") as file:
        if is_heic(file.read(12)) and not open_heic():
            raise ImageError(f"image {path} {NO_HEIC}")


def is_heic(head: bytes) -> bool:
    """By the first twelve bytes of a file."""
    return head[4:8] == b"ftyp" and head[8:12] in HEIC_BRANDS


def check_opened(picture: Image.Image, name: str) -> None:
    """That a file holds one picture and no program. Which of several pictures is meant, its owner must say."""
    if picture.format == "EPS":  # Pillow would run Ghostscript
        raise ImageError(f"image {name} is PostScript, a program that is not run; save it as PNG or JPEG")
    number = getattr(picture, "n_frames", 1)
    if number == 1 or picture.format in (
        "MPO",
        "PSD",
        "HEIF",
    ):  # with a preview or depth; layers
        return
    picture.seek(1)
    smaller = picture.format == "TIFF" and picture.tag_v2.get(SUBFILE, 0) & REDUCED  # type: ignore[attr-defined]
    picture.seek(0)
    if not smaller:
        raise ImageError(f"image {name} holds {number} pictures; save the one you mean, or all of them as a video")


def image_size(path: str | os.PathLike[str]) -> tuple[int, int]:
    """(width, height) of a file as `load_image` would turn it upright, read from its header only."""
    from PIL import Image

    try:
        _prepare(path)
        with Image.open(path) as picture:
            sideways = picture.getexif().get(ORIENTATION, 1) >= 5  # 5 to 8 swap the sides
            return (picture.height, picture.width) if sideways else (picture.width, picture.height)
    except ImageError:
        raise
    except Exception as error:  # as above
        raise ImageError(f"image {path} cannot be read: {error}") from error


def _from_pil(picture: Image.Image, name: str) -> RGB:
    from PIL import Image, ImageOps

    try:
        picture.load()  # also finds EXIF that follows the pixels
        if picture.getexif().get(ORIENTATION, 1) != 1:  # else it would be copied, which large photos make dear
            picture = ImageOps.exif_transpose(picture)
        if picture.mode in ("I;16", "I;16B", "I;16L", "I", "F"):
            return _from_array(np.asarray(picture), name)
        if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
            picture = picture.convert("RGBA")
            white = Image.new("RGBA", picture.size, "white")
            picture = Image.alpha_composite(white, picture)
        return _from_array(np.array(picture if picture.mode == "RGB" else picture.convert("RGB")), name)
    except (OSError, SyntaxError, ValueError) as error:
        raise ImageError(f"image {name} cannot be decoded: {error}") from error


def _from_array(array: NDArray[Any], name: str) -> RGB:
    if array.ndim == 2:
        array = np.repeat(array[:, :, None], 3, axis=2)
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise ImageError(f"image {name} has shape {array.shape}; expected (height, width, 3)")
    if array.shape[2] == 1:
        array = np.repeat(array, 3, axis=2)
    if array.dtype == np.uint8:
        if array.shape[2] == 4:  # onto white, as for files
            alpha = array[:, :, 3:].astype(np.float32) / 255
            return np.rint(array[:, :, :3] * alpha + 255 * (1 - alpha)).astype(np.uint8)
        return np.ascontiguousarray(array)
    array = array[:, :, :3]
    if array.dtype.kind in "iuf":
        low, high = float(array.min()), float(array.max())
        if not np.isfinite((low, high, high - low)).all():
            raise ImageError(f"image {name} holds values that are not numbers")
        if array.dtype == np.uint16 or low < 0 or high > 255:
            # microscopes and depth cameras rarely fill their range: stretch what is there
            spread = (array.astype(np.float64) - low) * (255.0 / ((high - low) or 1.0))
            return np.rint(spread).astype(np.uint8)
        return np.rint(array * (255.0 if array.dtype.kind == "f" and high <= 1 else 1.0)).astype(np.uint8)
    raise ImageError(f"image {name} has values of type {array.dtype}; expected uint8")
