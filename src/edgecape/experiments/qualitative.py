"""Support, truth and what the arms find, side by side; cases are chosen by rule."""

from __future__ import annotations

import numpy as np

from edgecape.data.dataset import Dataset
from edgecape.evaluation.episodes import Episode
from edgecape.evaluation.evaluate import Features, found_in_photos
from edgecape.evaluation.methods import ModelMethod
from edgecape.evaluation.results import Result
from edgecape.experiments import figures
from edgecape.experiments.arms import main_arms
from edgecape.experiments.experiment import Experiment, Parts
from edgecape.experiments.lab import Condition, Lab, method_of
from edgecape.experiments.photos import Tile, edges_of, grid, zoomed
from edgecape.experiments.priors import AS_GIVEN
from edgecape.experiments.section import Figure

FEWEST = 4  # keypoints that count, for a pair to be shown


def chosen_pairs(first: Result, last: Result) -> dict[str, int]:
    """Pairs by rule: best, median and worst of the last arm, and where it gains and loses most against the first; no
    two of one category while there are others."""
    enough = (~np.isnan(last.distance)).sum(axis=1) >= min(FEWEST, (~np.isnan(last.distance)).sum(axis=1).max())
    error, other = last.per_pair()["NME"], first.per_pair()["NME"]
    median = np.median(error[enough])
    ranks = {
        "best": error,
        "median": np.abs(error - median),
        "worst": -error,
        "gains most": error - other,
        "loses most": other - error,
    }
    found: dict[str, int] = {}
    for name, rank in ranks.items():
        taken = {int(last.category[row]) for row in found.values()}
        order = [int(row) for row in np.argsort(rank, kind="stable") if enough[row] and row not in found.values()]
        free = [row for row in order if int(last.category[row]) not in taken]
        if order:
            found[name] = (free or order)[0]
    return found


def shown(lab: Lab, name: str, pair: list[int], dataset: Dataset) -> Figure:
    arms, photos = main_arms(lab.options), lab.options.photos
    support, query = (dataset.instances[index] for index in (pair[0], pair[-1]))
    found = {}
    for arm in arms:
        model = lab.first_model(arm)
        method = {arm.name: method_of(model, ModelMethod(model.network), AS_GIVEN)}
        episode = Episode(tuple(pair[:-1]), (pair[-1],))
        points = found_in_photos(dataset, episode, method, Features(dataset, model.store))
        found[arm.name] = points[arm.name][0]
    usable = np.logical_and.reduce([dataset.instances[index].visible for index in pair])
    tile, truth = Tile(query, photos), query.keypoints
    away = {arm: np.linalg.norm(points - truth, axis=1) / max(query.box[2:]) for arm, points in found.items()}
    # zoom in on the keypoint about which the arms differ most
    spread = np.where(usable, np.ptp(np.stack(list(away.values())), axis=0), -1)
    centre = tile.places(truth, usable)[int(spread.argmax())]
    pictures = [("truth", tile.with_points(truth, usable))]
    pictures += [
        (f"{arm}: {100 * away[arm][usable].mean():.1f} %", tile.with_points(points, usable, truth))
        for arm, points in found.items()
    ]
    marked = ("support", Tile(support, photos).with_graph(edges_of(dataset, support)))
    blank = ("", np.full_like(tile.image, 255))
    rows = [[marked, *pictures], [blank, *(("zoom", zoomed(image, centre)) for _, image in pictures)]]
    caption = (
        f"{dataset.labels[query.category]}; mean distance to the truth in longer sides of the box, red lines lead there"
    )
    data = {arm: float(values[usable].mean()) for arm, values in away.items()}
    return figures.picture(name, caption, grid(rows), {"pair": pair, "NME": data})


def run(lab: Lab) -> Parts:
    arms, condition = main_arms(lab.options), Condition(lab.options.shots[0])
    results = lab.measure(arms, [condition])[condition]
    first, last = results[arms[0].name][0], results[arms[2].name][0]
    dataset = lab.measured
    cases = chosen_pairs(first, last)
    drawn = [shown(lab, name, last.pairs[row].tolist(), dataset) for name, row in cases.items()]
    rule = (
        f"By the mean distance of {arms[2].name}: its best, median and worst pair, and where it gains and loses most "
        f"against {arms[0].name}; pairs with {FEWEST} keypoints or more, each of another category; first seed."
    )
    return Parts(figures=drawn, notes=[rule])


EXPERIMENT = Experiment(
    "qualitative",
    "What do the arms find?",
    "Figures of support, truth, CapeFormer, GraphCape and EdgeCape side by side.",
    run,
    main_arms,
)
