"""Photos from clients: what they are, found out without trusting them, and as a browser can show them upright."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from edgecape.errors import ImageError
from edgecape.io.images import NO_HEIC, ORIENTATION, RGB, check_opened, is_heic, load_image, open_heic
from edgecape.studio.limits import Limits, RefusedError
from edgecape.studio.models import StoredPhoto, id_of

# by Pillow's name of the format; others (PostScript, fonts, video …) are not even tried
SUFFIXES = {"TIFF": ".tif", "JPEG": ".jpg", "JPEG2000": ".jp2"}
SUFFIXES |= {"HEIF": ".heic"} if open_heic() else {}
SUFFIXES |= {name: f".{name.lower()}" for name in ("PNG", "WEBP", "BMP", "GIF", "PPM")}
AS_IT_IS = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}  # browsers show these
THUMBNAIL = 320  # pixels of the longer side
LONGEST_JPEG = 65_500


def examine(data: bytes, label: str, limits: Limits) -> StoredPhoto:
    """That it is a photo which can be decoded: size from the header first, pixels only then."""
    if not data:
        raise RefusedError(415, f"'{label}' is empty; choose a photo")
    if len(data) > limits.upload_bytes:
        raise RefusedError(413, f"'{label}' has more than {limits.upload_bytes:,} bytes; make it smaller")
    if is_heic(data[:12]) and not open_heic():
        raise RefusedError(415, f"'{label}' {NO_HEIC}")
    try:
        with Image.open(io.BytesIO(data), formats=list(SUFFIXES)) as picture:
            if picture.width * picture.height > limits.pixels:
                size = f"{picture.width} × {picture.height} pixels; a photo may have {limits.pixels:,} in all"
                raise RefusedError(413, f"'{label}' has {size}, make it smaller")
            suffix = SUFFIXES.get(picture.format or "", ".jpg")  # MPO is what some phones put into .jpg
            check_opened(picture, f"'{label}'")
            height, width = load_image(picture, f"'{label}'").shape[:2]
    except RefusedError:
        raise
    except Image.DecompressionBombError:
        raise RefusedError(413, f"'{label}' has too many pixels; a photo may have {limits.pixels:,}") from None
    except Image.UnidentifiedImageError:
        known = "JPEG, PNG, WebP, TIFF, HEIC, BMP, GIF"
        raise RefusedError(415, f"'{label}' is not a photo that can be read; choose {known}") from None
    except ImageError as error:
        raise RefusedError(415, f"{error}; choose another file") from error
    except Exception as error:  # Pillow's decoders raise whatever they like on damaged files
        raise RefusedError(415, f"'{label}' cannot be read: {error}; choose another file") from error
    return StoredPhoto(id=id_of(data), name=label, width=width, height=height, suffix=suffix)


def browser_type(path: Path) -> str | None:
    """The media type of a file that a browser shows as the model sees it; None if it has to be converted."""
    with Image.open(path) as picture:
        plain = picture.mode in ("L", "RGB", "RGBA", "LA", "P") and getattr(picture, "n_frames", 1) == 1
        upright = picture.getexif().get(ORIENTATION, 1) == 1
        return AS_IT_IS.get(picture.format or "") if plain and upright else None


def upright(path: Path) -> tuple[bytes, str]:
    """The photo as the model sees it, and its media type."""
    picture = load_image(path)
    if max(picture.shape) > LONGEST_JPEG:
        return as_png(picture), "image/png"
    return as_jpeg(picture, 92), "image/jpeg"


def thumbnail(path: Path) -> bytes:
    with Image.open(path) as picture:
        picture.draft("RGB", (2 * THUMBNAIL, 2 * THUMBNAIL))  # JPEG only: decodes at a fraction of the size
        small = Image.fromarray(load_image(picture))
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    return _encoded(small, "JPEG", quality=85)


def as_jpeg(picture: RGB, quality: int) -> bytes:
    return _encoded(Image.fromarray(picture), "JPEG", quality=quality)


def as_png(picture: RGB) -> bytes:
    return _encoded(Image.fromarray(picture), "PNG")


def _encoded(picture: Image.Image, format: str, **options: int) -> bytes:
    file = io.BytesIO()
    picture.save(file, format, **options)
    return file.getvalue()
