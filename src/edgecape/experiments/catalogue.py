"""All experiments, in the order of the report."""

from __future__ import annotations

from edgecape.experiments import (
    backbones,
    benchmark,
    bias,
    comparison,
    components,
    cost,
    graph_change,
    graphs,
    learning,
    mask_ratio,
    no_prior,
    noisy_prior,
    occlusion,
    predictor,
    qualitative,
    single_category,
    super_category,
    supervision,
)
from edgecape.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        benchmark,
        comparison,
        components,
        learning,
        bias,
        supervision,
        mask_ratio,
        predictor,
        noisy_prior,
        no_prior,
        occlusion,
        backbones,
        single_category,
        super_category,
        graph_change,
        graphs,
        qualitative,
        cost,
    )
}
