"""Training settings and the shipped recipes. Every value can be overridden on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from edgecape.data.crops import AugmentSettings
from edgecape.errors import SettingsError
from edgecape.matching.settings import LoraSettings, MatchingSettings, RereadingSettings, ViewSettings
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


EPISODES = EpisodeSettings(  # what our decoder learns from
    balance="root",
    self_supervised=0.35,
    points=(5, 16),
    subset=0.3,
    most_keypoints=16,
    most_objects=80,
    views=4,
    match_facing=True,
    cover=0.3,
    augment=AugmentSettings(strong_probability=0.25),
)


@dataclass(frozen=True)
class HidingSettings:
    """Keypoints that only the others can find."""

    episodes: float = 0.6
    """Share of episodes in which keypoints are hidden."""
    keypoints: tuple[float, float] = (0.2, 0.6)
    """Least and largest share of an episode's keypoints that is hidden."""
    masked: float = 0.5
    """Share of the hidden ones that also lose their token."""
    mistaken: float = 0.5
    """Share of the hidden ones that look like another keypoint, instead of like nothing."""


@dataclass(frozen=True)
class DecoderTraining:
    """Our decoder, and the graph with it, learning from what the frozen rest of the network leaves."""

    graph: Literal["none", "fixed", "predicted"] = "fixed"
    bias: Literal["off", "markov", "shortest_path"] = "off"
    hops: int = 4
    """Of the bias."""
    residual: Literal["cosine", "mlp", "attention"] = "cosine"
    """How the graph's predictor turns keypoints into factors on the edges."""
    graph_loss: Literal["off", "masked", "gcn"] = "masked"
    """What teaches a predicted graph beside episodes in which all is shown: those with hidden keypoints (masked), an
    auxiliary GCN that restores hidden tokens, or nothing. The decoder learns from hidden keypoints in any case."""
    rereading: RereadingSettings = field(default_factory=RereadingSettings)
    voting: bool = True
    """Read the heatmap that the base model's votes leave instead of the similarity; needs places."""
    episodes: EpisodeSettings = EPISODES
    parts: int = 16
    """How many of them, in files of 512."""
    hiding: HidingSettings = field(default_factory=HidingSettings)
    learns: Literal["decoder", "graph", "both"] = "decoder"
    """What learns; the rest stays as it starts."""
    steps: int = 20000
    batch: int = 16
    learning_rate: float = 6e-4
    scalar_learning_rate: float = 10.0
    """Factor on the learning rate of single numbers, which have a long way to go: those of the predicted graph, and
    what a layer makes of the similarity and of rivals."""
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


@dataclass(frozen=True)
class TrainSettings:
    network: NetworkSettings = field(default_factory=NetworkSettings)
    """Everything but graph and bias, which the phases set."""
    matching: MatchingSettings | None = None
    """What is added to the published network; None: nothing."""
    phases: tuple[PhaseSettings, ...] = tuple(PHASES.values())
    decoder: DecoderTraining | None = None
    """Phase reread, the last one: a decoder of ours in the place of the published one; None: there is no such phase."""
    episodes: EpisodeSettings = field(default_factory=EpisodeSettings)
    labels: LabelSettings = field(default_factory=LabelSettings)
    """How pseudo-labels are made, by the network with which a phase begins that learns from them."""
    initialisation: Literal["reference", "open", "matching"] = "reference"
    """reference: as the paper says; open: but for the predicted graph, which begins with edges between all keypoints
    that look alike; matching: the untrained proposals already do nearest-feature matching."""
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
        if not self.phases and self.decoder is None:
            raise SettingsError("there is no phase to train; name at least one")
        if self.decoder is not None and self.matching is None:
            raise SettingsError("phase 'reread' stands on matching, which this recipe does not have")
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
    """The default model, on a CPU in hours: starts from feature matching, lets the backbone's last blocks learn, then a
    decoder that reads the similarity again, with the predicted graph and the Markov bias."""
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
        # The features alone, while the rest does matching. What is whitened matches also what is new, so it stays.
        phases=(
            replace(
                PHASES["base"],
                name="adapt",
                freeze=("image_proj.", "keypoint_proj.", "layout_proj.", "encoder.", "proposal_generator.", "direct")
                + ("decoder.",),
                epochs=20,
                soup=2,
                learning_rate=7e-4,
                warmup=100,
                decay="cosine",
                match_only=True,
                heatmap_loss_weight=0.5,
                heatmap_sharpness=0.4,
                self_supervised=0.3,
            ),
        ),
        decoder=DecoderTraining(
            graph="predicted",
            bias="markov",
            rereading=RereadingSettings(neighbours=True, share=0.35),
            hiding=HidingSettings(episodes=0.2),
            learns="both",
            steps=1000,
        ),
        episodes=EpisodeSettings(
            balance="root",
            steps_per_epoch=100,
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
        validate_every=40,  # a phase at its end: half of a soup is no model
        validation_episodes=4,
    )


RECIPES: dict[str, Callable[[], TrainSettings]] = {"paper": paper, "small": small}


def recipe(name: str) -> TrainSettings:
    if name not in RECIPES:
        raise SettingsError(f"there is no recipe '{name}'; there are {', '.join(RECIPES)}")
    return RECIPES[name]()
