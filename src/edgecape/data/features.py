"""Feature maps of a frozen backbone, cached on disk.

One file per crop: a header (magic, shape, checksum) and float16 values, memory-mapped on reading. Its name is a hash of
everything the values depend on: the photo's content, the view, the frame, the backbone's fingerprint and layers. A
stale entry is thus never found, and a data set that was moved or copied finds its entries again. Files are written
under a temporary name and renamed, so two processes can share a cache and a killed one leaves no half entry; a damaged
entry fails its checksum and is computed again. Values are rounded to float16 whether cached or not, so that both give
the same numbers.

Where a head changes the backbone's last blocks, what lies below them is cached: it serves every head, also one that is
still learning.
"""

from __future__ import annotations

import functools
import hashlib
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgecape.data.crops import PLAIN, AugmentSettings, View
from edgecape.errors import DataError
from edgecape.io.files import atomic_write
from edgecape.io.images import load_image
from edgecape.model.adapter import Adapter
from edgecape.model.backbone import Backbone, normalise_pixels

if TYPE_CHECKING:
    from edgecape.predictor import EdgeCape

MAGIC = b"EDGEFEA1"
PIXELS = 2  # raised whenever the same photo and view give other pixels than before
HEADER = struct.Struct("<8s3II")  # magic, channels, height, width, crc32 of the values


@dataclass(frozen=True, eq=False)
class Crop:
    """One frame to be turned into features."""

    image: Path
    view: View
    augment: AugmentSettings = PLAIN


def _photo_identity(path: Path) -> str:
    try:
        status = path.stat()
        return _content_hash(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise DataError(f"image {path} cannot be read: {error.strerror}") from error


@functools.cache
def _content_hash(path: Path, size: int, changed: int) -> str:
    """Of a file that had this size and time of change: read once per process."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class FeatureStore:
    """Features of crops, computed in batches and remembered if a folder is given."""

    def __init__(
        self,
        backbone: Backbone,
        fingerprint: str,
        folder: str | os.PathLike[str] | None = None,
        batch: int = 16,
        adapter: Adapter | None = None,
    ):
        self.backbone, self.fingerprint, self.batch, self.adapter = backbone, fingerprint, batch, adapter
        settings = backbone.settings
        self.size = settings.image_size
        cached = f"after block {backbone.below}" if settings.adapted else settings.layers
        self.identity = f"{PIXELS}|{fingerprint}|{cached}|{settings.image_size}"
        self.folder = None if folder is None else Path(folder)
        self.computed = 0  # backbone passes so far, for the curious and for tests

    @classmethod
    def of(cls, model: EdgeCape, folder: str | os.PathLike[str] | None = None) -> FeatureStore:
        """The features that a model sees."""
        return cls(model.backbone, model.backbone_fingerprint, folder, adapter=model.network.adapter)

    def adapted(self, adapter: Adapter | None) -> FeatureStore:
        """The features that another head sees; None: those of the backbone as it is."""
        return FeatureStore(self.backbone, self.fingerprint, self.folder, self.batch, adapter)

    def path(self, crop: Crop) -> Path | None:
        if self.folder is None:
            return None
        content = f"{self.identity}|{_photo_identity(crop.image)}|{crop.view.key(crop.augment)}"
        name = hashlib.sha256(content.encode()).hexdigest()
        return self.folder / name[:2] / f"{name[2:40]}.fea"

    @torch.no_grad()
    def get(self, crops: Sequence[Crop]) -> Tensor:
        """Features (n, C, h, w) of crops, rounded to float16."""
        begun = self.begun(crops)
        if not self.backbone.settings.adapted:
            return begun
        device = next(self.backbone.parameters()).device
        parts = [self.backbone.finish(part.to(device), self.adapter).half() for part in begun.split(self.batch)]
        return torch.cat(parts).float().cpu()

    def begun(self, crops: Sequence[Crop]) -> Tensor:
        """What `Backbone.begin` gives for crops, from disk where it is there and sound."""
        paths = [self.path(crop) for crop in crops]
        found: list[NDArray[np.float16] | None] = [None if path is None else _read(path) for path in paths]
        missing = [index for index, values in enumerate(found) if values is None]
        for start in range(0, len(missing), self.batch):
            part = missing[start : start + self.batch]
            for index, values in zip(part, self._compute([crops[i] for i in part]), strict=True):
                found[index] = values
                path = paths[index]
                if path is not None:
                    _write(path, values)
        stacked = torch.from_numpy(np.stack([values for values in found if values is not None])).float()
        return stacked[:, 0] if self.backbone.settings.adapted else stacked  # tokens have no height and width

    def fill(self, crops: Iterable[Crop], progress: Callable[[int], None] | None = None) -> None:
        """Compute what is missing, a batch at a time."""
        waiting: list[Crop] = []
        for crop in crops:
            path = self.path(crop)
            if path is None or _read(path) is None:
                waiting.append(crop)
            elif progress:
                progress(1)
            if len(waiting) == self.batch:
                self.begun(waiting)
                if progress:
                    progress(len(waiting))
                waiting = []
        if waiting:
            self.begun(waiting)
            if progress:
                progress(len(waiting))

    def _compute(self, crops: Sequence[Crop]) -> NDArray[np.float16]:
        frames = [crop.view.render(load_image(crop.image), self.size, crop.augment) for crop in crops]
        device = next(self.backbone.parameters()).device
        with torch.inference_mode():
            begun = self.backbone.begin(normalise_pixels(torch.from_numpy(np.stack(frames)).to(device)))
        self.computed += len(crops)
        if self.backbone.settings.adapted:
            begun = begun[:, None]  # every entry has three axes
        return np.ascontiguousarray(begun.half().cpu().numpy())  # laid out as if read from disk


def _read(path: Path) -> NDArray[np.float16] | None:
    """The values of an entry, or None if it is absent or damaged."""
    try:
        size = path.stat().st_size
        if size < HEADER.size:
            return None
        raw = np.memmap(path, dtype=np.uint8, mode="r")
    except (OSError, ValueError):
        return None
    magic, channels, height, width, checksum = HEADER.unpack(raw[: HEADER.size].tobytes())
    payload = raw[HEADER.size :]
    if magic != MAGIC or len(payload) != 2 * channels * height * width or zlib.crc32(payload.data) != checksum:
        return None
    return payload.view(np.float16).reshape(channels, height, width)


def _write(path: Path, values: NDArray[np.float16]) -> None:
    content = np.ascontiguousarray(values).tobytes()
    with atomic_write(path, "wb") as file:
        file.write(HEADER.pack(MAGIC, *values.shape, zlib.crc32(content)))
        file.write(content)
