"""Episodes kept as a frozen encoder leaves them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from edgecape.data.dataset import Dataset
from edgecape.errors import DataError
from edgecape.evaluation.episodes import protocol_episodes
from edgecape.evaluation.evaluate import evaluate
from edgecape.evaluation.methods import ModelMethod, proposals
from edgecape.io.locks import Lock
from edgecape.training.decoder_validation import distances
from edgecape.training.encoded import (
    EncodedEpisodes,
    concatenate,
    encode,
    load_part,
    part_path,
    write_protocol_part,
    write_training_part,
    write_training_parts,
)
from edgecape.training.sampler import EpisodeSampler, EpisodeSettings

import toy


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return toy.lamps(tmp_path_factory.mktemp("lamps"), 5, ("lamp", "light"))


@pytest.fixture(scope="module")
def network():
    return toy.estimator(graph="fixed", bias="off").runtime.network


def sampler(dataset: Dataset) -> EpisodeSampler:
    return EpisodeSampler(dataset, toy.store(), EpisodeSettings(views=3, self_supervised=0.5, points=(3, 9)))


@pytest.fixture(scope="module")
def folder(dataset, network, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoded")
    for number in (0, 1):
        write_training_part(network, sampler(dataset), folder, number, 20)
    return folder


def test_what_is_kept_is_what_the_encoder_gives(folder, dataset, network):
    draw = sampler(dataset)
    order = draw.order(1, 20)
    expected = encode(network, draw.batch(1, order[16:], 16), draw.store)
    kept = load_part(sorted(folder.iterdir())[1])
    K = expected.usable.shape[1]
    assert kept.image.dtype == torch.float16 and len(kept.usable) == 20
    torch.testing.assert_close(kept.image[16:].float(), expected.image, atol=2e-3, rtol=2e-3)
    torch.testing.assert_close(kept.similarity[16:, :K].float(), expected.similarity, atol=2e-2, rtol=2e-3)
    for name in ("places", "target", "weight", "usable"):
        assert torch.equal(getattr(kept, name)[16:, :K], getattr(expected, name)), name
    assert torch.equal(kept.prior[16:, :K, :K], expected.prior)


def test_a_part_that_is_there_is_not_made_again(folder):
    class Fails:
        def __getattr__(self, name: str):
            raise AssertionError("nothing is to be computed")

    write_training_part(Fails(), Fails(), folder, 0, 20)  # type: ignore[arg-type]


def test_processes_share_the_parts_of_a_folder(dataset, network, tmp_path, monkeypatch):
    """What another process is writing is waited for, the rest is written meanwhile."""
    other, slept = Lock(part_path(tmp_path, 0).with_suffix(".lock"), "another process"), []
    assert other.take()

    def sleep(seconds: float) -> None:
        slept.append([number for number in range(3) if part_path(tmp_path, number).exists()])
        write_training_part(network, sampler(dataset), tmp_path, 0, 4)
        other.release()

    monkeypatch.setattr("edgecape.io.locks.time.sleep", sleep)
    write_training_parts(network, sampler(dataset), tmp_path, 3, 4)
    assert slept == [[1, 2]] and len(EncodedEpisodes(tmp_path)) == 12


def test_a_batch_is_a_function_of_seed_and_step_and_has_episodes_of_like_size(folder):
    episodes = EncodedEpisodes(folder)
    assert len(episodes) == 40 and len(EncodedEpisodes(folder, parts=1)) == 20
    first, again, other = episodes.batch(0, 3, 4), EncodedEpisodes(folder).batch(0, 3, 4), episodes.batch(1, 3, 4)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert first.image.dtype == torch.float32 and not torch.equal(first.image, other.image)
    for step in range(10):
        batch = episodes.batch(0, step, 4)
        assert batch.usable[:, -1].any()  # no more keypoints than the largest has


def test_padding_adds_keypoints_that_do_not_count(folder):
    whole = EncodedEpisodes(folder)
    small, large = whole.gather([0]), whole.gather([39])
    both = concatenate([small, large])
    k, K = small.usable.shape[1], large.usable.shape[1]
    assert k < K and both.usable.shape == (2, K)
    assert not both.usable[0, k:].any() and not both.weight[0, k:].any() and not both.prior[0, k:].any()


def test_nothing_there(tmp_path: Path):
    with pytest.raises(DataError, match="holds 0 parts of encoded episodes, not 2"):
        EncodedEpisodes(tmp_path, parts=2)


def test_encoded_pairs_are_those_of_the_evaluation(dataset, network, tmp_path: Path):
    episodes, _ = protocol_episodes(dataset, 1, episodes=2, queries=3)
    expected = evaluate(dataset, episodes, {"start": proposals(ModelMethod(network))}, toy.store())["start"]
    for index, cover in ((0, 0.0), (1, 0.0), (0, 0.3)):
        mine = [one for one in episodes if dataset.instances[one.supports[0]].category == index]
        path = tmp_path / f"{index}-{cover}.episodes"
        write_protocol_part(network, toy.store(), dataset, mine, path, cover)
        found = distances(None, load_part(path))
        same = np.isclose(found, expected.distance[expected.category == index], atol=2e-3, equal_nan=True)
        assert (same.mean() > 0.9) == (cover == 0.0)  # rounding decides between cells that are as good as each other
