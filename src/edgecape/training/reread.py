"""Phase reread: our decoder, the graph that it listens to and the Markov bias, learning from what the frozen network of
the phases before leaves (encoded.py, decoder.py). Like the other phases it goes on where it was stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgecape.data.dataset import Dataset
from edgecape.data.features import FeatureStore
from edgecape.matching.network import lora_of
from edgecape.training.decoder import DecoderTrainer
from edgecape.training.encoded import PART, EncodedEpisodes, write_training_parts
from edgecape.training.sampler import EpisodeSampler
from edgecape.training.settings import DecoderTraining
from edgecape.training.validation import Validation
from edgecape.weights.config import ModelConfig
from edgecape.weights.store import Stored, load_model, save_model

NAME = "reread"
WORK = "decoder"  # folder of its episodes, log and checkpoints


def train_decoder(
    settings: DecoderTraining,
    base: Path,
    dataset: Dataset,
    store: FeatureStore,
    folder: Path,
    validate: Validation | None = None,
) -> Stored:
    """base: model folder of the phase before. What is learned in one view is saved with the views and votes of the
    base, scores fitted: in `folder`/reread."""
    before, work = load_model(base), folder / WORK
    network = before.network().eval()
    sampler = EpisodeSampler(dataset, store.with_lora(lora_of(network)), settings.episodes, settings.seed)
    work.mkdir(parents=True, exist_ok=True)
    print(f"  {NAME}: encoding {settings.parts * PART} episodes", flush=True)
    write_training_parts(network, sampler, work / "episodes", settings.parts, PART)
    trainer = DecoderTrainer(before, settings, work)
    trainer.train(EncodedEpisodes(work / "episodes", settings.parts))
    finished = in_use(load_model(work / "model"), before)
    if validate is not None:
        network = finished.network().eval()
        print(f"  {NAME}: measuring it and fitting scores, with one and with five supports", flush=True)
        scores, calibration = validate(network), validate.calibrate(network)
        print(f"  {NAME}: " + " ".join(f"{name} {value:.1f}" for name, value in scores.items()), flush=True)
        training = finished.config.training | scores
        fitted = None if calibration is None else calibration.to_dict()
        finished = finished._replace(config=replace(finished.config, training=training, calibration=fitted))
    save_model(folder / NAME, finished.config, finished.head)
    return finished


def in_use(trained: Stored, base: Stored) -> Stored:
    """A decoder that learned in one view, with all views and votes of the model that it learned from."""
    mine, its = trained.config.matching, base.config.matching
    assert mine is not None
    assert its is not None
    matching = replace(mine, views=its.views, voting=its.voting)
    config: ModelConfig = replace(trained.config, matching=matching)
    return trained._replace(config=config)
