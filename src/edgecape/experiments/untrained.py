"""Feature matching that learned nothing: what our decoder stands on where data are held out, because an encoder that
was trained may have learned from them."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from edgecape.data.dataset import Dataset
from edgecape.data.features import FeatureStore
from edgecape.experiments.options import Options, digest
from edgecape.io.locks import Lock, do_together
from edgecape.matching.settings import MatchingSettings
from edgecape.model.settings import NetworkSettings
from edgecape.training.loop import first_network
from edgecape.training.run import data_fingerprint
from edgecape.training.settings import recipe
from edgecape.weights.config import ModelConfig
from edgecape.weights.store import CONFIG, save_model

LAYERS = recipe("small").network.backbone.layers


def note(options: Options, reason: str) -> list[str]:
    """What a report says of it, where it is used."""
    if options.regime != "ours":
        return []
    return [f"Our decoder stands here on feature matching that nobody trained: {reason}."]


def untrained(sizes: NetworkSettings, dataset: Dataset, store: FeatureStore, folder: Path) -> Path:
    """Folder of the model with which recipe `small` begins, in one view and without votes. Of the data set it knows
    what features look like, and no keypoint."""
    backbone = store.backbone
    network = replace(sizes, backbone=backbone.settings, channels=backbone.channels, dropout=0.0)
    settings = replace(recipe("small"), network=network, matching=MatchingSettings(), decoder=None)
    key = digest([asdict(settings), data_fingerprint(dataset), store.fingerprint])
    place = folder / f"untrained-{key[:10]}"

    def save(place: Path) -> None:
        start = first_network(settings, dataset, store, None)
        config = ModelConfig(start.settings, settings.matching, store.fingerprint, training={"phase": "untrained"})
        save_model(place, config, start.state_dict())

    do_together([place], save, _is_saved, lambda place: Lock(place.with_suffix(".lock"), "an experiment"))
    return place


def _is_saved(place: Path) -> bool:
    return (place / CONFIG).is_file()
