"""Training settings and the shipped recipes. Every value can be overridden on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from edgecape.data.crops import AugmentSettings
from edgecape.errors import SettingsError
from edgecape.matching.settings import LoraSettings, MatchingSettings, ViewSettings
from edgecape.model.settings import BackboneSettings, NetworkSettings
from edgecape.training.pseudo_labels import LabelSettings
from edgecape.training.sampler import EpisodeSettings


@dataclass(frozen=True)
class PhaseSettings:
    """One phase: what the network has, what learns, for how long."""

    name: str
    graph: Literal["none", "fixed", "predicted"]
    bias: Literal["off", "markov", "shortest_path"]
    epochs: int = 100
    soup: int = 1
    """Model soup: train so many times from the same start, each time with other episodes, and average the weights."""
    learning_rate: float = 1e-5
    graph_learning_rate: float = 1.0
    """Factor on the learning rate of c and b, the two scalars that let the predicted graph leave the prior."""
    warmup: int = 1000
    """Steps of linear warm-up."""
    decay: Literal["none", "cosine"] = "none"
    freeze: tuple[str, ...] = ()
    """Prefixes of parameters that stay as they are; their modules are in eval mode."""
    graph_loss: Literal["off", "masked", "gcn"] = "off"
    """How the graph is supervised: through the decoder with hidden keypoints (L_adj), or an auxiliary GCN."""
    graph_loss_weight: float = 1.0
    mask_ratio: float = 0.5
    """Share of usable keypoints that L_adj hides."""
    structure_loss_weight: float = 0.0
    """Of how far off the votes are: trains the graph to weight the neighbours that predict a keypoint best."""
    distance: Literal["l1", "saturating"] = "l1"
    """Of the decoder's coordinates: L1 (paper), or one that gives up on what is far off instead of averaging."""
    heatmap_loss_weight: float = 0.0
    """Cross-entropy of the similarity map against the true cell; 0 in the paper."""
    heatmap_sharpness: float = 1.0
    """Factor on the similarity in that loss: below 1, only similarities that are further apart satisfy it."""
    match_only: bool = False
    """Learn from the similarity map alone: votes and decoder are not run."""
    self_supervised: float | None = None
    """Share of self-supervised episodes in this phase; None: as in the episode settings."""
    pseudo_labelled: float | None = None
    """Share of pseudo-labelled episodes in this phase; None: as in the episode settings."""
    shots: tuple[int, ...] | None = None
    """Supports of an episode in this phase; None: as in the episode settings."""


PHASES = {
    "base": PhaseSettings("base", "fixed", "off"),
    "graph": PhaseSettings("graph", "predicted", "off", graph_loss="masked"),
    "bias": PhaseSettings(
        "bias", "predicted", "markov", graph_loss="masked", freeze=("pose_graph.", "image_proj.", "keypoint_proj.")
    ),
}


@dataclass(frozen=True)
class TrainSettings:
    network: NetworkSettings = field(default_factory=NetworkSettings)
    """Everything but graph and bias, which the phases set."""
    matching: MatchingSettings | None = None
    """What is added to the published network; None: nothing."""
    phases: tuple[PhaseSettings, ...] = tuple(PHASES.values())
    episodes: EpisodeSettings = field(default_factory=EpisodeSettings)
    labels: LabelSettings = field(default_factory=LabelSettings)
    """How pseudo-labels are made, by the network with which a phase begins that learns from them."""
    initialisation: Literal["reference", "matching"] = "reference"
    """matching: the untrained proposals already do nearest-feature matching."""
    batch: int = 16
    """Episodes per step over all processes."""
    optimiser: Literal["adam", "adamw"] = "adam"
    weight_decay: float = 0.0
    epsilon: float = 1e-8
    """Of the optimiser. A decoder that starts by not moving has gradients far below 1e-8: it would never start."""
    clip: float = 0.0
    """Largest gradient norm; 0: not clipped."""
    ema: float = 0.0
    """Decay of the running average of weights that is validated and saved; 0: off."""
    validate_every: int = 1
    """Epochs between validations."""
    validation_episodes: int = 10
    """Episodes per category of a validation."""
    save_every: int = 200
    """Steps between checkpoints."""
    mixed_precision: Literal["no", "fp16", "bf16"] = "no"
    seed: int = 0

    def check(self) -> None:
        """Contradictions, found before anything is computed."""
        if not self.phases:
            raise SettingsError("there is no phase to train; name at least one")
        if self.batch < 1 or self.save_every < 1:
            raise SettingsError(f"batch is {self.batch} and save_every {self.save_every}; both must be at least 1")
        for phase in self.phases:
            if phase.graph_loss != "off" and phase.graph != "predicted":
                raise SettingsError(
                    f"phase '{phase.name}' supervises a predicted graph but its graph is '{phase.graph}'"
                )
            if phase.epochs < 1 or phase.soup < 1 or phase.learning_rate <= 0:
                raise SettingsError(f"phase '{phase.name}' needs an epoch, a soup and a learning rate of more than 0")
            if phase.heatmap_sharpness <= 0:
                raise SettingsError(f"heatmap_sharpness of phase '{phase.name}' must be above 0")
            if phase.match_only and (not phase.heatmap_loss_weight or phase.graph_loss != "off"):
                needs = "it needs a heatmap_loss_weight and no graph_loss"
                raise SettingsError(f"phase '{phase.name}' learns from the similarity map alone: {needs}")
            if phase.structure_loss_weight and not (self.matching and self.matching.voting.rounds):
                raise SettingsError(f"phase '{phase.name}' has a structure loss but there are no votes")
            if not 0 <= phase.mask_ratio < 1:
                raise SettingsError(f"mask_ratio of phase '{phase.name}' is {phase.mask_ratio}; it must be in [0, 1)")
        for earlier, later in zip(self.phases, self.phases[1:], strict=False):
            if earlier.graph == "predicted" and later.graph != "predicted":
                raise SettingsError(f"phase '{later.name}' drops the graph that phase '{earlier.name}' learned")
        if self.episodes.match_facing and 0 < self.episodes.views < 3:
            raise SettingsError(
                "supports that face the query need three views of a photo; set episodes.views to 0 or 3"
            )
        for phase in self.phases:
            episodes = self.episodes_of(phase)
            if min(episodes.self_supervised, episodes.pseudo_labelled) < 0 or (
                episodes.self_supervised + episodes.pseudo_labelled > 1
            ):
                raise SettingsError(
                    f"shares of self-supervised and pseudo-labelled episodes of phase '{phase.name}' are "
                    f"{episodes.self_supervised} and {episodes.pseudo_labelled}; together they must be in [0, 1]"
                )
        if self.episodes.views == 1 and any(self.episodes_of(phase).self_supervised for phase in self.phases):
            raise SettingsError(
                "self-supervised episodes need two views of a photo; set episodes.views to 0, 2 or more"
            )

    def episodes_of(self, phase: PhaseSettings) -> EpisodeSettings:
        names = ("self_supervised", "pseudo_labelled", "shots")
        told: dict[str, Any] = {name: getattr(phase, name) for name in names if getattr(phase, name) is not None}
        return replace(self.episodes, **told)


def paper() -> TrainSettings:
    """All hyper-parameters of the paper: 100 epochs a phase, Adam, 1e-5, batch 16, warm-up 1000."""
    return TrainSettings()


def small() -> TrainSettings:
    """What trains well on a CPU in hours: starts from feature matching, cached views, self-supervised episodes."""
    matching = ("image_proj.", "keypoint_proj.")  # stay as they start: whitened features match also what is new
    localising = (*matching, "layout_proj.", "encoder.", "proposal_generator.", "direct")  # all but the decoder

    common: dict[str, Any] = {"decay": "cosine", "warmup": 50, "distance": "saturating"}
    common |= {"learning_rate": 3e-4, "self_supervised": 0.5}
    learns_to_match = {"learning_rate": 1e-3, "self_supervised": 0.3, "heatmap_loss_weight": 0.5}

    def phase(like: str, **changes: Any) -> PhaseSettings:
        return replace(PHASES[like], **common | changes)

    return TrainSettings(
        network=NetworkSettings(
            channels=1152,
            dropout=0.0,  # without it a step takes half the time, and so few steps do not overfit
            backbone=BackboneSettings(layers=(8, 10, 12)),
        ),
        matching=MatchingSettings(
            lora=LoraSettings(blocks=5),
            views=ViewSettings(mirror=True, mirror_query=True, quarter_turns=True, scales=(1.0, 0.85)),
        ),
        phases=(
            # First the features alone, while the rest does matching.
            phase(
                "base",
                name="adapt",
                freeze=(*localising, "decoder."),
                epochs=3,
                soup=3,
                shots=(1,),
                match_only=True,
                heatmap_sharpness=0.4,
                **learns_to_match,
            ),
            phase("base", freeze=("lora.", *matching), epochs=2, **learns_to_match),
            # Every further shot costs the predictor as much as the first.
            phase(
                "graph",
                freeze=("lora.", *localising),
                epochs=2,
                shots=(1, 2),
                graph_learning_rate=10.0,
                structure_loss_weight=1.0,
            ),
            phase("bias", freeze=("lora.", *localising, "pose_graph."), epochs=3, graph_loss="off"),
        ),
        episodes=EpisodeSettings(
            shots=(1, 1, 2, 3, 5),
            balance="root",
            steps_per_epoch=100,
            most_objects=100,  # plenty, and a third fewer views to cache
            views=3,
            match_facing=True,
            subset=0.3,
            edge_noise=0.3,
            augment=AugmentSettings(strong_probability=0.25),
        ),
        initialisation="matching",
        batch=8,
        optimiser="adamw",
        weight_decay=1e-4,
        epsilon=1e-14,
        clip=1.0,
        ema=0.998,
        validate_every=15,  # a phase at its end: half of a soup is no model
        validation_episodes=4,
    )


RECIPES: dict[str, Callable[[], TrainSettings]] = {"paper": paper, "small": small}


def recipe(name: str) -> TrainSettings:
    if name not in RECIPES:
        raise SettingsError(f"there is no recipe '{name}'; there are {', '.join(RECIPES)}")
    return RECIPES[name]()
