"""edgecape train: phase after phase, resumable, on one process or many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from edgecape.training.settings import RECIPES, TrainSettings, recipe

if TYPE_CHECKING:
    from edgecape.data.dataset import Dataset


@dataclass(frozen=True)
class Train:
    """Train EdgeCape as the paper says, on MP-100 or any COCO-keypoints file; run again to go on after a stop.

    Example: edgecape train small --data train.json --images images --val val.json --out runs/first

    Every setting below can be changed, e.g. --settings.batch 8 --settings.episodes.shots 5; --method makes it another
    method of the family.
    """

    data: tuple[Path, ...]
    """COCO-keypoints files with the training categories."""
    images: tuple[Path, ...]
    """Folder that their file names are relative to: one for all files, or one for each."""
    out: Path
    """Folder of the run: settings, log, curves, checkpoints, models."""
    val: tuple[Path, ...] = ()
    """COCO-keypoints files with other categories, to choose the best weights and to fit scores on."""
    val_images: tuple[Path, ...] = ()
    """Folder that their file names are relative to, as with --images; the folders of --images if not given."""
    method: str | None = None
    """Method of the family to train by this recipe, such as graphcape; EdgeCape if not given."""
    phases: tuple[str, ...] = ()
    """Names of the recipe's phases to run; all if not given."""
    start: Path | None = None
    """Model folder to begin with, for instance to run a later phase alone."""
    cache: Path | None = None
    """Folder for cached features of a frozen backbone; they are computed anew each time if not given."""
    settings: TrainSettings = field(default_factory=TrainSettings)


def train(options: Annotated[Train, tyro.conf.arg(name="")]) -> int:
    from dataclasses import replace

    from edgecape.data.features import FeatureStore
    from edgecape.errors import SettingsError
    from edgecape.training.loop import train as run
    from edgecape.training.methods import as_method
    from edgecape.training.reread import NAME, train_decoder
    from edgecape.training.validation import Validation
    from edgecape.weights.backbones import load_backbone
    from edgecape.weights.store import load_model

    settings = options.settings if options.method is None else as_method(options.settings, options.method)
    if options.phases:
        known = {phase.name: phase for phase in settings.phases}
        names = [*known, *([] if settings.decoder is None else [NAME])]
        unknown = [name for name in options.phases if name not in names]
        if unknown:
            raise SettingsError(f"the recipe has no phase '{unknown[0]}'; it has {', '.join(names)}")
        chosen = tuple(known[name] for name in options.phases if name != NAME)
        settings = replace(settings, phases=chosen, decoder=settings.decoder if NAME in options.phases else None)
    settings.check()
    if settings.decoder is not None:
        check_decoder(settings, options.start)
    start = None if options.start is None else load_model(options.start).head
    dataset = read_all(options.data, options.images)
    validation = read_all(options.val, options.val_images or options.images) if options.val else None
    for data in filter(None, (dataset, validation)):
        print(f"{data.name}: {len(data.categories)} categories, {len(data.instances)} objects")
        for note in data.notes:
            print(f"  {note}")
    if validation is None:
        print("no validation data (--val): the last weights are kept, and scores will not be probabilities")
    backbone, fingerprint = load_backbone(settings.network.backbone)
    if backbone.channels != settings.network.channels:
        raise SettingsError(
            f"the backbone gives {backbone.channels} channels, the network expects {settings.network.channels}; "
            f"set --settings.network.channels {backbone.channels}"
        )
    blocks = settings.matching.lora.blocks if settings.matching else 0
    store = FeatureStore(backbone, fingerprint, options.cache, blocks=blocks)
    before = options.start
    if settings.phases:
        run(settings, dataset, store, options.out, validation, start)
        before = options.out / settings.phases[-1].name
    if settings.decoder is not None:
        assert before is not None  # checked
        measured = None
        if validation is not None:
            measured = Validation(validation, dataset, store, settings.validation_episodes)
        train_decoder(settings.decoder, before, dataset, store, options.out, measured)
    print(f"done: models of each phase, log and curves are in {options.out}")
    return 0


def check_decoder(settings: TrainSettings, start: Path | None) -> None:
    from accelerate import PartialState

    from edgecape.errors import SettingsError

    if PartialState().num_processes > 1:
        alone = "name the others (--phases adapt), then run it alone (--phases reread --start RUN/adapt)"
        raise SettingsError(f"phase 'reread' is trained by one process: {alone}")
    if not settings.phases and start is None:
        raise SettingsError("phase 'reread' stands on a trained model; give --start, or train phase adapt before it")


def read_all(files: Sequence[Path], images: Sequence[Path]) -> Dataset:
    """Files as one data set, their photos in one folder or in one for each."""
    from edgecape.data.dataset import joined
    from edgecape.data.objects import read_coco
    from edgecape.errors import SettingsError

    if len(images) not in (1, len(files)):
        raise SettingsError(f"{len(files)} files with {len(images)} folders of images; give one, or one for each file")
    folders = images if len(images) == len(files) else [images[0]] * len(files)
    found = [read_coco(file, folder) for file, folder in zip(files, folders, strict=True)]
    return found[0] if len(found) == 1 else joined(found)


def main(arguments: list[str]) -> int:
    name = "paper"
    if arguments and not arguments[0].startswith("-"):
        name, arguments = arguments[0], arguments[1:]
    options = tyro.cli(
        Annotated[Train, tyro.conf.arg(name="")],
        prog=f"edgecape train {name}",
        description=f"{Train.__doc__}\n\nRecipes: {', '.join(RECIPES)} (first argument; now: {name}).",
        args=arguments,
        config=(tyro.conf.AvoidSubcommands,),  # whether anything is added to the published network is the recipe's
        default=Train(data=tyro.MISSING, images=tyro.MISSING, out=tyro.MISSING, settings=recipe(name)),
    )
    return train(options)
