"""The same chain for decoders that read the similarity again: they learn from what one frozen encoder leaves."""

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
from edgecape.runtime.torch_runtime import TorchRuntime
from edgecape.training.decoder import DecoderTrainer
from edgecape.training.encoded import PART, SUFFIX, Encoded, EncodedEpisodes, write_training_part
from edgecape.training.run import data_fingerprint
from edgecape.training.sampler import EpisodeSampler
from edgecape.training.settings import EPISODES, DecoderTraining
from edgecape.weights.store import Stored, load_model

LATER = 3e-4  # learning rate of a stage that goes on from another one


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
        for number in range(self.parts):
            write_training_part(self.runtime.network, sampler, self.folder, number, self.part)
        return EncodedEpisodes(self.folder, self.parts)


def decoder_settings(arm: Arm, budget: Budget, seed: int) -> list[DecoderTraining]:
    """A decoder; then, with it frozen, a predicted graph; then the decoder again, with the bias. An arm without one of
    them goes on with what it has."""
    check_ours(arm)
    wanted, shared = arm.preset, replace(DecoderTraining(), steps=budget.decoder_steps, seed=seed)
    graph = wanted.graph
    first = replace(shared, graph="none" if graph == "none" else "fixed")
    second = replace(shared, graph=graph, learning_rate=LATER)
    if graph == "predicted":
        second = replace(second, learns="graph", learning_rate=shared.learning_rate)
    third = replace(shared, graph=graph, bias="markov" if wanted.bias == "markov" else "off", learning_rate=LATER)
    return [first, second, third][: budget.stages]


@dataclass(frozen=True, eq=False)
class OurStages:
    budget: Budget
    base: Stored
    data: EncodedData
    folder: Path

    def chain(self, arm: Arm, seed: int) -> list[Stage]:
        stages: list[Stage] = []
        for settings in decoder_settings(arm, self.budget, seed):
            stages.append(self._stage(settings, len(stages), stages[-1] if stages else None))
        return stages

    def _stage(self, settings: DecoderTraining, number: int, before: Stage | None) -> Stage:
        key = digest([asdict(settings), self.data.key, self.data.parts, before.key if before else None])
        folder = self.folder / f"ours-{settings.graph}-{settings.seed}-{key[:10]}"

        def run() -> object:
            folder.mkdir(parents=True, exist_ok=True)
            start = load_model(before.model).head if before else None
            return DecoderTrainer(self.base, settings, folder, start).train(self.data.read())

        return Stage(
            name=f"stage {number + 1}, graph {settings.graph}, bias {settings.bias}, seed {settings.seed}",
            key=key,
            model=folder / "model",
            steps=settings.steps,
            run=run,
            kind=f"graph {settings.graph}, bias {settings.bias}, {settings.learns} learns",
            time_step=lambda: step_seconds(self.base, settings),
            before=before,
        )


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
