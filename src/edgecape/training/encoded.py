"""Episodes as a frozen encoder leaves them, on disk: a decoder learns from them without anything before it being run.

A folder holds parts, one memory-mapped file each, written under a temporary name and renamed: several processes may
write different parts of it, and what is there is complete. Large values are float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgecape.data.crops import Crop, plain_crop
from edgecape.data.dataset import Dataset
from edgecape.data.features import FeatureStore
from edgecape.errors import DataError
from edgecape.evaluation.episodes import Episode, pairs
from edgecape.io.files import atomic_write
from edgecape.io.locks import Lock, do_together
from edgecape.model.network import Network
from edgecape.model.pose_graph import pose_graph
from edgecape.model.tokens import mean_over_shots
from edgecape.skeleton import adjacency
from edgecape.training.sampler import Batch, EpisodeSampler

SUFFIX = ".episodes"
ROUNDED = ("image", "keypoints", "tokens", "similarity")  # to float16
PART = 512  # episodes of a file
ENCODED_AT_ONCE = 16


class Encoded(NamedTuple):
    """B episodes, padded to the largest K among them; coordinates are in [0, 1] of the frames."""

    image: Tensor  # (B, hw, d), refined by the encoder
    keypoints: Tensor  # (B, K, d), refined by the encoder
    tokens: Tensor  # (B, K, d), before it
    similarity: Tensor  # (B, K, h, w)
    places: Tensor  # (B, K, 2), of the keypoints in the supports
    usable: Tensor  # (B, K) bool
    prior: Tensor  # (B, K, K)
    target: Tensor  # (B, K, 2)
    weight: Tensor  # (B, K) bool: usable and visible in the query


@torch.no_grad()
def encode(network: Network, batch: Batch, store: FeatureStore) -> Encoded:
    """All that lies before the decoder and the graph. store: where the batch is from, with the network's LoRA."""
    features = store.upper(batch.support.flatten(0, 1)).unflatten(0, batch.support.shape[:2])
    visible = batch.visible[:, None].expand(-1, batch.support.shape[1], -1)
    any_graph = pose_graph(batch.prior, batch.prior, batch.visible)  # what is kept does not depend on it
    support = network.encode_support(features, visible, batch.prior, batch.coordinates, graph=any_graph)
    image, keypoints, proposals = network.match(network.query_cells(store.upper(batch.query)), support)
    places = mean_over_shots(batch.coordinates, visible)
    known = (places, support.usable, batch.prior, batch.target, batch.weight)
    return Encoded(image, keypoints, support.tokens, proposals.similarity, *known)


# --- making them -------------------------------------------------------------------------------------------------


def write_training_parts(network: Network, sampler: EpisodeSampler, folder: Path, parts: int, episodes: int) -> None:
    """The parts of a folder that are not there yet, together with other processes that do the same."""
    do_together(
        range(parts),
        do=lambda number: write_training_part(network, sampler, folder, number, episodes),
        is_done=lambda number: part_path(folder, number).exists(),
        lock=lambda number: Lock(part_path(folder, number).with_suffix(".lock"), "encoding"),
    )


def part_path(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}{SUFFIX}"


def write_training_part(network: Network, sampler: EpisodeSampler, folder: Path, number: int, episodes: int) -> None:
    """Part `number` of a folder: episodes of one epoch of the sampler, with one support each."""
    path = part_path(folder, number)
    if path.exists():
        return
    categories = sampler.order(number, episodes)
    found = []
    for start in range(0, episodes, ENCODED_AT_ONCE):
        batch = sampler.batch(number, categories[start : start + ENCODED_AT_ONCE], start)
        found.append(encode(network, batch, sampler.store))
    save_part(path, concatenate(found))


def write_protocol_part(
    network: Network, store: FeatureStore, dataset: Dataset, episodes: Sequence[Episode], path: Path, cover: float
) -> None:
    """All pairs of the one-shot episodes of one category, as they are evaluated; cover: share of the query's frame
    behind a patch. Its place depends on the query alone."""
    if path.exists():
        return

    def crop(index: int) -> Crop:
        instance = dataset.instances[index]
        return plain_crop(instance.image, instance.box, store.size)

    table, found = pairs(episodes), []
    category = dataset.category_of(dataset.instances[table[0][0]])
    for start in range(0, len(table), ENCODED_AT_ONCE):
        part = table[start : start + ENCODED_AT_ONCE]
        supports, queries = [crop(support) for support, _ in part], [crop(query) for _, query in part]
        if cover:
            queries = [one.covered(cover, (query,)) for one, (_, query) in zip(queries, part, strict=True)]
        shown = [[dataset.instances[index] for index in pair] for pair in part]
        visible = np.stack([support.visible for support, _ in shown])

        def placed(crops: list[Crop], side: int, shown: list = shown) -> NDArray[np.float32]:
            return np.stack(
                [one.coordinates(pair[side].keypoints, store.size) for one, pair in zip(crops, shown, strict=True)]
            )

        batch = Batch(
            query=store.lower(queries),
            support=store.lower(supports)[:, None],
            coordinates=torch.from_numpy(placed(supports, 0))[:, None],
            visible=torch.from_numpy(visible),
            prior=torch.from_numpy(adjacency(category.edges, category.K)).expand(len(part), -1, -1),
            target=torch.from_numpy(placed(queries, 1)),
            weight=torch.from_numpy(visible & np.stack([query.visible for _, query in shown])),
        )
        found.append(encode(network, batch, store))
    save_part(path, concatenate(found))


def concatenate(parts: Sequence[Encoded]) -> Encoded:
    """Padded to the largest K among them."""
    K = max(part.usable.shape[1] for part in parts)
    return Encoded(*(torch.cat([resized(name, part, K) for part in parts]) for name in Encoded._fields))


def resized(name: str, part: Encoded, K: int) -> Tensor:
    """A field of a part with K keypoints: the last ones are cut off, or ones that do not count are added."""
    value: Tensor = getattr(part, name)
    if name == "image":
        return value
    for axis in (1, 2) if name == "prior" else (1,):
        missing = K - value.shape[axis]
        if missing > 0:
            shape = [missing if a == axis else n for a, n in enumerate(value.shape)]
            value = torch.cat((value, value.new_zeros(shape)), dim=axis)
        value = value.narrow(axis, 0, K)
    return value


def save_part(path: Path, part: Encoded) -> None:
    from safetensors.torch import save

    tensors = {
        name: (value.half() if name in ROUNDED else value).contiguous() for name, value in part._asdict().items()
    }
    with atomic_write(path, "wb") as file:
        file.write(save(tensors))


# --- reading them ------------------------------------------------------------------------------------------------


def load_part(path: Path) -> Encoded:
    """Memory-mapped; large values are float16."""
    from safetensors.torch import load_file

    return Encoded(**load_file(path))


class EncodedEpisodes:
    """All parts of a folder as one list of episodes; a batch is drawn from (seed, step) alone."""

    def __init__(self, folder: Path, parts: int = 0):
        """parts: use only the first so many; 0: all."""
        paths = sorted(folder.glob(f"*{SUFFIX}"))
        if len(paths) < max(1, parts):
            raise DataError(
                f"{folder} holds {len(paths)} parts of encoded episodes, not {max(1, parts)}; make them first"
            )
        self.parts = [load_part(path) for path in paths[: parts or None]]
        rows = [(part, row) for part, content in enumerate(self.parts) for row in range(len(content.usable))]
        sizes = torch.cat([last_usable(part.usable) for part in self.parts])
        # by the number of keypoints, so that those of a batch have about as many
        self.rows = [rows[index] for index in torch.argsort(sizes, stable=True).tolist()]
        self.sizes = sizes.sort(stable=True).values

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, seed: int, step: int, size: int) -> Encoded:
        """Episodes with about as many keypoints: a place among all is drawn, then episodes from near it."""
        rng = np.random.default_rng((seed, step))
        near = min(len(self), 32 * size)
        start = int(np.clip(rng.integers(-near // 2, len(self) - near // 2), 0, len(self) - near))
        return self.gather(np.sort(rng.choice(near, size=min(size, near), replace=False) + start).tolist())

    def gather(self, indices: Sequence[int]) -> Encoded:
        K = int(self.sizes[list(indices)].max())
        chosen = [self.rows[index] for index in indices]

        def rows(name: str) -> Tensor:
            return torch.cat(
                [resized(name, Encoded(*(v[row : row + 1] for v in self.parts[part])), K) for part, row in chosen]
            )

        return Encoded(*(rows(name).float() if name in ROUNDED else rows(name) for name in Encoded._fields))


def last_usable(usable: Tensor) -> Tensor:
    """How many keypoints (B, K) there are up to the last usable one, at least 1: (B,)."""
    return (usable * torch.arange(1, usable.shape[1] + 1)).amax(dim=1).clamp(min=1)
