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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from edgecape.errors import SettingsError
from edgecape.io.files import atomic_write
from edgecape.matching.network import MatchingNetwork
from edgecape.matching.rereading import Reread
from edgecape.matching.settings import MatchingSettings, ViewSettings, VotingSettings
from edgecape.matching.voting import logits_of, mean_shift_mode, vote
from edgecape.model.network import Matched, SupportEncoding
from edgecape.model.pose_graph import PoseGraph, pose_graph
from edgecape.model.precision import rounded
from edgecape.model.proposals import locate
from edgecape.training.checkpoints import load_checkpoint, save_checkpoint
from edgecape.training.encoded import Encoded, EncodedEpisodes
from edgecape.training.initialise import start_new_parts
from edgecape.training.losses import similarity_loss
from edgecape.training.objective import GraphReconstruction
from edgecape.training.settings import DecoderTraining, HidingSettings
from edgecape.weights.config import ModelConfig
from edgecape.weights.store import Stored, save_model

LEARNS = {"decoder": ("decoder.", "mask_token"), "graph": ("pose_graph.",)}
LEARNS["both"] = LEARNS["decoder"] + LEARNS["graph"]
RESTORED = HidingSettings(episodes=1.0, keypoints=(0.5, 0.5))  # what an auxiliary GCN has to restore


def build(base: Stored, settings: DecoderTraining) -> MatchingNetwork:
    """The base model in one view and without votes, with a new decoder and, if asked for, a new predictor of the graph.
    Parts that two networks of a seed share start alike."""
    if base.config.matching is None:
        raise SettingsError("a decoder that reads the similarity again stands on a model with matching settings")
    matching: MatchingSettings = replace(
        base.config.matching,
        voting=base.config.matching.voting if settings.voting else VotingSettings(rounds=0),
        views=ViewSettings(),
        rereading=settings.rereading,
        log_linear_edges=True,
    )
    # The predictor sees keypoints only: their tokens say what they look like, and a step stays cheap.
    network = replace(base.config.network, predictor_sees_image=False, dropout=settings.dropout)
    mine = replace(network, graph=settings.graph, bias=settings.bias, hops=settings.hops, residual=settings.residual)
    everything = replace(
        matching, rereading=replace(settings.rereading, places=True, votes=True, rivals=True, neighbours=True)
    )
    torch.manual_seed(settings.seed)
    whole = MatchingNetwork(replace(network, graph="predicted", bias="markov"), everything)
    found = MatchingNetwork(mine, matching)
    for one in (whole, found):
        start_new_parts(one)
    kept = {name: value for name, value in base.head.items() if not name.startswith(LEARNS["both"])}
    new, own = whole.state_dict() | kept, found.state_dict()
    found.load_state_dict(
        {name: new[name] if name in new and new[name].shape == value.shape else value for name, value in own.items()}
    )
    return found


class Hidden(NamedTuple):
    """Keypoints (B, K) that only the others can find."""

    hidden: Tensor  # bool; they look like nothing, or …
    mistaken: Tensor  # bool, some of them: … like another keypoint
    masked: Tensor  # bool, some of them: their token is lost too
    other: Tensor  # int, which keypoint each is taken for; itself if it is not hidden


def hide(episodes: Encoded, hiding: HidingSettings, rng: np.random.Generator) -> Hidden:
    usable = episodes.usable
    none, itself = torch.zeros_like(usable), torch.arange(usable.shape[1]).expand(usable.shape)
    found = Hidden(none, none.clone(), none.clone(), itself.clone())
    for row, can in enumerate(usable.numpy()):
        if rng.random() >= hiding.episodes:
            continue
        candidates = np.flatnonzero(can)
        number = round(rng.uniform(*hiding.keypoints) * len(candidates))
        chosen = rng.permutation(candidates)[:number]
        found.hidden[row, chosen] = True
        found.masked[row, chosen[rng.random(number) < hiding.masked]] = True
        found.mistaken[row, chosen[rng.random(number) < hiding.mistaken]] = True
        for k in chosen[: number if len(candidates) > 1 else 0]:
            found.other[row, k] = int(rng.choice(candidates[candidates != k]))
    return found


def graph_of(network: MatchingNetwork, episodes: Encoded) -> PoseGraph:
    """As `Network.predict_graph`, from tokens alone."""
    prior = episodes.prior
    if network.settings.graph == "none":
        prior = torch.zeros_like(prior)
    if network.pose_graph is None:
        return pose_graph(prior, prior, episodes.usable)
    tokens, visible = episodes.tokens, episodes.usable[:, None]
    position, nothing = network.position(episodes.similarity), network.keypoint_proj.bias
    graph: PoseGraph = network.pose_graph(tokens, tokens[:, None], tokens, visible, position, prior, nothing)
    return graph


def unsupervised(graph: PoseGraph, hidden: Hidden) -> PoseGraph:
    """The same, but episodes with hidden keypoints teach it nothing."""
    hides = hidden.hidden.any(dim=1)[:, None, None]
    return PoseGraph(*(torch.where(hides, matrix.detach(), matrix) for matrix in graph))


def decode(
    network: MatchingNetwork, episodes: Encoded, hidden: Hidden | None = None, graph: PoseGraph | None = None
) -> Reread:
    """What the decoder makes of episodes, some keypoints hidden. graph: if it is known."""
    similarity, keypoints, voting = episodes.similarity, episodes.keypoints, network.matching.voting
    start = locate(similarity).peak
    if hidden is not None:
        rows = torch.arange(len(similarity))[:, None]
        start = start[rows, hidden.other]
        looks_like = similarity[rows, hidden.other] * (~hidden.hidden | hidden.mistaken)[..., None, None]
        similarity, keypoints = looks_like, torch.where(hidden.masked[..., None], network.mask_token, keypoints)
    graph = graph or graph_of(network, episodes)
    logits = similarity
    if voting.rounds:
        with torch.no_grad(), torch.autocast(similarity.device.type, enabled=False):
            votes = vote(similarity, episodes.places, episodes.usable, graph.normalised.float(), voting)
            logits, start = logits_of(votes.heatmap), mean_shift_mode(votes.heatmap, voting.near)
    support = SupportEncoding(episodes.tokens, episodes.usable, graph, episodes.places)
    return network.reread(Matched(episodes.image, keypoints, locate(similarity)), support, logits, start)


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
        self.reconstruction: GraphReconstruction | None = None
        if settings.graph_loss == "gcn":
            self.reconstruction = GraphReconstruction(self.network.settings.width)
            self.learned |= {f"reconstruction.{n}": p for n, p in self.reconstruction.named_parameters()}
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
        with torch.no_grad():
            for name, value in state["learned"].items():
                self.learned[name].copy_(value)
        self.average = state["average"]
        self.optimiser.load_state_dict(state["optimiser"])
        log = self.folder / "log.jsonl"
        written = log.read_bytes().splitlines(keepends=True) if log.exists() else []
        whole = [line for line in written if line.endswith(b"\n")]  # it may have been killed while writing the last
        with atomic_write(log, "wb") as file:
            file.writelines(line for line in whole if json.loads(line)["step"] <= self.done)

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
        hidden = hide(batch, settings.hiding, rng)
        for part in (network.decoder, network.pose_graph):
            if part is not None:
                part.train(any(p.requires_grad for p in part.parameters()))
        torch.manual_seed(hash((settings.seed, self.done)) % 2**63)  # dropout: resuming needs no saved state
        # for a few keypoints the fused kernel is far slower
        with rounded("cpu", settings.precision == "bfloat16"), sdpa_kernel(SDPBackend.MATH):
            graph = graph_of(network, batch)
            taught = graph if settings.graph_loss == "masked" else unsupervised(graph, hidden)
            found = decode(network, batch, hidden, taught)
        losses = [similarity_loss(logits, batch.target, batch.weight) for logits in found.logits]
        terms = list(losses)
        if self.reconstruction is not None:
            half = hide(batch, RESTORED, rng).hidden
            terms.append(self.reconstruction(batch.tokens, batch.usable, graph.normalised.float(), half))
        self.optimiser.zero_grad()
        torch.stack(terms).sum().backward()
        torch.nn.utils.clip_grad_norm_(list(self.learned.values()), settings.clip)
        self.optimiser.step()
        self.done += 1
        with torch.no_grad():
            decay = min(settings.ema, self.done / (10 + self.done))
            torch._foreach_lerp_(list(self.average.values()), list(self.learned.values()), 1 - decay)
        return [loss.item() for loss in losses]

    def learning_rate(self, step: int) -> float:
        warm = min(1.0, (step + 1) / self.settings.warmup)
        return self.settings.learning_rate * warm * 0.5 * (1 + math.cos(math.pi * step / self.settings.steps))

    def scalars(self) -> dict[str, float]:
        """Single numbers, to be watched."""
        watched = ("pose_graph.scale", "pose_graph.log_faint", ".trust", ".yielding")
        return {name: round(value.item(), 4) for name, value in self.learned.items() if name.endswith(watched)}

    def averaged(self) -> MatchingNetwork:
        network = MatchingNetwork(self.network.settings, self.network.matching)
        state = self.network.state_dict()
        network.load_state_dict({name: self.average.get(name, value) for name, value in state.items()})
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
