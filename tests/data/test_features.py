from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from edgecape.data.crops import AugmentSettings, Crop, augmented_crop
from edgecape.data.dataset import Dataset
from edgecape.data.features import FeatureStore
from edgecape.data.objects import read_coco
from edgecape.errors import DataError
from edgecape.model.backbone import normalise_pixels

from toy import ToyBackbone, lamps, store


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return lamps(tmp_path / "photos", 4)


def crops(dataset: Dataset, number: int = 0, augment: AugmentSettings | None = None) -> list[Crop]:
    augment = augment or AugmentSettings()
    size = ToyBackbone().settings.image_size
    return [augmented_crop(i.image, i.box, size, augment, 0, i.index, number) for i in dataset.instances]


def test_a_cached_crop_is_computed_once_and_equals_a_fresh_one(dataset, tmp_path):
    cached, online = store(tmp_path / "cache"), store()
    wanted = crops(dataset)
    first, second, fresh = cached.get(wanted), cached.get(wanted), online.get(wanted)
    assert torch.equal(first, second) and torch.equal(first, fresh)
    assert cached.computed == len(wanted)
    assert all(path.name[0] != "." for path in (tmp_path / "cache").rglob("*"))  # no temporary file


def test_features_are_those_of_the_backbone(dataset):
    crop = crops(dataset)[0]
    from edgecape.io.images import load_image

    frame = crop.render(load_image(crop.photo), store().size)
    with torch.inference_mode():
        truth = ToyBackbone()(normalise_pixels(torch.from_numpy(frame)[None]))
    torch.testing.assert_close(store().get([crop]), truth, atol=1e-3, rtol=1e-3)  # rounded to float16


@pytest.mark.parametrize(
    "change",
    ["view", "augmentation", "photo", "fingerprint"],
)
def test_whatever_the_values_depend_on_makes_another_entry(dataset, tmp_path, change):
    strong = AugmentSettings(strong_probability=1.0)
    cache = store(tmp_path / "cache")
    before = crops(dataset, augment=strong)
    cache.get(before)
    after = before
    if change == "view":
        after = crops(dataset, number=1, augment=strong)
    elif change == "augmentation":
        after = crops(dataset, augment=AugmentSettings(strong_probability=1.0, colour=0.1))
    elif change == "photo":
        for crop in before:
            crop.photo.write_bytes(crop.photo.read_bytes() + b"more")
    else:
        cache = FeatureStore(ToyBackbone(), "another", tmp_path / "cache")  # type: ignore[arg-type]
    computed = cache.computed
    cache.get(after)
    assert cache.computed == computed + len(after)


def test_photos_that_moved_are_found_again(dataset, tmp_path):
    cache = store(tmp_path / "cache")
    before = crops(dataset)
    truth = cache.get(before)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = []
    for crop in before:
        copy = elsewhere / crop.photo.name
        copy.write_bytes(crop.photo.read_bytes())
        os.utime(copy, ns=(1, 1))
        moved.append(replace(crop, photo=copy))
    fresh = store(tmp_path / "cache")
    assert torch.equal(fresh.get(moved), truth) and fresh.computed == 0


@pytest.mark.parametrize("damage", ["truncated", "bit", "empty", "header", "foreign"])
def test_a_damaged_entry_is_computed_again_and_replaced(dataset, tmp_path, damage):
    cache = store(tmp_path / "cache")
    crop = crops(dataset)[0]
    truth = cache.get([crop])
    path = cache.path(crop)
    assert path is not None
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        content = content[: len(content) // 2]
    elif damage == "bit":
        content[-5] ^= 1
    elif damage == "empty":
        content = bytearray()
    elif damage == "header":
        content[8] ^= 1
    else:
        content = bytearray(b"something else entirely, long enough to have a header")
    path.write_bytes(content)
    fresh = store(tmp_path / "cache")
    assert torch.equal(fresh.get([crop]), truth) and fresh.computed == 1
    assert torch.equal(fresh.get([crop]), truth) and fresh.computed == 1


def _fill(photos: Path, cache: Path) -> None:
    torch.set_num_threads(1)
    store(cache).get(crops(read_coco(photos / "lamps.json", photos)))


def test_two_processes_share_a_cache(dataset, tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_fill, args=(tmp_path / "photos", tmp_path / "cache")) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    after = store(tmp_path / "cache")
    assert torch.isfinite(after.get(crops(dataset))).all() and after.computed == 0
    assert all(path.name[0] != "." for path in (tmp_path / "cache").rglob("*"))  # no temporary file


def test_what_a_killed_process_leaves_is_not_used(dataset, tmp_path):
    cache = store(tmp_path / "cache")
    crop = crops(dataset)[0]
    path = cache.path(crop)
    assert path is not None
    path.parent.mkdir(parents=True)
    (path.parent / ".half.fea").write_bytes(b"half")
    cache.get([crop])
    assert cache.computed == 1


def test_a_missing_photo_is_named(tmp_path):
    crop = augmented_crop(tmp_path / "gone.png", (0, 0, 9, 9), (112, 112), AugmentSettings(), 0, 0, 0)
    with pytest.raises(DataError, match="gone.png"):
        store(tmp_path / "cache").get([crop])


def test_values_are_finite_numbers_of_the_right_shape(dataset):
    features = store().get(crops(dataset))
    assert features.shape == (4, 24, 8, 8) and np.isfinite(features.numpy()).all()
