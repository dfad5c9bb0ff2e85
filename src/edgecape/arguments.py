"""What `predict` takes: images and boxes, one or many, listed or coming one by one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import numpy as np

from edgecape.errors import AnnotationError, brief


def listed(images: Any, boxes: Any) -> tuple[Any, Any]:
    """A single image as a list of one."""
    if isinstance(images, (str, os.PathLike)) or hasattr(images, "mode") or is_image_array(images):
        images, boxes = [images], None if boxes is None else [boxes]
    array = isinstance(images, np.ndarray) and images.ndim < 4
    if not is_listing(images) or array:
        told = f"an array of shape {images.shape}" if array else brief(images)
        raise AnnotationError(f"images must be an image, a list of images or an iterator, got {told}")
    return images, boxes


def with_boxes(images: Iterable[Any], boxes: Any) -> Iterator[tuple[Any, Any]]:
    """Each image with its boxes; there must be as many of the one as of the other."""
    if boxes is None:
        return ((image, None) for image in images)
    remedy = "give one entry per image: (x, y, w, h), a list of boxes, or None for the whole image"
    if not is_listing(boxes) or is_box(boxes):
        raise AnnotationError(f"boxes is {brief(boxes)}; {remedy}")
    if isinstance(images, Sized) and isinstance(boxes, Sized) and len(images) != len(boxes):
        raise AnnotationError(f"there are {len(boxes)} entries in boxes for {len(images)} images; {remedy}")
    return _paired(iter(images), iter(boxes), remedy)


def _paired(images: Iterator[Any], boxes: Iterator[Any], remedy: str) -> Iterator[tuple[Any, Any]]:
    end = object()
    for number, image in enumerate(images):
        if (mine := next(boxes, end)) is end:
            raise AnnotationError(f"boxes has {number} entries, but there are more images; {remedy}")
        yield image, mine
    if next(boxes, end) is not end:
        raise AnnotationError(f"boxes has more entries than there are images; {remedy}")


def is_listing(value: Any) -> bool:
    """Something to go through whose members are meant, not its letters or keys."""
    try:
        iter(value)
    except TypeError:
        return False
    return not isinstance(value, (str, bytes, Mapping))


def is_box(value: Any) -> bool:
    """Four numbers, not four boxes."""
    try:
        return len(value) == 4 and all(np.ndim(number) == 0 and number is not None for number in value)
    except (TypeError, ValueError):  # no sequence, or a ragged one
        return False


def is_image_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and (value.ndim == 2 or (value.ndim == 3 and value.shape[-1] in (1, 3, 4)))
