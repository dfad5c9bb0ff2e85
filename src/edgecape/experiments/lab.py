"""Where experiments are done: data, models that are trained or found, results on disk."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from edgecape.data.dataset import Dataset, joined
from edgecape.data.features import FeatureStore
from edgecape.data.objects import read_coco
from edgecape.errors import DataError, SettingsError
from edgecape.evaluation.benchmark import Benchmark, BenchmarkOptions, each_split
from edgecape.evaluation.episodes import Episode
from edgecape.evaluation.evaluate import Method, Task, evaluate
from edgecape.evaluation.methods import GRAPHS, Graph, ModelMethod, baselines, final, proposals, whitened_matching
from edgecape.evaluation.results import Result
from edgecape.experiments.arms import Arm, check_ours
from edgecape.experiments.options import Options, digest
from edgecape.experiments.our_stages import EncodedData, OurStages
from edgecape.experiments.priors import AS_GIVEN, changed, changes
from edgecape.experiments.stages import PublishedStages, Stage
from edgecape.experiments.untrained import LAYERS, untrained
from edgecape.io.locks import Lock, do_together
from edgecape.matching.network import MatchingNetwork, lora_of
from edgecape.model.graph import row_normalise
from edgecape.model.network import Network
from edgecape.model.settings import BackboneSettings
from edgecape.runtime.torch_runtime import TorchRuntime
from edgecape.training.run import data_fingerprint
from edgecape.weights.backbones import fingerprint, load_backbone
from edgecape.weights.store import Stored, find_model, load_model

Say = Callable[[str], None]


@dataclass(frozen=True)
class Condition:
    """Under what something is measured."""

    shots: int = 1
    skeleton: str = AS_GIVEN  # of priors.changes()
    cover: float = 0.0  # share of the query's frame


class Model(NamedTuple):
    """A network, the features it sees, and how it is told of the graph."""

    network: Network
    store: FeatureStore
    key: str
    told: Graph | None = None  # None: as it was trained
    decodes: bool = True


class Measurement(NamedTuple):
    """Methods that see the same features, on the same pairs."""

    shots: int
    cover: float
    store: FeatureStore
    methods: Mapping[str, Method]  # by the keys of their results


Results = Mapping[str, Sequence[Result]]  # by arm, one per seed


class Lab:
    def __init__(
        self,
        options: Options,
        say: Say = print,
        data: tuple[Dataset, Dataset] | None = None,
        backbone: BackboneSettings | None = None,
    ):
        """data: to train on and to measure on, if not what the options say; our decoder then stands on feature matching
        that nobody trained, of this backbone if one is named."""
        self.options, self.say, self.budget = options, say, options.resolved()
        self.given = {} if data else options.given()  # models that are given may know what is held out there
        self._data, self._backbone = data, backbone
        self.out = options.out
        self.cache = options.cache or options.out / "features"
        self._stores: dict[str, FeatureStore] = {}
        self._runtimes: dict[str, TorchRuntime] = {}
        self._models: dict[tuple[str, str, int], Model] = {}

    def on(self, train: Dataset, measured: Dataset, backbone: BackboneSettings | None = None) -> Lab:
        """The same with other data, or with another backbone under our decoder."""
        other = Lab(self.options, self.say, (train, measured), backbone)
        other._stores, other._runtimes = self._stores, self._runtimes
        return other

    # --- data --------------------------------------------------------------------------------------------

    @cached_property
    def train(self) -> Dataset:
        return self._data[0] if self._data else self._read(self.options.train)

    @cached_property
    def measured(self) -> Dataset:
        return self._data[1] if self._data else self._read(self.options.split)

    def _read(self, split: str) -> Dataset:
        parts = []
        for folder in self.options.data:
            only, *others = each_split(BenchmarkOptions(folder, split=split))
            if others or only.images is None:
                raise DataError(f"{split} fits {1 + len(others)} files of {folder}; experiments take one at a time")
            parts.append(read_coco(only.data, only.images))
        return parts[0] if len(parts) == 1 else joined(parts)

    def benchmark(self, shots: int) -> Benchmark:
        return Benchmark.of(self.measured, shots, self.budget.episodes)

    # --- models ------------------------------------------------------------------------------------------

    def seeds(self, arm: Arm) -> range:
        """Of the trainings of an arm; of models that are given or told, which of them."""
        if self.options.regime == "told":
            return range(1)
        return range(len(self.given[arm.name])) if arm.name in self.given else self.trained_seeds

    @property
    def trained_seeds(self) -> range:
        first = self.options.first_seed
        return range(first, first + self.budget.seeds)

    def check(self, arms: Iterable[Arm]) -> None:
        """All that can be known to be wrong before anything is computed."""
        arms = list(arms)
        for arm in arms:
            for folder in self.given.get(arm.name, ()):
                self._check_given(arm, folder)
            if self.options.regime == "ours":
                check_ours(arm)
        if self.options.regime == "told":
            has = load_model(find_model(None if self.options.model == "default" else self.options.model)).config.network
            for arm in arms:
                wanted = arm.preset
                if wanted.decodes and GRAPHS.index(wanted.graph) > GRAPHS.index(has.graph):
                    trained = f"{self.options.model} was trained with graph '{has.graph}'"
                    raise SettingsError(f"{trained}; arm '{arm.name}' needs '{wanted.graph}'")
        for shots in sorted({self.options.shots[0], *self.options.shots}):
            self.benchmark(shots)
        if any(not self._is_ready(arm) for arm in arms):
            for arm in arms:
                self.chains([arm])

    def _check_given(self, arm: Arm, folder: str) -> None:
        has, wanted = load_model(find_model(folder)).config.network, arm.preset
        if (has.graph, has.bias) != (wanted.graph, wanted.bias):
            raise SettingsError(
                f"{folder} is a model with graph '{has.graph}' and bias '{has.bias}'; arm '{arm.name}' has "
                f"'{wanted.graph}' and '{wanted.bias}'"
            )

    def _is_ready(self, arm: Arm) -> bool:
        return self.options.regime == "told" or arm.name in self.given

    def chains(self, arms: Iterable[Arm]) -> dict[tuple[str, int], list[Stage]]:
        """Stages of what has to be trained, by arm and seed."""
        return {
            (arm.name, seed): self._chain(arm, seed)
            for seed in self.trained_seeds
            for arm in arms
            if not self._is_ready(arm)
        }

    def _chain(self, arm: Arm, seed: int) -> list[Stage]:
        folder = self.out / "stages"
        if self.options.regime == "ours":
            return OurStages(self.budget, self._base, self.encoded, folder).chain(arm, seed)
        network = self.options.network
        precision = torch.bfloat16 if self.budget.precision == "bf16" else torch.float32
        store = self.store(arm.network.get("backbone", network.backbone), precision)
        return PublishedStages(network, self.budget, self.train, store, folder).chain(arm, seed)

    @cached_property
    def source(self) -> str:
        """Of the model that is told less, or whose encoder our decoder stands on. That of the options may have learned
        from data that an experiment holds out."""
        if self._data is None or self.options.regime != "ours":
            return self.options.model
        store = self.store(self._backbone or replace(self.options.network.backbone, layers=LAYERS))
        return str(untrained(self.options.network, self.train, store, self.out / "stages"))

    @cached_property
    def _base(self) -> Stored:
        return load_model(find_model(None if self.source == "default" else self.source))

    @cached_property
    def encoded(self) -> EncodedData:
        return EncodedData(self.runtime(self.source), self.train, self.budget.encoded, self.out / "encoded")

    def steps(self, arm: Arm) -> int:
        """Of the training of an arm."""
        return sum(stage.steps for stage in self._chain(arm, self.trained_seeds[0]))

    def prepare(self, arms: Iterable[Arm], only: Collection[tuple[str, int]] | None = None) -> None:
        """Train what is not there yet, having said what that costs. only: of which arms and seeds; None: all."""
        chains = [chain for which, chain in self.chains(arms).items() if only is None or which in only]
        left = list({stage.key: stage for chain in chains for stage in chain}.values())
        left = [stage for stage in left if not stage.is_done()]
        if not left:
            return
        pace = {stage.kind: stage.time_step() for stage in {stage.kind: stage for stage in left}.values()}

        def seconds(stages: Sequence[Stage]) -> float:
            return sum(stage.steps * pace[stage.kind] for stage in stages)

        self.say(f"{len(left)} stages of {left[0].steps} steps are to be trained: {duration(seconds(left))}")
        for kind, each in pace.items():
            self.say(f"  {sum(stage.kind == kind for stage in left)} × {kind}: {each:.2f} s a step")
        if self.options.regime == "ours" and self.encoded.missing():
            self.say(f"first {self.encoded.missing()} episodes are encoded for them")
        # The longest line of stages begins first, so that processes that share the work end together.
        ahead: dict[str, float] = {}
        for chain in chains:
            for number, stage in enumerate(chain):
                if not stage.is_done():
                    ahead[stage.key] = max(ahead.get(stage.key, 0.0), seconds(chain[number:]))
        left.sort(key=lambda stage: -ahead[stage.key])

        def run(stage: Stage) -> None:
            still = duration(seconds([one for one in left if not one.is_done()]))
            self.say(f"{stage.name}; {still} left")
            stage.run()

        do_together(left, run, Stage.is_done, Stage.lock, Stage.can_begin)

    def first_model(self, arm: Arm) -> Model:
        """Of the first training, to show one of them."""
        return self.model(arm, self.seeds(arm)[0])

    def model(self, arm: Arm, seed: int) -> Model:
        place = (arm.name, arm.method, seed)
        if place not in self._models:
            self._models[place] = self._load(arm, seed)
        return self._models[place]

    def _load(self, arm: Arm, seed: int) -> Model:
        decodes = arm.preset.decodes
        if self.options.regime == "told" or arm.name in self.given:
            source = self.source if arm.name not in self.given else self.given[arm.name][seed]
            runtime = self.runtime(source)
            told = arm.preset.graph if self.options.regime == "told" and arm.name not in self.given else None
            return Model(runtime.network, self._shared_store(runtime), runtime.fingerprint, told, decodes)
        stage = self._chain(arm, seed)[-1]
        if self.options.regime == "ours":
            runtime = self.runtime(str(stage.model))
            return Model(runtime.network, self._shared_store(runtime), stage.key)
        backbone = arm.network.get("backbone", self.options.network.backbone)
        return Model(load_model(stage.model).network().eval(), self.store(backbone), stage.key, None, decodes)

    def runtime(self, source: str) -> TorchRuntime:
        if source not in self._runtimes:
            found = TorchRuntime.load(None if source == "default" else source, device="cpu")
            self._runtimes[source] = found
        return self._runtimes[source]

    def _shared_store(self, runtime: TorchRuntime) -> FeatureStore:
        """One for all models that see the same features."""
        lora = lora_of(runtime.network)
        key = runtime.backbone_fingerprint + ("" if lora is None else fingerprint(lora.state_dict()))
        key += str(runtime.backbone.settings)
        return self._stores.setdefault(key, FeatureStore.of(runtime, self.cache))

    def store(self, settings: BackboneSettings, precision: torch.dtype = torch.float32) -> FeatureStore:
        """precision: of its products; what is measured is exact."""
        key = f"{settings} {precision}"
        if key not in self._stores:
            self._stores[key] = FeatureStore(*load_backbone(settings), self.cache, precision=precision)
        return self._stores[key]

    # --- results -----------------------------------------------------------------------------------------

    def measure(self, arms: Sequence[Arm], conditions: Sequence[Condition]) -> dict[Condition, Results]:
        """Every arm in every condition on the same pairs; what was measured before is read, and needs no model."""
        wanted: dict[Condition, dict[str, list[str]]] = {}
        left: list[tuple[Arm, int, Condition, str]] = []
        for condition in conditions:
            for arm in arms:
                for seed in self.seeds(arm):
                    key = self._key(self._identity(arm, seed), condition)
                    wanted.setdefault(condition, {}).setdefault(arm.name, []).append(key)
                    if not self._place(key).is_file():
                        left.append((arm, seed, condition, key))
        self.prepare(arms, {(arm.name, seed) for arm, seed, *_ in left})
        left = [one for one in left if not self._place(one[-1]).is_file()]  # others may have measured meanwhile
        grouped: dict[tuple[int, float, FeatureStore], dict[str, Method]] = {}
        runs: dict[int, ModelMethod] = {}
        for arm, seed, condition, key in left:
            model = self.model(arm, seed)
            run = runs.setdefault(id(model.network), ModelMethod(model.network))
            methods = grouped.setdefault((condition.shots, condition.cover, model.store), {})
            methods[key] = method_of(model, run, condition.skeleton)
        self._evaluate([Measurement(*group, methods) for group, methods in grouped.items()])
        return {
            condition: {name: [Result.load(self._place(key)) for key in keys] for name, keys in by_arm.items()}
            for condition, by_arm in wanted.items()
        }

    def baselines(self, shots: int) -> Results:
        """Copying and training-free matching."""
        if self.options.regime == "published":
            store, network = self.store(self.options.network.backbone), None
        else:
            runtime = self.runtime(self.source)
            store, network = self._shared_store(runtime), runtime.network
            store = store if lora_of(network) is None else store.with_lora(None)  # what nobody trained
        methods = baselines(store.backbone)
        if isinstance(network, MatchingNetwork) and network.direct is not None:
            methods["whitened matching"] = whitened_matching(network)
        keys = {name: self._key([name, store.fingerprint], Condition(shots)) for name in methods}
        missing = {keys[name]: method for name, method in methods.items() if not self._place(keys[name]).is_file()}
        if missing:
            self._evaluate([Measurement(shots, 0.0, store, missing)])
        return {name: [Result.load(self._place(key))] for name, key in keys.items()}

    def _identity(self, arm: Arm, seed: int) -> list[object]:
        """Of a model and how it is told of the graph, whether it is there or still has to be trained."""
        if self._is_ready(arm):
            model = self.model(arm, seed)
            return [model.key, model.told, model.decodes]
        return [self._chain(arm, seed)[-1].key, None, arm.preset.decodes]

    def _key(self, what: object, condition: Condition) -> str:
        return digest([what, asdict(condition), data_fingerprint(self.measured), self.budget.episodes])

    def _place(self, key: str) -> Path:
        return self.out / "results" / f"{key}.npz"

    def _evaluate(self, measurements: Sequence[Measurement]) -> None:
        """Together with other processes that do the same."""

        def run(one: Measurement) -> None:
            benchmark = self.benchmark(one.shots)
            hidden = f", {one.cover:.0%} of each query covered" if one.cover else ""
            self.say(f"measuring {len(one.methods)} methods on {benchmark.pairs} pairs, {one.shots}-shot{hidden}")
            found = evaluate(benchmark.dataset, benchmark.episodes, one.methods, one.store, cover=one.cover)
            for key, result in found.items():
                result.save(self._place(key))

        do_together(
            measurements,
            run,
            is_done=lambda one: all(self._place(key).is_file() for key in one.methods),
            lock=lambda one: Lock(self._place(digest(sorted(one.methods))).with_suffix(".lock"), "an experiment"),
        )


def method_of(model: Model, run: ModelMethod, skeleton: str) -> Method:
    """A model as a method, told another skeleton."""
    found = final(run, model.told) if model.decodes else proposals(run)
    if skeleton == AS_GIVEN:
        return found
    return partial(_told_otherwise, found, skeleton)


def _told_otherwise(method: Method, skeleton: str, task: Task) -> Tensor:
    return method(task._replace(prior=changed(task.prior, changes()[skeleton], task.coordinates, task.visible)))


def duration(seconds: float) -> str:
    """As people say it."""
    if seconds < 90:
        return f"about {max(1, math.ceil(seconds))} s"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 90 else f"about {minutes // 60} h {minutes % 60:02d} min"


class SupportGraph(NamedTuple):
    """Of the supports of one episode; (K, K) each."""

    prior: Tensor  # Ã of what was told
    weights: Tensor  # A, symmetric, before it is normalised
    normalised: Tensor  # Ã
    visible: Tensor  # (K,) bool


def graphs_of(model: Model, dataset: Dataset, episodes: Sequence[Episode], skeleton: str) -> list[SupportGraph]:
    """What a network makes of a skeleton; queries play no part."""
    run, found = ModelMethod(model.network), list[SupportGraph]()

    def record(task: Task) -> Tensor:
        told = changed(task.prior, changes()[skeleton], task.coordinates, task.visible)
        graph = run.encode(task._replace(prior=told)).graph
        prior, *known = (one[0].cpu() for one in (row_normalise(graph.prior), graph.weights, graph.normalised))
        found.append(SupportGraph(prior, known[0], known[1], task.visible))
        return task.coordinates.mean(dim=0, keepdim=True)

    first = [Episode(episode.supports, episode.queries[:1]) for episode in episodes]
    evaluate(dataset, first, {"graphs": record}, model.store)
    return found
