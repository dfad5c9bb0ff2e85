"""Training a decoder that reads the similarity again (matching/rereading.py) from encoded episodes (encoded.py).

Encoder and matching are frozen, so a step costs what the decoder costs. Some keypoints are *hidden*: they lose their
similarity, start on another keypoint and may lose their token, and only the other keypoints, and the graph that says
which of them belong to it, tell where they are. All randomness is a function of seed and step: a run that was stopped
goes on bit by bit, and runs of one seed differ in nothing but their settings.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from edgecape.errors import SettingsError
from edgecape.io.files import atomic_write
from edgecape.matching.network import MatchingNetwork
from edgecape.matching.rereading import Reread, RereadingDecoder
from edgecape.matching.settings import MatchingSettings, RereadingSettings, ViewSettings, VotingSettings
from edgecape.model.pose_graph import PoseGraph, pose_graph
from edgecape.model.proposals import locate
from edgecape.training.checkpoints import load_checkpoint, save_checkpoint
from edgecape.training.encoded import Encoded, EncodedEpisodes
from edgecape.training.initialise import start_new_parts
from edgecape.training.losses import similarity_loss
from edgecape.weights.config import ModelConfig
from edgecape.weights.store import Stored, save_model

LEARNS = {"decoder": ("decoder.", "mask_token"), "graph": ("pose_graph.",)}
LEARNS["both"] = LEARNS["decoder"] + LEARNS["graph"]


@dataclass(frozen=True)
class HidingSettings:
    """Keypoints that only the others can find."""

    episodes: float = 0.6
    """Share of episodes in which keypoints are hidden."""
    keypoints: tuple[float, float] = (0.2, 0.6)
    """Least and largest share of an episode's keypoints that is hidden."""
    masked: float = 0.5
    """Share of the hidden ones that also lose their token."""


@dataclass(frozen=True)
class DecoderTraining:
    graph: Literal["none", "fixed", "predicted"] = "fixed"
    bias: Literal["off", "markov"] = "off"
    rereading: RereadingSettings = field(default_factory=RereadingSettings)
    hiding: HidingSettings = field(default_factory=HidingSettings)
    learns: Literal["decoder", "graph", "both"] = "decoder"
    """What learns; the rest stays as it starts."""
    steps: int = 20000
    batch: int = 16
    learning_rate: float = 6e-4
    scalar_learning_rate: float = 10.0
    """Factor on the learning rate of single numbers, which have a long way to go: c and b of the predicted graph, and
    what a layer makes of the similarity and of rivals."""
    faintest: float = 0.0
    """Least b − |c|: every pair of keypoints keeps an edge of this weight whatever ΔA is: the ReLU stays open."""
    dropout: float = 0.0
    weight_decay: float = 1e-2
    epsilon: float = 1e-12
    clip: float = 1.0
    warmup: int = 50
    ema: float = 0.998
    """Decay of the running average of weights that is measured and saved."""
    validate_every: int = 1000
    save_every: int = 500
    precision: Literal["float32", "bfloat16"] = "bfloat16"
    seed: int = 0


def build(base: Stored, settings: DecoderTraining) -> MatchingNetwork:
    """The base model in one view and without votes, with a new decoder and, if asked for, a new predictor of the graph.
    Parts that two networks of a seed share start alike."""
    if base.config.matching is None:
        raise SettingsError("a decoder that reads the similarity again stands on a model with matching settings")
    matching: MatchingSettings = replace(
        base.config.matching,
        voting=VotingSettings(rounds=0),
        views=ViewSettings(),
        rereading=settings.rereading,
    )
    # The predictor sees keypoints only: their tokens say what they look like, and a step stays cheap.
    network = replace(base.config.network, predictor_sees_image=False, dropout=settings.dropout)
    torch.manual_seed(settings.seed)
    everything = replace(matching, rereading=replace(settings.rereading, places=True, votes=True, rivals=True))
    whole = MatchingNetwork(replace(network, graph="predicted", bias="markov"), everything)
    start_new_parts(whole)
    found = MatchingNetwork(replace(network, graph=settings.graph, bias=settings.bias), matching)
    new = whole.state_dict()
    kept = {name: value for name, value in base.head.items() if not name.startswith(LEARNS["both"])}
    found.load_state_dict({name: kept.get(name, new[name]) for name in found.state_dict()})
    return found


def hide(episodes: Encoded, hiding: HidingSettings, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Which keypoints (B, K) are hidden, and which of them lose their token too."""
    hidden, masked = torch.zeros_like(episodes.usable), torch.zeros_like(episodes.usable)
    for row, usable in enumerate(episodes.usable.numpy()):
        if rng.random() >= hiding.episodes:
            continue
        candidates = np.flatnonzero(usable)
        number = round(rng.uniform(*hiding.keypoints) * len(candidates))
        chosen = rng.permutation(candidates)[:number]
        hidden[row, chosen] = True
        masked[row, chosen[rng.random(number) < hiding.masked]] = True
    return hidden, masked


def misplaced(start: Tensor, usable: Tensor, hidden: Tensor, rng: np.random.Generator) -> Tensor:
    """Starts (B, K, 2) in which a hidden keypoint is where another one starts."""
    moved = start.clone()
    for row, (can, gone) in enumerate(zip(usable.numpy(), hidden.numpy(), strict=True)):
        for k in np.flatnonzero(gone):
            others = np.flatnonzero(can & (np.arange(len(can)) != k))
            if len(others):
                moved[row, k] = start[row, rng.choice(others)]
    return moved


def graph_of(network: MatchingNetwork, episodes: Encoded, prior: Tensor) -> PoseGraph:
    """As `Network.predict_graph`, from tokens alone."""
    if network.settings.graph == "none":
        prior = torch.zeros_like(prior)
    if network.pose_graph is None:
        return pose_graph(prior, prior, episodes.usable)
    tokens, visible = episodes.tokens, episodes.usable[:, None]
    position, nothing = network.position(episodes.similarity), network.keypoint_proj.bias
    graph: PoseGraph = network.pose_graph(tokens, tokens[:, None], tokens, visible, position, prior, nothing)
    return graph


def decode(
    network: MatchingNetwork,
    episodes: Encoded,
    hidden: Tensor | None = None,
    masked: Tensor | None = None,
    rng: np.random.Generator | None = None,
    prior: Tensor | None = None,
) -> Reread:
    """What the decoder makes of episodes, some keypoints hidden. prior: another skeleton than theirs."""
    similarity, keypoints = episodes.similarity, episodes.keypoints
    start = locate(similarity).peak
    if hidden is not None and masked is not None and rng is not None:
        start = misplaced(start, episodes.usable, hidden, rng)
        similarity = similarity * ~hidden[..., None, None]
        keypoints = torch.where(masked[..., None], network.mask_token, keypoints)
    graph = graph_of(network, episodes, episodes.prior if prior is None else prior)
    decoder = network.decoder
    assert isinstance(decoder, RereadingDecoder)
    found: Reread = decoder(keypoints, episodes.image, similarity, start, episodes.places, episodes.usable, graph)
    return found


class DecoderTrainer:
    """A run in its folder: settings.json, log.jsonl, checkpoints, and the model with the averaged weights."""

    def __init__(self, base: Stored, settings: DecoderTraining, folder: Path, start: dict[str, Tensor] | None = None):
        """start: weights to begin with, as far as the network has them; the others are new."""
        self.base, self.settings, self.folder = base, settings, folder
        self.network = build(base, settings)
        if start is not None:
            known = self.network.state_dict()
            self.network.load_state_dict(known | {name: start[name] for name in known if name in start})
        self.network.requires_grad_(False).eval()
        learning = LEARNS[settings.learns]
        self.learned = {n: p.requires_grad_() for n, p in self.network.named_parameters() if n.startswith(learning)}
        scalars = [value for value in self.learned.values() if value.numel() == 1]
        others = [value for value in self.learned.values() if value.numel() > 1]
        groups = [
            {"params": others, "factor": 1.0},
            {"params": scalars, "factor": settings.scalar_learning_rate, "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            eps=settings.epsilon,
            fused=True,
        )
        self.average = {name: value.detach().clone() for name, value in self.learned.items()}
        self.done = 0
        self._open()

    def _open(self) -> None:
        """Begin a run or go on with it."""
        path, told = self.folder / "settings.json", json.loads(json.dumps(asdict(self.settings)))
        if path.exists():
            if json.loads(path.read_text()) != told:
                raise SettingsError(f"{self.folder} holds a run with other settings; choose another folder")
        else:
            with atomic_write(path) as file:
                json.dump(told, file, indent=1)
        state = load_checkpoint(self.folder)
        if state is None:
            return
        self.done = int(state["done"])
        self.network.load_state_dict(self.network.state_dict() | state["learned"])
        self.average = state["average"]
        self.optimiser.load_state_dict(state["optimiser"])
        log = self.folder / "log.jsonl"
        lines = [line for line in log.read_text().splitlines() if json.loads(line)["step"] <= self.done]
        with atomic_write(log) as file:
            file.writelines(line + "\n" for line in lines)

    def train(self, episodes: EncodedEpisodes, validate: Any = None) -> MatchingNetwork:
        """All steps that are left. validate: network → numbers for the log."""
        settings = self.settings
        sums: list[list[float]] = []
        if self.done == 0 and validate is not None:
            self._log(step=0, **validate(self.averaged()))
        began, first = time.monotonic(), self.done
        while self.done < settings.steps:
            sums.append(self.step(episodes))
            last = self.done == settings.steps
            if self.done % 100 == 0 or last:
                losses = {f"layer{index}": round(float(value), 4) for index, value in enumerate(np.mean(sums, axis=0))}
                pace = (time.monotonic() - began) / (self.done - first)
                self._log(step=self.done, **losses, **self.scalars(), seconds=round(pace, 4))
                sums = []
            if validate is not None and (self.done % settings.validate_every == 0 or last):
                self._log(step=self.done, **validate(self.averaged()))
            if self.done % settings.save_every == 0 or last:
                self.save()
        return self.averaged()

    def step(self, episodes: EncodedEpisodes) -> list[float]:
        """One step; the loss of every layer."""
        settings, network = self.settings, self.network
        for group in self.optimiser.param_groups:
            group["lr"] = self.learning_rate(self.done) * group["factor"]
        batch = episodes.batch(settings.seed, self.done, settings.batch)
        rng = np.random.default_rng((settings.seed, self.done, 1))
        hidden, masked = hide(batch, settings.hiding, rng)
        for part in (network.decoder, network.pose_graph):
            if part is not None:
                part.train(any(p.requires_grad for p in part.parameters()))
        torch.manual_seed(hash((settings.seed, self.done)) % 2**63)  # dropout: resuming needs no saved state
        rounded = torch.autocast("cpu", torch.bfloat16, enabled=settings.precision == "bfloat16")
        with rounded, sdpa_kernel(SDPBackend.MATH):  # for a few keypoints the fused kernel is far slower
            found = decode(network, batch, hidden, masked, rng)
        losses = [similarity_loss(logits, batch.target, batch.weight) for logits in found.logits]
        self.optimiser.zero_grad()
        torch.stack(losses).sum().backward()
        torch.nn.utils.clip_grad_norm_(list(self.learned.values()), settings.clip)
        self.optimiser.step()
        self.done += 1
        with torch.no_grad():
            if network.pose_graph is not None and settings.learns != "decoder":
                network.pose_graph.b.clamp_(min=settings.faintest + network.pose_graph.c.abs())
            decay = min(settings.ema, self.done / (10 + self.done))
            torch._foreach_lerp_(list(self.average.values()), list(self.learned.values()), 1 - decay)
        return [loss.item() for loss in losses]

    def learning_rate(self, step: int) -> float:
        warm = min(1.0, (step + 1) / self.settings.warmup)
        return self.settings.learning_rate * warm * 0.5 * (1 + math.cos(math.pi * step / self.settings.steps))

    def scalars(self) -> dict[str, float]:
        """Single numbers, to be watched."""
        watched = ("pose_graph.c", "pose_graph.b", ".trust", ".yielding")
        return {name: round(value.item(), 4) for name, value in self.learned.items() if name.endswith(watched)}

    def averaged(self) -> MatchingNetwork:
        network = MatchingNetwork(self.network.settings, self.network.matching)
        network.load_state_dict(self.network.state_dict() | self.average)
        return network.eval()

    def save(self) -> None:
        learned = {name: value.detach() for name, value in self.learned.items()}
        state = {"done": self.done, "learned": learned, "average": self.average}
        save_checkpoint(self.folder, state | {"optimiser": self.optimiser.state_dict()})
        network = self.averaged()
        trained = {"phase": "reread", "recipe": asdict(self.settings), "step": self.done}
        fingerprint = self.base.config.backbone_fingerprint
        config = ModelConfig(network.settings, network.matching, fingerprint, training=trained)
        save_model(self.folder / "model", config, network.state_dict())

    def _log(self, **entry: Any) -> None:
        with (self.folder / "log.jsonl").open("a") as file:
            file.write(json.dumps(entry) + "\n")
