"""The same for decoders that read the similarity again: one stage, in which decoder and graph learn together from what
a frozen encoder leaves."""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from edgecape.data.dataset import Dataset
from edgecape.data.features import FeatureStore
from edgecape.experiments.arms import Arm, check_ours
from edgecape.experiments.options import Budget, digest
from edgecape.experiments.stages import TIMED, Stage
from edgecape.matching.settings import RereadingSettings
from edgecape.runtime.torch_runtime import TorchRuntime
from edgecape.training.decoder import DecoderTrainer
from edgecape.training.encoded import PART, SUFFIX, Encoded, EncodedEpisodes, write_training_parts
from edgecape.training.methods import decoder_of
from edgecape.training.run import data_fingerprint
from edgecape.training.sampler import EpisodeSampler
from edgecape.training.settings import EPISODES, DecoderTraining, HidingSettings
from edgecape.weights.store import Stored

# As the trials settled it (docs/experiments/decoder.md). They are not told where keypoints lie in the support: that is
# what the paper asks, and places say most of what a skeleton says.
TRIED = DecoderTraining(
    rereading=RereadingSettings(places=False, votes=False, neighbours=True),
    voting=False,
    hiding=HidingSettings(episodes=0.2),
)


class EncodedData:
    """Training episodes behind the encoder of a model, made when they are first needed."""

    def __init__(self, runtime: TorchRuntime, dataset: Dataset, number: int, folder: Path):
        self.runtime, self.dataset = runtime, dataset
        self.settings = replace(EPISODES, most_objects=max(2, min(EPISODES.most_objects, number)))
        self.part = min(PART, number)
        self.parts = -(-number // self.part)
        self.key = digest([runtime.fingerprint, data_fingerprint(dataset), asdict(self.settings), self.part])
        self.folder = folder / self.key

    def missing(self) -> int:
        """Episodes that are not there yet."""
        return self.part * (self.parts - len(list(self.folder.glob(f"*{SUFFIX}"))))

    def read(self) -> EncodedEpisodes:
        store = FeatureStore.of(self.runtime, self.folder.parent / "features", precision=torch.bfloat16)
        sampler = EpisodeSampler(self.dataset, store, self.settings)
        write_training_parts(self.runtime.network, sampler, self.folder, self.parts, self.part)
        return EncodedEpisodes(self.folder, self.parts)


def decoder_settings(arm: Arm, budget: Budget, seed: int) -> DecoderTraining:
    check_ours(arm)
    steps = max(1, round(arm.part * budget.decoder_steps))
    settings = decoder_of(arm.preset, replace(TRIED, steps=steps, seed=seed))
    assert settings is not None
    changes, hiding = dict(arm.network), settings.hiding
    if settings.graph == "predicted":
        changes |= arm.phases
    share = changes.pop("mask_ratio", None)
    if share is not None:
        hiding = replace(hiding, keypoints=(share, share), episodes=hiding.episodes if share else 0.0)
    return replace(settings, hiding=hiding, **changes)


@dataclass(frozen=True, eq=False)
class OurStages:
    budget: Budget
    base: Stored
    data: EncodedData
    folder: Path

    def chain(self, arm: Arm, seed: int) -> list[Stage]:
        settings = decoder_settings(arm, self.budget, seed)
        key = digest([asdict(settings), self.data.key, self.data.parts])
        folder = self.folder / f"ours-{settings.graph}-{settings.seed}-{key[:10]}"

        def run() -> object:
            folder.mkdir(parents=True, exist_ok=True)
            return DecoderTrainer(self.base, settings, folder).train(self.data.read())

        stage = Stage(
            name=f"graph {settings.graph}, bias {settings.bias}, seed {settings.seed}",
            key=key,
            model=folder / "model",
            steps=settings.steps,
            run=run,
            kind=f"graph {settings.graph}, bias {settings.bias}, {settings.graph_loss}, {settings.residual}",
            time_step=lambda: step_seconds(self.base, settings),
        )
        return [stage]


def step_seconds(base: Stored, settings: DecoderTraining) -> float:
    episodes: Any = _Random(base.config.network.width)
    with tempfile.TemporaryDirectory() as nowhere:
        trainer = DecoderTrainer(base, settings, Path(nowhere))
        trainer.step(episodes)  # warms up
        began = time.perf_counter()
        for _ in range(TIMED):
            trainer.step(episodes)
    return (time.perf_counter() - began) / TIMED


class _Random:
    """In the place of EncodedEpisodes: batches of the usual size, at once."""

    def __init__(self, width: int, K: int = 12, side: int = 16):
        self.width, self.K, self.side = width, K, side

    def batch(self, seed: int, step: int, size: int) -> Encoded:
        cells = self.side**2
        usable = torch.ones(size, self.K, dtype=torch.bool)
        places = torch.rand(size, self.K, 2)
        return Encoded(
            image=torch.randn(size, cells, self.width),
            keypoints=torch.randn(size, self.K, self.width),
            tokens=torch.randn(size, self.K, self.width),
            similarity=torch.randn(size, self.K, self.side, self.side),
            places=places,
            usable=usable,
            prior=(torch.rand(size, self.K, self.K) < 0.2).float(),
            target=places,
            weight=usable,
        )
