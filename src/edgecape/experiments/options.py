"""What a user asks of an experiment: on which data, with which models, trained how and for how long."""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, Suppress, UseAppendAction, arg

from edgecape.errors import SettingsError
from edgecape.model.settings import NetworkSettings

NAMES: dict[str, str] = {
    "benchmark": "none, fixed and predicted + bias beside what was never trained; all metrics, 1 and 5 shots",
    "comparison": "1 shot against 5 shots, a circle per method",
    "components": "predicted graph × Markov bias",
    "learning": "none, fixed and predicted + bias after a third, two thirds and all of their training",
    "bias": "no bias, shortest paths, Markov with 1 to 6 hops",
    "supervision": "the graph taught through the decoder, by an auxiliary GCN, or by nothing of its own",
    "mask-ratio": "share of keypoints that are hidden while the graph learns",
    "predictor": "cosine, MLP or attention edges, with and without the image",
    "noisy-prior": "wrong edges in the skeleton, edges dropped",
    "no-prior": "self-loops and fully connected priors",
    "occlusion": "queries of which a part is covered",
    "backbones": "other layers and backbones",
    "single-category": "one definition of keypoints, categories known, photos new",
    "super-category": "each super-category held out in turn",
    "graph-change": "how much the predictor changes weights of edges",
    "graphs": "drawn and predicted graphs on photos",
    "qualitative": "what the arms find, side by side; best, median and worst cases",
    "cost": "parameters, operations and speed",
}
Regime = Literal["published", "ours", "told"]
ABOUT_REGIMES: dict[Regime, str] = {
    "published": "the paper's network, losses and start, trained here; only rate, length and batch are changed",
    "ours": "decoders that read the similarity again, trained here on the frozen encoder of one model",
    "told": "one model as it is, told nothing of the graph, the skeleton, or all; nothing is trained",
}


@dataclass(frozen=True)
class Budget:
    """How long models are trained and on how many pairs they are measured."""

    stages: int = 3
    """Stages of an arm as published, all of the same length: base, predicted graph, bias. All arms have the same
    number."""
    steps: int = 1700
    """Of a stage; 0: the paper's 100 epochs."""
    batch: int = 8
    learning_rate: float = 1.5e-4
    warmup: int = 300
    decay: Literal["none", "cosine"] = "cosine"
    """Of the learning rate, within each stage; none as published."""
    dropout: float = 0.0
    """0.1 as published; where photos are seen a few times only, it costs half of a step on a processor and saves nobody
    from learning by heart."""
    precision: Literal["no", "bf16"] = "bf16"
    """Of the products in training, as published, on processors that know it; measuring is exact."""
    views: int = 2
    """Crops per object, so that features can be cached; 0: new ones every time, as published."""
    most_objects: int = 60
    """Of a category; 0: all."""
    decoder_steps: int = 500
    """Of an arm in the regime "ours", which has one stage."""
    encoded: int = 4096
    """Episodes that such decoders learn from."""
    episodes: int = 10
    """Per category, to measure on."""
    seeds: int = 3


BUDGETS: dict[str, Budget] = {
    "smoke": Budget(
        steps=10, batch=4, warmup=2, views=1, most_objects=4, decoder_steps=10, encoded=64, episodes=1, seeds=1
    ),
    "hours": Budget(),
    "paper": Budget(
        steps=0,
        batch=16,
        learning_rate=1e-5,
        warmup=1000,
        decay="none",
        dropout=0.1,
        precision="no",
        views=0,
        most_objects=0,
        decoder_steps=20000,
        encoded=65536,
        episodes=200,
    ),
}


@dataclass(frozen=True)
class Options:
    data: Positional[Annotated[tuple[Path, ...], arg(metavar="DATA")]]
    """Folders with annotations/ and images/; several are taken as one data set."""
    split: str = "val"
    """What is measured on: the name of an annotation file or the end of it, such as val or split1_test."""
    train: str = "train"
    """What is trained on, in the same folders."""
    out: Path = Path("runs/experiments")
    """Folder of trained models, results and sections; what is there is used again."""
    report: Path | None = None
    """HTML file to write; report.html in --out if not given."""
    regime: Regime = "published"
    """published: the paper's network; ours: our decoder on a frozen encoder; told: --model as it is, told less."""
    budget: Literal["smoke", "hours", "paper"] = "hours"
    """How long is trained and on how much is measured."""
    seeds: int | None = None
    """Trainings of each arm; the budget's if not given."""
    first_seed: int = 0
    """Of these trainings; another one than on other machines, so that their results can be put together."""
    steps: int | None = None
    """Of a stage of training; the budget's if not given."""
    episodes: int | None = None
    """Per category; the budget's if not given."""
    shots: tuple[int, ...] = (1, 5)
    """Supports per episode, where an experiment measures several; the others take the first."""
    model: str = "default"
    """Model whose encoder "ours" trains on, and which "told" tells less."""
    models: UseAppendAction[tuple[str, ...]] = ()
    """ARM=FOLDER: a trained model to use for an arm instead of training it; repeat it for more arms and seeds."""
    methods: UseAppendAction[tuple[str, ...]] = ()
    """Further method of the family to train and measure beside the arms of an experiment, such as sdpnet; repeat it."""
    backbones: UseAppendAction[tuple[str, ...]] = ()
    """Further backbone for `backbones`, by hub id or folder; repeat it for more."""
    cache: Path | None = None
    """Folder for cached features; in --out if not given."""
    photos: bool = True
    """Put photos of the data into the report; without, poses are drawn on plain ground: for data nobody may pass on."""
    network: Annotated[NetworkSettings, Suppress] = field(default_factory=NetworkSettings)
    """Sizes of the network."""

    def resolved(self) -> Budget:
        """The budget with what is said otherwise."""
        given = {"seeds": self.seeds, "episodes": self.episodes}
        given |= {"steps": self.steps, "decoder_steps": self.steps}
        changes = {name: value for name, value in given.items() if value is not None}
        if any(value < 1 for value in changes.values()) or min(self.shots, default=0) < 1:
            raise SettingsError("seeds, steps, episodes and shots must be at least 1")
        if self.first_seed < 0:
            raise SettingsError(f"first-seed is {self.first_seed}; it must be at least 0")
        return Budget(**asdict(BUDGETS[self.budget]) | changes)

    def given(self) -> dict[str, list[str]]:
        """Models that are there, by arm."""
        found: dict[str, list[str]] = {}
        for text in self.models:
            name, sign, folder = text.partition("=")
            if not sign or not folder:
                raise SettingsError(f"'{text}' names no model; give ARM=FOLDER, such as fixed=runs/fixed/model")
            found.setdefault(name, []).append(folder)
        return found


def command(name: str, options: Options) -> str:
    """What makes the same numbers again, wherever the data lie."""
    words = ["edgecape experiment", name, *(folder.name for folder in options.data)]
    plain = Options(options.data)
    trained = ("regime", "budget", "seeds", "first_seed", "steps")
    for option in ("split", "train", *trained, "episodes", "shots", "model", "photos"):
        value = getattr(options, option)
        if value == getattr(plain, option):
            continue
        if option == "photos":
            words.append("--no-photos")
        else:
            several = value if isinstance(value, tuple) else (value,)
            words.append(f"--{option.replace('_', '-')} {' '.join(map(str, several))}")
    given = [
        f"{arm}={'/'.join(Path(folder).parts[-2:])}" for arm, folders in options.given().items() for folder in folders
    ]
    for option, values in (("models", given), ("methods", options.methods), ("backbones", options.backbones)):
        words += [f"--{option} {shlex.quote(value)}" for value in values]
    return " ".join(words)


def digest(content: Any) -> str:
    """Short hash of settings or of anything else that JSON can hold. What is empty says nothing: a setting that is new,
    and not used, does not make unknown what was trained before."""
    return hashlib.sha256(json.dumps(_said(content), sort_keys=True, default=str).encode()).hexdigest()[:16]


def _said(content: Any) -> Any:
    """Without empty dictionaries."""
    if isinstance(content, dict):
        return {key: _said(value) for key, value in content.items() if value != {}}
    return [_said(value) for value in content] if isinstance(content, list | tuple) else content
