"""evaluate(): one backbone pass per distinct crop, the protocol's way back to the photo, and sharding."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from edgecape.data.crops import plain_crop
from edgecape.errors import WeightsError
from edgecape.evaluation.episodes import Episode, pairs, protocol_episodes
from edgecape.evaluation.evaluate import Task, distances, evaluate, processes
from edgecape.evaluation.methods import copy_support, nearest_feature
from edgecape.matching.views import MIRRORED, UPRIGHT, Picture, view_of

from dots import dots, store

METHODS = {"copy": copy_support, "match": nearest_feature(centre=False)}


def constant(x: float, y: float):
    def localise(task: Task) -> Tensor:
        return torch.tensor([x, y]).expand(len(task.query), len(task.visible), 2)

    return localise


@pytest.mark.parametrize("shots", [1, 3])
def test_each_distinct_crop_goes_through_the_backbone_once(tmp_path: Path, shots: int) -> None:
    data = dots(tmp_path, (9, 8))
    episodes, _ = protocol_episodes(data, shots, episodes=6, queries=4)
    features = store()
    done: list[int] = []
    results = evaluate(data, episodes, METHODS, features, done.append)
    distinct = {index for pair in pairs(episodes) for index in pair}
    assert features.computed == features.backbone.frames == len(distinct)
    assert done == [4] * 12
    assert list(results) == ["copy", "match"]
    for result in results.values():
        np.testing.assert_array_equal(result.pairs, pairs(episodes))
        assert result.distance.shape == (48, 4)
        assert result.categories == ("dots0", "dots1")
        np.testing.assert_array_equal(result.category, np.repeat([0, 1], 24))


def test_matching_sees_the_query_and_copying_does_not(tmp_path: Path) -> None:
    data = dots(tmp_path, (10, 10), hide=0)
    episodes, _ = protocol_episodes(data, 1, episodes=4, queries=5)
    scores = {name: result.metrics() for name, result in evaluate(data, episodes, METHODS, store()).items()}
    assert scores["match"]["PCK@0.1"] > 0.95
    assert scores["copy"]["PCK@0.1"] < 0.5


def test_keypoints_count_if_visible_in_the_query_and_in_all_supports(tmp_path: Path) -> None:
    data = dots(tmp_path, (8, 8), hide=0.4)
    episodes, _ = protocol_episodes(data, 3, episodes=5, queries=4)
    result = evaluate(data, episodes, {"copy": copy_support}, store())["copy"]
    assert np.isnan(result.distance).any(axis=0).any()
    for pair, row in zip(result.pairs, result.distance, strict=True):
        seen = np.logical_and.reduce([data.instances[index].visible for index in pair])
        np.testing.assert_array_equal(~np.isnan(row[: len(seen)]), seen)
        assert np.isnan(row[len(seen) :]).all()


def test_predictions_are_mapped_back_as_the_protocol_says(tmp_path: Path) -> None:
    data = dots(tmp_path, (5,), hide=0)
    result = evaluate(data, [Episode((0,), (1, 2))], {"there": constant(0.3, 0.9)}, store())["there"]
    for row, (index, scale) in zip(result.distance, zip((1, 2), result.scale, strict=True), strict=True):
        query = data.instances[index]
        x, y, w, h = query.box
        side = 1.25 * max(w, h)
        p = np.array([0.3, 0.9]) * 224  # in a frame of 224 pixels
        photo = p * side / 224 + (x + w / 2, y + h / 2) - side / 2
        np.testing.assert_allclose(row, np.linalg.norm(photo - query.keypoints, axis=1) / max(w, h), rtol=1e-6)
        assert scale == max(w, h)


def test_the_truth_is_at_distance_zero(tmp_path: Path) -> None:
    data = dots(tmp_path, (6,))
    query = data.instances[3]
    crop = plain_crop(query.image, query.box, (64, 64))
    shown = crop.coordinates(query.keypoints, (64, 64))
    truth = torch.from_numpy(shown)
    result = evaluate(data, [Episode((0,), (3,))], {"truth": lambda task: truth[None]}, store())["truth"]
    assert np.nanmax(result.distance) < 1e-6


def test_methods_get_what_they_are_promised(tmp_path: Path) -> None:
    data = dots(tmp_path, (7, 7), hide=0.3)
    seen = []

    def spy(task: Task) -> Tensor:
        seen.append(task)
        return copy_support(task)

    evaluate(data, [Episode((7, 9), (8, 10, 11))], {"spy": spy}, store())
    task = seen[0]
    features, coordinates, query = task.features, task.coordinates, task.query
    assert task.flip_index is None  # nobody said which keypoints are left and right
    paired = replace(data, categories=tuple(replace(one, symmetry=((0, 3),)) for one in data.categories))
    evaluate(paired, [Episode((7,), (8,))], {"spy": spy}, store())
    assert seen[1].flip_index.tolist() == [3, 1, 2, 0]
    assert (features.shape, query.shape, features.dtype) == ((2, 3, 16, 16), (3, 3, 16, 16), torch.float32)
    assert coordinates.shape == (2, 4, 2)
    assert task.visible.tolist() == (data.instances[7].visible & data.instances[9].visible).tolist()
    assert task.prior.tolist() == [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    chosen = [data.instances[index] for index in (8, 10, 11)]
    assert torch.equal(query, store().get([plain_crop(one.image, one.box, (64, 64)) for one in chosen]))


def test_pictures_of_supports_and_queries_are_computed_once_and_lie_as_they_should(tmp_path: Path) -> None:
    data, features = dots(tmp_path, (7,)), store()
    wanted = (Picture(), Picture(MIRRORED), Picture(view_of(True, 1)), Picture(UPRIGHT, 0.5))
    seen = []

    def spy(task: Task) -> Tensor:
        seen.append((task.shots(wanted), task.queries((UPRIGHT, MIRRORED))))
        return copy_support(task)

    evaluate(data, [Episode((0, 1), (2, 3)), Episode((1, 0), (3, 2))], {"spy": spy, "again": spy}, features)
    assert features.computed == 2 * len(wanted) + 2 * 2
    shots, queries = seen[0]
    assert shots.features.shape == (1, 4, 2, 3, 16, 16) and queries.shape == (2, 2, 3, 16, 16)
    plain, mirrored, on_its_side, closer = shots.coordinates[0]
    x, y = plain.unbind(-1)
    edge = 63 / 64
    np.testing.assert_allclose(mirrored, torch.stack((edge - x, y), dim=-1), atol=1e-6)
    np.testing.assert_allclose(on_its_side, torch.stack((edge - y, edge - x), dim=-1), atol=1e-6)
    np.testing.assert_allclose(closer - 0.5, 2 * (plain - 0.5), atol=1e-6)
    # this backbone averages patches, so its features turn with the frame
    torch.testing.assert_close(shots.features[0, 1], shots.features[0, 0].flip(-1))
    torch.testing.assert_close(queries[:, 1], queries[:, 0].flip(-1))


def test_features_are_let_go_when_they_get_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = dots(tmp_path, (8,))
    episodes, _ = protocol_episodes(data, 1, episodes=4, queries=3)
    whole = evaluate(data, episodes, METHODS, store())
    monkeypatch.setattr("edgecape.evaluation.evaluate.MEMORY", 3 * 2 * 3 * 16 * 16)
    few = store()
    for name, result in evaluate(data, episodes, METHODS, few).items():
        np.testing.assert_array_equal(result.distance, whole[name].distance)
    assert few.computed > 8


def test_cached_features_give_the_same_result(tmp_path: Path) -> None:
    data = dots(tmp_path / "data", (8, 6))
    episodes, _ = protocol_episodes(data, 1, episodes=3, queries=4)
    plain = evaluate(data, episodes, METHODS, store())
    first = evaluate(data, episodes, METHODS, store(tmp_path / "cache"))
    again = store(tmp_path / "cache")
    second = evaluate(data, episodes, METHODS, again)
    assert again.computed == 0
    for name in METHODS:
        np.testing.assert_array_equal(plain[name].distance, first[name].distance)
        np.testing.assert_array_equal(plain[name].distance, second[name].distance)


def test_coordinates_that_are_not_numbers_are_no_perfect_score(tmp_path: Path) -> None:
    data = dots(tmp_path, (5,))
    with pytest.raises(WeightsError, match="broken gave coordinates that are not numbers"):
        evaluate(data, [Episode((0,), (1,))], {"broken": constant(float("nan"), 0.5)}, store())


def test_distance_of_uncounted_keypoints(tmp_path: Path) -> None:
    query = dots(tmp_path, (3,), hide=0).instances[0]
    found = distances(query.keypoints + (3.0, 4.0), query, np.array([True, False, True]))
    np.testing.assert_allclose(found, [5 / max(query.box[2:]), np.nan, 5 / max(query.box[2:])], rtol=1e-6)


# --- several processes ---------------------------------------------------------------------------------------


def _worker(rank: int, world: int, port: int, folder: Path) -> None:
    """What `accelerate launch` does for each of its processes, and then evaluate()."""
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), ACCELERATE_USE_CPU="true",
    )  # fmt: skip
    torch.set_num_threads(1)
    state = processes()
    assert (state.num_processes, state.process_index) == (world, rank)
    data = dots(folder / f"data{rank}", (9, 8))
    features = store()
    episodes, _ = protocol_episodes(data, 2, episodes=5, queries=4)
    for name, result in evaluate(data, episodes, METHODS, features).items():
        result.save(folder / f"{name}{rank}.npz")
    (folder / f"computed{rank}").write_text(str(features.computed))
    state.destroy_process_group()


def test_sharding_gives_the_identical_result(tmp_path: Path) -> None:
    from edgecape.evaluation.results import Result

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_worker, args=(2, port, tmp_path), nprocs=2)
    data = dots(tmp_path / "data", (9, 8))
    episodes, _ = protocol_episodes(data, 2, episodes=5, queries=4)
    for name, single in evaluate(data, episodes, METHODS, store()).items():
        for rank in (0, 1):
            sharded = Result.load(tmp_path / f"{name}{rank}.npz")
            np.testing.assert_array_equal(sharded.pairs, single.pairs)
            np.testing.assert_array_equal(sharded.distance, single.distance)
    computed = [int((tmp_path / f"computed{rank}").read_text()) for rank in (0, 1)]
    assert all(computed)  # both took part
