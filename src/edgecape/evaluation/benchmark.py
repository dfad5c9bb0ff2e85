"""What methods are measured on, and which methods: a part of a data set, the protocol's pairs of it, groups of its
categories. PyTorch is imported by what needs it only, so that a command can read its options without."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, UseAppendAction, arg

from edgecape.data.dataset import Dataset, coverage, usable
from edgecape.data.objects import read_coco
from edgecape.errors import DataError, SettingsError, WeightsError
from edgecape.evaluation.episodes import Episode, pairs, protocol_episodes, restrict
from edgecape.io.edge_base import EdgeBase
from edgecape.io.paths import find_annotations

if TYPE_CHECKING:
    from edgecape.data.features import FeatureStore
    from edgecape.evaluation.evaluate import Method
    from edgecape.evaluation.results import Result
    from edgecape.model.backbone import Backbone
    from edgecape.runtime.torch_runtime import TorchRuntime

    Methods = Mapping[FeatureStore, Mapping[str, Method]]  # by the features they see


@dataclass(frozen=True)
class BenchmarkOptions:
    """Which pairs of which data set, as commands ask for it."""

    data: Positional[Annotated[Path, arg(metavar="DATA")]]
    """COCO-keypoints file, or folder with annotations/ and images/."""
    images: Path | None = None
    """Folder that the file names are relative to; found by itself in such a folder."""
    split: str | None = None
    """Which file of a folder: its name or the end of it, such as test or split1_test; a pattern, such as split*_test,
    means all that fit."""
    shots: int = 1
    """Supports per episode; 1 and 5 are usual."""
    episodes: int = 200
    """Per category; published numbers have 200, validation 100."""
    categories: UseAppendAction[tuple[str, ...]] = ()
    """Only this category, by name or id; repeat it for more."""
    skip_missing: bool = False
    """Leave out objects whose image is missing."""
    edge_base: EdgeBase = "auto"
    """What edges are counted from; auto decides from the edges and says when it cannot."""


@dataclass(frozen=True, eq=False)
class Benchmark:
    """The protocol's pairs of the objects that are meant."""

    dataset: Dataset
    shots: int
    episodes: Sequence[Episode]
    coverage: str  # how much of the data set
    notes: tuple[str, ...]

    @staticmethod
    def read(options: BenchmarkOptions) -> Benchmark:
        only, *others = each_split(options)
        if others:
            raise DataError(f"{options.split} fits {1 + len(others)} files of {options.data}; this takes one at a time")
        assert only.images is not None
        dataset = read_coco(only.data, only.images, options.edge_base)
        return Benchmark.of(dataset, options.shots, options.episodes, options.categories, options.skip_missing)

    @staticmethod
    def of(
        dataset: Dataset, shots: int, episodes: int, categories: Sequence[str] = (), skip_missing: bool = False
    ) -> Benchmark:
        allowed = usable(dataset, categories, skip_missing)
        if not skip_missing:
            _check_images(dataset, allowed)
        official, notes = protocol_episodes(dataset, shots, episodes)
        chosen = restrict(official, allowed)  # some of the official pairs, never others
        part = f"{len(pairs(chosen))} of {len(pairs(official))} pairs ({episodes} episodes per category)"
        covered = f"{part}, {coverage(dataset, allowed)} of {dataset.name}"
        if not chosen:
            raise DataError(f"nothing can be evaluated: {covered}")
        return Benchmark(dataset, shots, chosen, covered, (*dataset.notes, *notes))

    @property
    def title(self) -> str:
        return f"{self.dataset.name}, {self.shots}-shot"

    @property
    def pairs(self) -> int:
        return sum(len(episode.queries) for episode in self.episodes)

    def measure(self, methods: Methods, progress: Callable[[int], None] | None = None) -> dict[str, Result]:
        """The result of every method; `progress` is told the number of pairs done, once per store."""
        from edgecape.evaluation.evaluate import evaluate

        results: dict[str, Result] = {}
        for store, several in methods.items():
            results |= evaluate(self.dataset, self.episodes, several, store, progress)
        return results


def each_split(options: BenchmarkOptions) -> list[BenchmarkOptions]:
    """The options of every annotation file that is meant."""
    files, root = find_annotations(options.data, options.images)
    split, stems = options.split, {file.name.removesuffix(".gz").removesuffix(".json"): file for file in files}
    matching = [stem for stem in stems if split is None or fnmatchcase(stem, split) or fnmatchcase(stem, f"*_{split}")]
    several = split is not None and any(sign in split for sign in "*?[")
    if not matching or (len(matching) > 1 and not several):
        found = "none fits" if not matching else f"{len(matching)} fit"
        raise DataError(f"{options.data} has the files {', '.join(stems)}; {found}, say which one with --split")
    return [replace(options, data=stems[stem], images=root, split=None) for stem in matching]


def of_split(text: str, dataset: str) -> str:
    """A path with the number of a data set's split in the place of {split}."""
    if "{split}" not in text:
        return text
    number = re.search(r"split(\d+)", dataset)
    if number is None:
        raise DataError(f"{dataset} is not named after a split, such as mp100_split1_test; so what is {text}?")
    return text.replace("{split}", number[1])


def _check_images(dataset: Dataset, allowed: frozenset[int]) -> None:
    paths = sorted({dataset.instances[index].image for index in allowed})
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(paths)} images of {dataset.name} are missing, for example {missing[0]}; "
            "--skip-missing evaluates on those that are there"
        )


# --- methods -------------------------------------------------------------------------------------------------


def load(model: str) -> TorchRuntime:
    """A model as commands name it, on this process's device."""
    from edgecape.evaluation.evaluate import processes
    from edgecape.predictor import EdgeCape

    return EdgeCape.from_pretrained(None if model == "default" else model, device=processes().device).torch_runtime


def choose_methods(
    model: str,
    layers: tuple[int, ...],
    with_baselines: bool,
    cache: Path | None,
    method: str | None = None,
    propagate: int = 0,
) -> tuple[Methods, list[str]]:
    """A model ("none": none) and what it is compared with, by the features they see; and notes. method: of the family,
    as which alone the model is measured. propagate: poses of other queries that are taken for supports in a further
    row."""
    from edgecape.data.features import FeatureStore
    from edgecape.evaluation.evaluate import processes
    from edgecape.evaluation.methods import (
        ModelMethod,
        as_preset,
        baselines,
        final,
        propagated,
        variants,
        whitened_matching,
    )
    from edgecape.matching.network import MatchingNetwork, lora_of, matching_of
    from edgecape.model.settings import BackboneSettings
    from edgecape.weights.backbones import load_backbone

    if propagate < 0 or (propagate and model == "none"):
        raise SettingsError(f"--propagate is {propagate}; give a number of poses of a model, 0 for none")
    if not layers:
        raise SettingsError("matching needs at least one layer of the backbone; --layers -1 is the last")
    if model == "none":
        if method is not None:
            raise SettingsError(f"--method {method} says as what a model is measured, and there is none")
        if not with_baselines:
            raise SettingsError("there is nothing to measure: neither a model nor baselines")
        backbone, fingerprint = load_backbone(BackboneSettings(layers=layers))
        return {FeatureStore(backbone.to(processes().device), fingerprint, cache): baselines(backbone)}, []
    loaded = load(model)
    own = FeatureStore.of(loaded, cache)
    named = {} if method is None else {f"model as {method}": as_preset(method, loaded.network)}
    more: dict[str, Method] = {}
    if propagate:
        if matching_of(loaded.network) is None or named:
            raise SettingsError("--propagate is for models that compare supports one by one, measured as they are")
        more = {"model, propagated": propagated(ModelMethod(loaded.network), loaded.calibration, propagate)}
    if not with_baselines:
        return {own: (named or {"model": final(ModelMethod(loaded.network))}) | more}, []
    untouched = own if lora_of(loaded.network) is None else own.with_lora(None)  # what nobody trained
    backbone, notes = _with_layers(loaded, layers)
    other = FeatureStore(backbone, loaded.backbone_fingerprint, cache)
    methods = {untouched if backbone is loaded.backbone else other: baselines(backbone)}
    if isinstance(loaded.network, MatchingNetwork) and loaded.network.direct is not None:
        methods.setdefault(untouched, {})["whitened matching"] = whitened_matching(loaded.network)
    methods.setdefault(own, {}).update((named or variants(loaded.network)) | more)
    return methods, notes


def _with_layers(model: TorchRuntime, layers: tuple[int, ...]) -> tuple[Backbone, list[str]]:
    """The model's backbone with other output layers; the one it has if that is all there is of it."""
    from edgecape.evaluation.methods import layer_channels
    from edgecape.weights.backbones import load_backbone

    try:
        other, fingerprint = load_backbone(replace(model.backbone.settings, layers=layers, trainable=False))
        if fingerprint != model.backbone_fingerprint:
            raise WeightsError("it has weights of its own")
    except WeightsError as error:
        return model.backbone, [
            f"matching with the layers that the model uses; its backbone has no others here: {error}"
        ]
    if layer_channels(other) == layer_channels(model.backbone):
        return model.backbone, []
    return other.to(model.device), []
