"""The training loop: a list of phases, each a plain loop over steps. Stop it, kill it, start it again: it goes on."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgecape.data.dataset import Dataset
from edgecape.data.features import FeatureStore
from edgecape.errors import EdgeCapeError, SettingsError, WeightsError, require
from edgecape.matching.network import build_network, lora_of
from edgecape.model.network import Network
from edgecape.model.precision import rounded
from edgecape.training.checkpoints import load_checkpoint, save_checkpoint
from edgecape.training.initialise import open_graph, start_from_matching, start_new_parts
from edgecape.training.objective import Objective
from edgecape.training.pseudo_labels import PseudoLabels, make_labels
from edgecape.training.run import Run
from edgecape.training.sampler import Batch, EpisodeSampler
from edgecape.training.settings import PhaseSettings, TrainSettings
from edgecape.training.validation import Validation
from edgecape.weights.config import ModelConfig
from edgecape.weights.store import load_model, save_model

NEW_IN_A_PHASE = ("pose_graph.", ".structural_bias.")  # parameters that a phase may add to the last one's


def train(
    settings: TrainSettings,
    dataset: Dataset,
    store: FeatureStore,
    folder: Path,
    validation: Dataset | None = None,
    start: dict[str, Tensor] | None = None,
) -> Network:
    """Train all phases and return the last network; `folder` holds everything about the run.

    start: head weights to begin with (to run a later phase alone).
    """
    require("train", "training", "accelerate", "matplotlib")
    from accelerate import Accelerator
    from accelerate.utils import DistributedDataParallelKwargs

    accelerator = Accelerator(
        # bf16 needs no scaling: the loop sees to it, and two trainings in one process may differ in it
        mixed_precision="fp16" if settings.mixed_precision == "fp16" else "no",
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )
    check(settings, dataset, folder, start, accelerator.num_processes)
    store.backbone.to(accelerator.device)
    run = Run(folder, settings, dataset, leader=accelerator.is_main_process)
    state = load_checkpoint(folder)
    run.rewind(state)
    network = first_network(settings, dataset, store, start)
    validate = None if validation is None else Validation(validation, dataset, store, settings.validation_episodes)
    first = 0 if state is None else int(state["phase"])
    if state is None and validate is not None:
        run.note(phase="start", **validate(network))
    for index in range(len(settings.phases)):
        network = enter_phase(network, settings, index)
        if index < first:
            continue
        with accelerator.main_process_first():  # it makes them, the others find them
            labels = labels_of(settings, index, network, dataset, store, folder)
        trainer = PhaseTrainer(settings, index, network, dataset, store, accelerator, run, validate, labels)
        network = trainer.train(state if index == first else None)
        state = None
    return network


def check(settings: TrainSettings, dataset: Dataset, folder: Path, start: object, processes: int) -> None:
    """All that can be known to go wrong, before hours are spent."""
    settings.check()
    opening = settings.phases[0]
    if opening.freeze and start is None and settings.initialisation != "matching":
        raise SettingsError(
            f"phase '{opening.name}' keeps {', '.join(opening.freeze)} as an earlier phase left them; "
            "start it from a trained model (--start) or train the earlier phases first"
        )
    if settings.batch % processes:
        raise SettingsError(f"a batch of {settings.batch} cannot be shared evenly by {processes} processes")
    folder.mkdir(parents=True, exist_ok=True)
    needed = 1 << 30  # two checkpoints with optimiser state, saved models, log
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise SettingsError(f"{folder} has {free >> 20} MiB free; a run needs {needed >> 20} MiB")


def first_network(
    settings: TrainSettings, dataset: Dataset, store: FeatureStore, start: dict[str, Tensor] | None
) -> Network:
    """The network before the first phase."""
    torch.manual_seed(settings.seed)
    opening = settings.phases[0]
    network = build_network(replace(settings.network, graph=opening.graph, bias=opening.bias), settings.matching)
    if settings.initialisation == "open":
        open_graph(network)
    if start is not None:
        return adopt(network, start)
    if settings.initialisation == "matching":
        crops = EpisodeSampler(dataset, store, settings.episodes_of(opening), settings.seed).crops(number=0)
        chosen = np.random.default_rng(settings.seed).permutation(len(crops))[:256]
        start_from_matching(network, store.get([crops[index] for index in chosen]))
    return network


def adopt(network: Network, state: dict[str, Tensor]) -> Network:
    """Load an earlier phase's weights; only what a later phase adds may be missing."""
    missing, unexpected = network.load_state_dict(state, strict=False)
    lost = [name for name in missing if not any(part in name for part in NEW_IN_A_PHASE)]
    if lost or unexpected:
        raise WeightsError(f"the weights to start from do not fit this network: '{(lost or unexpected)[0]}'")
    return network


def enter_phase(network: Network, settings: TrainSettings, index: int) -> Network:
    """The network of a phase, grown from the one before."""
    phase = settings.phases[index]
    wanted = replace(settings.network, graph=phase.graph, bias=phase.bias)
    if wanted == network.settings:
        return network
    torch.manual_seed(settings.seed + 1 + index)
    grown = build_network(wanted, settings.matching)
    if settings.initialisation == "matching":
        start_new_parts(grown)
    elif settings.initialisation == "open":
        open_graph(grown)
    return adopt(grown, network.state_dict())


def labels_of(
    settings: TrainSettings, index: int, network: Network, dataset: Dataset, store: FeatureStore, folder: Path
) -> PseudoLabels | None:
    """The pseudo-labels of a phase that learns from some, made by the network with which it begins."""
    phase = settings.phases[index]
    episodes = settings.episodes_of(phase)
    if not episodes.pseudo_labelled:
        return None
    path = folder / f"{phase.name}.labels.npz"
    if not path.exists():
        members = [objects[: episodes.most_objects or None] for objects in dataset.by_category]
        network = network.to(next(store.backbone.parameters()).device).eval()
        sees = store.with_lora(lora_of(network))
        labels = make_labels(dataset, members, network, sees, settings.labels, settings.seed)
        labels.save(path)
        print(f"  pseudo-labels of phase {phase.name}: {len(labels.points)} on {len(labels.pairs)} pairs of objects")
    return PseudoLabels.load(path)


def hide(batch: Batch, share: float, seeds: Iterator[tuple[int, ...]]) -> Tensor:
    """Keypoints (B, K) to hide for the graph loss: a share of the visible ones of each sample."""
    hidden = torch.zeros_like(batch.visible)
    for row, visible, seed in zip(hidden, batch.visible, seeds, strict=False):
        usable = torch.nonzero(visible)[:, 0].numpy()
        chosen = np.random.default_rng(seed).permutation(usable)[: int(share * len(usable))]
        row[torch.from_numpy(chosen)] = True
    return hidden


def copy_of(network: Network) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


class PhaseTrainer:
    """One phase of a run."""

    def __init__(
        self,
        settings: TrainSettings,
        index: int,
        network: Network,
        dataset: Dataset,
        store: FeatureStore,
        accelerator: Any,
        run: Run,
        validate: Validation | None,
        labels: PseudoLabels | None = None,
    ):
        self.settings, self.index, self.network = settings, index, network
        self.backbone_fingerprint = store.fingerprint
        self.phase: PhaseSettings = settings.phases[index]
        self.accelerator, self.run, self.validate = accelerator, run, validate
        self.sampler = EpisodeSampler(dataset, store, settings.episodes_of(self.phase), settings.seed, labels)
        self.steps = self.sampler.steps(settings.batch)  # of an epoch
        self.length = self.steps * self.phase.epochs  # of one member
        self.total = self.length * self.phase.soup
        objective = Objective(network, self.phase, store.backbone)
        self.objective, self.optimiser = accelerator.prepare(objective, self._optimiser(objective))
        self.average = copy_of(network)  # running, of the member that is trained
        self.start = copy_of(network) if self.phase.soup > 1 else {}
        self.earlier: dict[str, Tensor] = {}  # sum of the averages of earlier members
        self.best = -math.inf

    def _optimiser(self, objective: Objective) -> torch.optim.Optimizer:
        learning = [value for value in objective.parameters() if value.requires_grad]
        kind = torch.optim.AdamW if self.settings.optimiser == "adamw" else torch.optim.Adam
        rate, decay = self.phase.learning_rate, self.settings.weight_decay
        # One pass over the weights in the place of ten: a quarter of the time on a processor.
        fused = self.accelerator.device.type in ("cpu", "cuda")
        return kind(learning, lr=rate, weight_decay=decay, eps=self.settings.epsilon, fused=fused)

    def learning_rate(self, step: int) -> float:
        step %= self.length
        warm = min(1.0, (step + 1) / self.phase.warmup) if self.phase.warmup else 1.0
        if self.phase.decay == "cosine":
            warm *= 0.5 * (1 + math.cos(math.pi * step / self.length))
        return self.phase.learning_rate * warm

    def train(self, state: dict[str, Any] | None) -> Network:
        """All steps of the phase, from `state` if one is given."""
        settings, leader = self.settings, self.accelerator.is_main_process
        done = self._resume(state) if state is not None else 0
        began = time.monotonic()
        for step in range(done, self.total):
            # One number per epoch of the whole run, so that no two phases see the same stream.
            epoch, within = divmod(step, self.steps)
            stream = sum(phase.epochs * phase.soup for phase in settings.phases[: self.index]) + epoch
            if step == done or within == 0:
                order = self.sampler.order(stream, self.steps * settings.batch)
            if step and step % self.length == 0:
                self._next_member()
            terms = self._step(step, stream, within, order)
            if leader:
                speed = (step + 1 - done) * settings.batch / (time.monotonic() - began)
                self.run.step(self.phase.name, epoch, step, self.total, terms, speed)
            last = step + 1 == self.total
            if last or ((step + 1) % self.steps == 0 and (epoch + 1) % settings.validate_every == 0):
                self._validate(step + 1)
            if last or (step + 1) % settings.save_every == 0:
                self._save(step + 1)
        return self._finish()

    def _step(self, step: int, stream: int, within: int, order: np.ndarray) -> dict[str, float]:
        settings, accelerator = self.settings, self.accelerator
        torch.manual_seed(hash((settings.seed, stream, within)) % 2**63)  # dropout: resuming needs no saved state
        share = settings.batch // accelerator.num_processes
        start = within * settings.batch + accelerator.process_index * share
        batch = self.sampler.batch(stream, order[start : start + share], start, self.sampler.shots(stream, within))
        hidden = hide(batch, self.phase.mask_ratio, ((settings.seed, stream, 2, start + i) for i in range(share)))
        rate = self.learning_rate(step)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.objective.train()
        with rounded(accelerator.device.type, settings.mixed_precision == "bf16"):
            terms = self.objective(batch.to(accelerator.device), hidden.to(accelerator.device))
        terms = {name: term.float() for name, term in terms.items()}
        loss = torch.stack(list(terms.values())).sum()
        if not torch.isfinite(loss):
            raise EdgeCapeError(f"the loss is {loss.item()} at step {step}; lower the learning rate or clip gradients")
        self.optimiser.zero_grad()
        accelerator.backward(loss)
        if settings.clip:
            accelerator.clip_grad_norm_(self.objective.parameters(), settings.clip)
        self.optimiser.step()
        self._average(step)
        means = accelerator.reduce(torch.stack(list(terms.values())).detach(), reduction="mean")
        return dict(zip(terms, means.tolist(), strict=True))

    @torch.no_grad()
    def _average(self, step: int) -> None:
        """Running average of the weights, short at first so that it forgets the start."""
        step %= self.length
        decay = min(self.settings.ema, (1 + step) / (10 + step)) if self.settings.ema else 0.0
        for name, value in self.network.state_dict().items():
            self.average[name].lerp_(value, 1 - decay)

    def _next_member(self) -> None:
        """Keep what one member has learned and begin again where it began."""
        self.earlier = {name: self.earlier.get(name, 0) + value for name, value in self.average.items()}
        self.network.load_state_dict(self.start)
        self.average = copy_of(self.network)
        self.optimiser.state.clear()

    def weights(self, done: int) -> dict[str, Tensor]:
        """After `done` steps: the mean of all members, of each its running average."""
        members = -(-done // self.length)
        return {name: (self.earlier.get(name, 0) + value) / members for name, value in self.average.items()}

    # --- keeping -----------------------------------------------------------------------------------------

    def _validate(self, done: int) -> None:
        if self.validate is None:
            return
        network = build_network(self.network.settings, self.settings.matching)
        network.load_state_dict(self.weights(done))
        scores = self.validate(network.to(self.accelerator.device))
        if scores["selection"] > self.best:
            self.best = scores["selection"]
            self._save_model(self.run.folder / self.phase.name, done, scores)
        self.run.note(phase=self.phase.name, step=done, **scores)

    def _save_model(self, folder: Path, done: int, scores: dict[str, float]) -> None:
        if self.accelerator.is_main_process:
            network, matching = self.network.settings, self.settings.matching
            trained = {"phase": self.phase.name, "recipe": asdict(self.settings), "step": done, **scores}
            config = ModelConfig(network, matching, self.backbone_fingerprint, training=trained)
            save_model(folder, config, self.weights(done))

    def _save(self, done: int) -> None:
        if not self.accelerator.is_main_process:
            return
        state = {
            "phase": self.index,
            "done": done,
            "network": self.network.state_dict(),
            "average": self.average,
            "start": self.start,
            "earlier": self.earlier,
            "optimiser": self.optimiser.state_dict(),
            "best": self.best,
        }
        objective = self.accelerator.unwrap_model(self.objective)
        if objective.reconstruction is not None:
            state["reconstruction"] = objective.reconstruction.state_dict()
        save_checkpoint(self.run.folder, state)

    def _resume(self, state: dict[str, Any]) -> int:
        self.network.load_state_dict(state["network"])
        for kept in ("average", "start", "earlier"):
            setattr(self, kept, {name: tensor.to(self.accelerator.device) for name, tensor in state[kept].items()})
        self.optimiser.load_state_dict(state["optimiser"])
        objective = self.accelerator.unwrap_model(self.objective)
        if objective.reconstruction is not None:
            objective.reconstruction.load_state_dict(state["reconstruction"])
        self.best = float(state["best"])
        return int(state["done"])

    def _finish(self) -> Network:
        """The phase's best weights if it was validated, else its last; the next phase goes on from them."""
        folder = self.run.folder / self.phase.name
        if self.best == -math.inf:
            self._save_model(folder, self.total, {})
        self.accelerator.wait_for_everyone()
        self._calibrate(folder)
        return load_model(folder).network()

    def _calibrate(self, folder: Path) -> None:
        """Fit the scores of the phase's model on the validation data, if that was not done before a stop."""
        stored = load_model(folder)
        if self.validate is None or stored.config.calibration is not None:
            return
        if self.accelerator.is_main_process:
            print(f"  {self.phase.name}: fitting scores, with one and with five supports", flush=True)
        calibration = self.validate.calibrate(stored.network().to(self.accelerator.device))
        if self.accelerator.is_main_process:
            if calibration is None:
                print("  scores are not fitted: keypoints of the validation data are all right, or all wrong")
            else:
                save_model(folder, replace(stored.config, calibration=calibration.to_dict()), stored.head)
        self.accelerator.wait_for_everyone()
