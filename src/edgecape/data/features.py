"""Feature maps of a frozen backbone, cached on disk.

One file per crop: a header (magic, shape, checksum) and float16 values, memory-mapped on reading. Its name is a hash of
everything the values depend on: the photo's content, the view, the frame, the backbone's fingerprint and layers. A
stale entry is thus never found, and a data set that was moved or copied finds its entries again. Files are written
under a temporary name and renamed, so two processes can share a cache and a killed one leaves no half entry; a damaged
entry fails its checksum and is computed again. Values are rounded to float16 whether cached or not, so that both give
the same numbers.

Where LoRA changes the backbone's last blocks, the tokens below them are cached: they serve every head, also one that is
still learning.
"""

from __future__ import annotations

import functools
import hashlib
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgecape.data.crops import Crop
from edgecape.errors import DataError
from edgecape.io.files import atomic_write
from edgecape.io.images import load_image
from edgecape.matching.lora import LoRA
from edgecape.matching.network import lora_of
from edgecape.model.backbone import Backbone, normalise_pixels
from edgecape.model.precision import bfloat16_is_fast

if TYPE_CHECKING:
    from edgecape.runtime.torch_runtime import TorchRuntime

MAGIC = b"EDGEFEA1"
PIXELS = 2  # raised whenever the same photo and view give other pixels than before
HEADER = struct.Struct("<8s3II")  # magic, channels, height, width, crc32 of the values


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
    """Features of crops, computed in batches and remembered if a folder is given.

    lora: whose features; None: those of the backbone as it is. blocks: how many of the last blocks a LoRA may change,
    also one that is still learning: what lies below them is what is remembered. precision: of the backbone's products;
    bfloat16 is two and a half times as fast on processors that know it, and changes features by 0.7 %; on others it is
    not used.
    """

    def __init__(
        self,
        backbone: Backbone,
        fingerprint: str,
        folder: str | os.PathLike[str] | None = None,
        batch: int = 16,
        blocks: int = 0,
        lora: LoRA | None = None,
        precision: torch.dtype = torch.float32,
    ):
        self.backbone, self.fingerprint, self.batch, self.blocks = backbone, fingerprint, batch, blocks
        self.folded = backbone if lora is None else lora.fold(backbone)
        settings = backbone.settings
        self.size = settings.image_size
        cached = f"after block {backbone.below(blocks)}" if blocks else settings.layers
        device = next(backbone.parameters()).device.type
        self.precision = precision if bfloat16_is_fast(device) else torch.float32
        exact = self.precision == torch.float32
        self.identity = f"{PIXELS}|{fingerprint}|{cached}|{settings.image_size}{'' if exact else precision}"
        self.folder = None if folder is None else Path(folder)
        self.computed = 0  # backbone passes so far, for the curious and for tests

    @classmethod
    def of(
        cls,
        runtime: TorchRuntime,
        folder: str | os.PathLike[str] | None = None,
        precision: torch.dtype = torch.float32,
    ) -> FeatureStore:
        """The features that a model sees."""
        lora = lora_of(runtime.network)
        blocks = 0 if lora is None else len(lora.blocks)
        fingerprint = runtime.backbone_fingerprint
        return cls(runtime.backbone, fingerprint, folder, blocks=blocks, lora=lora, precision=precision)

    def with_lora(self, lora: LoRA | None) -> FeatureStore:
        """The features that another head sees; None: those of the backbone as it is."""
        return FeatureStore(self.backbone, self.fingerprint, self.folder, self.batch, self.blocks, lora, self.precision)

    def path(self, crop: Crop) -> Path | None:
        if self.folder is None:
            return None
        content = f"{self.identity}|{_photo_identity(crop.photo)}|{crop.key}"
        name = hashlib.sha256(content.encode()).hexdigest()
        return self.folder / name[:2] / f"{name[2:40]}.fea"

    @torch.no_grad()
    def get(self, crops: Sequence[Crop]) -> Tensor:
        """Features (n, C, h, w) of crops, rounded to float16."""
        return self.upper(self.lower(crops))

    @torch.no_grad()
    def upper(self, lower: Tensor) -> Tensor:
        """Features (n, C, h, w) of what `lower` gave."""
        if not self.blocks:
            return lower
        device = next(self.backbone.parameters()).device
        with self._rounded(device):
            parts = [self.folded.upper(part.to(device), self.blocks).half() for part in lower.split(self.batch)]
        return torch.cat(parts).float().cpu()

    def _rounded(self, device: torch.device) -> torch.autocast:
        return torch.autocast(device.type, self.precision, enabled=self.precision != torch.float32)

    def lower(self, crops: Sequence[Crop]) -> Tensor:
        """What `Backbone.lower` gives for crops, from disk where it is there and sound."""
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
        return stacked[:, 0] if self.blocks else stacked  # tokens have no height and width

    def _compute(self, crops: Sequence[Crop]) -> NDArray[np.float16]:
        frames = [crop.render(load_image(crop.photo), self.size) for crop in crops]
        device = next(self.backbone.parameters()).device
        with torch.inference_mode(), self._rounded(device):
            lower = self.backbone.lower(normalise_pixels(torch.from_numpy(np.stack(frames)).to(device)), self.blocks)
        self.computed += len(crops)
        if self.blocks:
            lower = lower[:, None]  # every entry has three axes
        return np.ascontiguousarray(lower.half().cpu().numpy())  # laid out as if read from disk


def _read(path: Path) -> NDArray[np.float16] | None:
    """The values of an entry, or None if it is absent or damaged."""
    try:
        if path.stat().st_size < HEADER.size:
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
