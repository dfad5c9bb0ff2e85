"""Predicted graphs on photos: beside the drawn skeleton, on several instances of a category, from several priors."""

from __future__ import annotations

import numpy as np

from edgecape.data.dataset import Dataset
from edgecape.drawing import graph_edges
from edgecape.errors import DataError
from edgecape.evaluation.episodes import Episode
from edgecape.experiments import figures
from edgecape.experiments.arms import main_arms
from edgecape.experiments.experiment import Experiment, Parts
from edgecape.experiments.lab import Lab, SupportGraph, graphs_of
from edgecape.experiments.photos import Tile, edges_of, grid
from edgecape.experiments.priors import AS_GIVEN, FULL, SELF_LOOPS, wrong_name
from edgecape.io.images import RGB

CATEGORIES, INSTANCES = 4, 4
PRIORS = (AS_GIVEN, wrong_name(8), SELF_LOOPS, FULL)


def with_skeleton(dataset: Dataset) -> list[int]:
    """Categories that have edges and two objects or more, those with the most keypoints first."""
    fit = [i for i, c in enumerate(dataset.categories) if c.edges and len(dataset.by_category[i]) > 1]
    if not fit:
        raise DataError(f"no category of {dataset.name} has a skeleton, so no graph can be drawn beside it")
    return sorted(fit, key=lambda index: -dataset.categories[index].K)


def seen_best(dataset: Dataset, category: int) -> list[int]:
    """Objects of a category, those that show the most keypoints first."""
    members = dataset.by_category[category].tolist()
    return sorted(members, key=lambda index: -int(dataset.instances[index].visible.sum()))


def different_instances(dataset: Dataset, category: int) -> list[int]:
    """Some that show all or most keypoints, and one that hides a keypoint of the skeleton."""
    members = seen_best(dataset, category)
    linked = {k for edge in dataset.categories[category].edges for k in edge}
    hiding = [i for i in members if not dataset.instances[i].visible[sorted(linked)].all()]
    chosen = members[: INSTANCES - 1]
    return list(dict.fromkeys([*chosen, *hiding[:1]]))


def weighted(graph: SupportGraph) -> tuple[list[tuple[int, int]], list[float]]:
    """Edges and how wide they are drawn."""
    edges, strength = graph_edges(graph.weights.numpy().astype(np.float32))
    return edges, [weight**2 for weight in strength]


def two_in_a_row(pairs: list[list[tuple[str, RGB]]]) -> list[list[tuple[str, RGB]]]:
    return [[tile for pair in pairs[n : n + 2] for tile in pair] for n in range(0, len(pairs), 2)]


def run(lab: Lab) -> Parts:
    arm = main_arms(lab.options)[2]
    lab.prepare([arm])
    model, dataset, photos = lab.first_model(arm), lab.measured, lab.options.photos

    def graph(index: int, skeleton: str = AS_GIVEN) -> SupportGraph:
        category = dataset.by_category[dataset.instances[index].category]
        other = int(category[0] if category[0] != index else category[1])
        return graphs_of(model, dataset, [Episode((index,), (other,))], skeleton)[0]

    def pair(index: int) -> list[tuple[str, RGB]]:
        instance = dataset.instances[index]
        tile, edges = Tile(instance, photos), edges_of(dataset, instance)
        name = dataset.labels[instance.category]
        return [(f"{name}: drawn", tile.with_graph(edges)), ("predicted", tile.with_graph(*weighted(graph(index))))]

    categories = with_skeleton(dataset)
    first = [pair(seen_best(dataset, category)[0]) for category in categories[:CATEGORIES]]
    # the category that can show the most: keypoints of the skeleton that some objects hide
    chosen = max(categories, key=lambda category: len(different_instances(dataset, category)))
    instances = different_instances(dataset, chosen)
    many = [pair(index) for index in instances]
    index = seen_best(dataset, categories[0])[0]
    told = [(name, Tile(dataset.instances[index], photos).with_graph(*weighted(graph(index, name)))) for name in PRIORS]
    hidden = [[int(k) for k in np.flatnonzero(~dataset.instances[i].visible)] for i in instances]
    drawn = [
        figures.picture(
            "input and predicted graph", "The wider an edge, the heavier it is.", grid(two_in_a_row(first))
        ),
        figures.picture(
            "one category, different objects",
            "The last one hides a keypoint of the skeleton, which then has no edges.",
            grid(two_in_a_row(many)),
            {"objects": instances, "hidden": hidden},
        ),
        figures.picture("one photo, different priors", "What is predicted from other skeletons.", grid([told])),
    ]
    rule = "Categories with the most keypoints, and of each the object that shows the most of them."
    return Parts(figures=drawn, notes=[rule])


EXPERIMENT = Experiment(
    "graphs",
    "What do predicted graphs look like?",
    "Figures of input and predicted graphs, of different instances and from different priors.",
    run,
    lambda options: [main_arms(options)[2]],
    check=lambda lab: with_skeleton(lab.measured),
)
