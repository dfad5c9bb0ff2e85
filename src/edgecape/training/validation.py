"""Validation during training: the evaluation protocol on a few episodes, known and new definitions apart; and scores
fitted to it at the end."""

from __future__ import annotations

import numpy as np

from edgecape.data.dataset import Dataset
from edgecape.data.features import FeatureStore
from edgecape.evaluation.calibration import Samples, both_ways, fit_balanced
from edgecape.evaluation.episodes import protocol_episodes
from edgecape.evaluation.evaluate import evaluate
from edgecape.evaluation.groups import known_definitions
from edgecape.evaluation.methods import ModelMethod, final, proposals
from edgecape.matching.network import lora_of
from edgecape.matching.scores import Calibration
from edgecape.model.network import Network


class Validation:
    """Callable on a network; returns percentages for the log."""

    def __init__(self, dataset: Dataset, training: Dataset, store: FeatureStore, episodes: int, shots: int = 1):
        self.dataset, self.store, self.number = dataset, store, episodes
        self.episodes, _ = protocol_episodes(dataset, shots, episodes=episodes)
        self.known = known_definitions(dataset, training)

    def __call__(self, network: Network) -> dict[str, float]:
        store = self.store.with_lora(lora_of(network))
        model = ModelMethod(network)
        methods = {"refined": final(model), "proposals": proposals(model)}
        results = evaluate(self.dataset, self.episodes, methods, store)
        scores: dict[str, float] = {}
        for name, result in results.items():
            known = self.known[result.category]
            for group, chosen in (("all", np.ones_like(known)), ("known", known), ("new", ~known)):
                if chosen.any():
                    scores[f"{name}_{group}"] = 100 * result.subset(chosen).metrics()["mPCK@5"]
        # New definitions are what category-agnostic means: half of the vote where there are any.
        halves = [scores[f"refined_{group}"] for group in ("known", "new") if f"refined_{group}" in scores]
        return scores | {"selection": sum(halves) / len(halves)}

    def calibrate(self, network: Network) -> Calibration | None:
        """What turns the network's scores into probabilities; None if these categories cannot tell."""
        store = self.store.with_lora(lora_of(network))
        samples = Samples.together(both_ways(network, self.dataset, store, self.number).values())
        return fit_balanced(samples)
