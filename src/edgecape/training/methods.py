"""A recipe for each method by name: the same phases for all of them, so that all have the same budget."""

from __future__ import annotations

from dataclasses import replace

from edgecape.model.presets import Preset, preset
from edgecape.training.settings import DecoderTraining, PhaseSettings, TrainSettings

HEATMAP_LOSS = 1.0  # weight, for a method that has nothing but the similarity to learn from


def as_method(settings: TrainSettings, name: str) -> TrainSettings:
    """The recipe with the network, phases and episodes of a method. A phase that adds what the method does not have
    goes on with what it has."""
    chosen = preset(name)
    return replace(
        settings,
        network=chosen.settings(settings.network),
        phases=tuple(phase_of(chosen, phase) for phase in settings.phases if chosen.decodes or _matches(phase)),
        decoder=None if settings.decoder is None else decoder_of(chosen, settings.decoder),
        episodes=replace(settings.episodes, between=chosen.between),
    )


def decoder_of(chosen: Preset, decoder: DecoderTraining) -> DecoderTraining | None:
    """Our decoder. Its graph is predicted from keypoints alone in any case."""
    if not chosen.decodes:
        return None
    predicts = chosen.graph == "predicted"
    return replace(
        decoder,
        graph=chosen.graph,
        bias=chosen.bias,
        graph_loss=chosen.graph_loss if predicts else "off",
        learns="both" if predicts else "decoder",
        episodes=replace(decoder.episodes, between=chosen.between),
    )


def phase_of(chosen: Preset, phase: PhaseSettings) -> PhaseSettings:
    graph = "none" if chosen.graph == "none" else phase.graph if chosen.graph == "predicted" else "fixed"
    supervised = graph == "predicted" and phase.graph_loss != "off"
    found = replace(
        phase,
        graph=graph,
        bias="off" if phase.bias == "off" else chosen.bias,
        graph_loss=chosen.graph_loss if supervised else "off",
    )
    if chosen.decodes:
        return found
    return replace(found, match_only=True, heatmap_loss_weight=phase.heatmap_loss_weight or HEATMAP_LOSS)


def _matches(phase: PhaseSettings) -> bool:
    """Whether a phase teaches the matching anything."""
    return phase.match_only or "proposal_generator." not in phase.freeze
