"""Stages of training: an arm is a chain of them, and arms that begin alike share what they have in common.

A stage lies in a folder that is named by a hash of all it depends on: settings, data, backbone, and the stage before.
So whatever was trained is found again, by another arm, another experiment, or the same one after it was stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgecape.data.dataset import Dataset
from edgecape.data.features import FeatureStore
from edgecape.experiments.arms import Arm
from edgecape.experiments.options import Budget, digest
from edgecape.io.files import read_json
from edgecape.io.locks import Lock
from edgecape.matching.network import build_network
from edgecape.model.precision import rounded
from edgecape.model.settings import NetworkSettings
from edgecape.training.loop import hide, train
from edgecape.training.methods import as_method
from edgecape.training.objective import Objective
from edgecape.training.run import data_fingerprint
from edgecape.training.sampler import Batch, EpisodeSampler
from edgecape.training.settings import PhaseSettings, TrainSettings, recipe
from edgecape.weights.store import CONFIG, load_model

STAGE_SEED = 1000  # stages of one training see different episodes
OF_THE_PREDICTOR = ("residual", "predictor_sees_image", "shot_refinement")
TIMED = 2  # steps, to know what all of them will cost


@dataclass(frozen=True, eq=False)
class Stage:
    name: str
    key: str
    model: Path  # folder of its weights
    steps: int
    run: Callable[[], object]  # begins it, or goes on with it
    kind: str  # a step of two stages of one kind takes equally long
    time_step: Callable[[], float]  # seconds, measured
    before: Stage | None = None  # where it begins

    def is_done(self) -> bool:
        config = self.model / CONFIG
        return config.is_file() and read_json(config)["training"]["step"] >= self.steps

    def can_begin(self) -> bool:
        return self.before is None or self.before.is_done()

    def lock(self) -> Lock:
        """Whoever has it trains it."""
        return Lock(self.model.parent.with_suffix(".lock"), "an experiment")


def published_recipe(sizes: NetworkSettings, budget: Budget) -> TrainSettings:
    """The paper's, with the learning rate, length, batch, dropout and precision of a budget."""
    paper = recipe("paper")
    names = ("learning_rate", "warmup", "decay")
    common: dict[str, Any] = {name: getattr(budget, name) for name in names}
    if budget.steps:
        common["epochs"] = 1
    phases = [replace(phase, **common) for phase in paper.phases[: budget.stages]]
    # With the predictor frozen, the loss of the graph teaches nobody and costs a second pass of the decoder.
    phases = [replace(phase, graph_loss="off") if "pose_graph." in phase.freeze else phase for phase in phases]
    episodes = replace(
        paper.episodes, steps_per_epoch=budget.steps, views=budget.views, most_objects=budget.most_objects
    )
    cheaper: dict[str, Any] = {"batch": budget.batch, "mixed_precision": budget.precision}
    return replace(paper, network=sizes, phases=tuple(phases), episodes=episodes, **cheaper)


def arm_settings(arm: Arm, recipe: TrainSettings) -> TrainSettings:
    settings = as_method(recipe, arm.method)
    network = replace(settings.network, **arm.network)
    phases = (replace(phase, **arm.phases) if learns_graph(phase) else phase for phase in settings.phases)
    return replace(settings, network=network, initialisation=arm.initialisation, phases=tuple(phases))


def learns_graph(phase: PhaseSettings) -> bool:
    return phase.graph == "predicted" and "pose_graph." not in phase.freeze


def stage_settings(settings: TrainSettings, sizes: NetworkSettings, number: int, seed: int) -> TrainSettings:
    """One phase alone. What its network does not have is as in `sizes`, whatever the arm: so it is shared."""
    phase, network = settings.phases[number], settings.network
    used: dict[str, Any] = {name: getattr(network, name) for name in OF_THE_PREDICTOR if phase.graph == "predicted"}
    if phase.bias != "off":
        used["hops"] = network.hops
    used |= {"graph": phase.graph, "bias": phase.bias, "backbone": network.backbone, "channels": network.channels}
    start = settings.initialisation if learns_graph(phase) else "reference"
    changes: dict[str, Any] = {"initialisation": start, "phases": (phase,), "seed": seed + number * STAGE_SEED}
    return replace(settings, network=replace(sizes, **used), **changes)


@dataclass(frozen=True, eq=False)
class PublishedStages:
    """Stages of the published network on one data set. store: of the backbone that it is trained on."""

    sizes: NetworkSettings
    budget: Budget
    dataset: Dataset
    store: FeatureStore
    folder: Path

    def chain(self, arm: Arm, seed: int) -> list[Stage]:
        backbone = self.store.backbone
        sizes = replace(self.sizes, backbone=backbone.settings, channels=backbone.channels, dropout=self.budget.dropout)
        whole = arm_settings(arm, published_recipe(sizes, self.budget))
        stages: list[Stage] = []
        for number in range(max(1, round(arm.part * len(whole.phases)))):
            stages.append(self._stage(stage_settings(whole, sizes, number, seed), seed, stages[-1] if stages else None))
        return stages

    def _stage(self, settings: TrainSettings, seed: int, before: Stage | None) -> Stage:
        (phase,), dataset, store = settings.phases, self.dataset, self.store
        came = [data_fingerprint(dataset), store.fingerprint, before.key if before else None]
        key = digest([asdict(settings), *came])
        folder = self.folder / f"{phase.name}-{phase.graph}-{seed}-{key[:10]}"

        def run() -> object:
            head = load_model(before.model).head if before else first_head(settings)
            return train(settings, dataset, store, folder, start=head)

        return Stage(
            name=f"{phase.name}, graph {phase.graph}, bias {phase.bias}, seed {seed}",
            key=key,
            model=folder / phase.name,
            steps=EpisodeSampler(dataset, store, settings.episodes_of(phase)).steps(settings.batch) * phase.epochs,
            run=run,
            kind=f"graph {phase.graph}, bias {phase.bias}, {phase.graph_loss}, {settings.network.channels} channels",
            time_step=lambda: step_seconds(settings, dataset, store),
            before=before,
        )


def first_head(settings: TrainSettings) -> dict[str, Tensor]:
    """Weights to start with: in what arms share they are the same, whatever else a network has."""
    torch.manual_seed(settings.seed)
    everything = build_network(replace(settings.network, graph="predicted", bias="markov"), None).state_dict()
    return {name: everything[name] for name in build_network(settings.network, None).state_dict()}


def step_seconds(settings: TrainSettings, dataset: Dataset, store: FeatureStore) -> float:
    """Of training from cached features: episodes of the data, but for their features, which are random."""
    phase = settings.phases[0]
    torch.manual_seed(0)
    objective = Objective(build_network(settings.network, None), phase, store.backbone).train()
    learning = [value for value in objective.parameters() if value.requires_grad]
    optimiser = torch.optim.Adam(learning, fused=True)
    sampler = EpisodeSampler(dataset, _Random(store), settings.episodes_of(phase))  # type: ignore[arg-type]
    batch: Batch = sampler.batch(0, sampler.order(0, settings.batch), 0, max(settings.episodes_of(phase).shots))
    hidden = hide(batch, phase.mask_ratio, ((0, row) for row in range(settings.batch)))
    began = 0.0
    for step in range(TIMED + 1):  # the first warms up
        if step == 1:
            began = time.perf_counter()
        with rounded("cpu", settings.mixed_precision == "bf16"):
            terms = objective(batch, hidden)
        optimiser.zero_grad()
        torch.stack([term.float() for term in terms.values()]).sum().backward()
        optimiser.step()
    return (time.perf_counter() - began) / TIMED


class _Random:
    """In the place of a FeatureStore: features of the right shape, at once."""

    def __init__(self, store: FeatureStore):
        self.size = store.size
        with torch.inference_mode():
            device = next(store.backbone.parameters()).device
            self.shape = store.backbone(torch.zeros(1, 3, *store.size, device=device)).shape[1:]

    def lower(self, crops: Sequence[object]) -> Tensor:
        return torch.randn(len(crops), *self.shape)
