from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from edgecape.errors import SettingsError
from edgecape.tracking import OneEuro, SmoothingSettings, smooth_poses
from edgecape.types import Pose

FPS = 30.0


def pose(points: np.ndarray, side: float = 200.0) -> Pose:
    points = np.asarray(points, dtype=np.float32).reshape(-1, 2)
    return Pose(points, np.ones(len(points), dtype=np.float32), (0.0, 0.0, side, side / 2), points)


def stream(frames: Iterable[list[Pose]], settings: SmoothingSettings | None = None) -> Iterator[list[Pose]]:
    euro = OneEuro(FPS, settings)
    return (smooth_poses(poses, euro) for poses in frames)


def smoothed(track: np.ndarray, settings: SmoothingSettings | None = None, side: float = 200.0) -> np.ndarray:
    """A track (frames, 2) of one keypoint."""
    frames = ([pose(point, side)] for point in track)
    return np.stack([poses[0].keypoints[0] for poses in stream(frames, settings)])


def test_a_trembling_keypoint_at_rest_becomes_steady_and_stays_in_place():
    noise = np.random.default_rng(0).normal(0, 2.0, (600, 2))
    found = smoothed(100 + noise)[60:]
    assert found.std(axis=0).max() < 0.5 * 2.0
    np.testing.assert_allclose(found.mean(axis=0), 100, atol=0.5)


@pytest.mark.parametrize("speed", [0.05, 0.5, 3.0, 20.0])  # box sides per second
@pytest.mark.parametrize("lag", [0.01, 0.05])
def test_a_moving_keypoint_trails_by_no_more_than_the_lag(speed, lag):
    track = np.arange(300)[:, None] / FPS * speed * 200.0 * np.array([0.6, 0.8])
    behind = np.linalg.norm(smoothed(track, SmoothingSettings(lag=lag)) - track, axis=1)[150:] / 200.0
    assert behind.max() < lag + 1e-4


def test_size_of_the_photo_does_not_matter():
    track = np.random.default_rng(1).normal(50, 5, (40, 2))
    np.testing.assert_allclose(smoothed(7 * track, side=1400.0), 7 * smoothed(track), rtol=1e-4)


def test_a_lower_cutoff_is_steadier():
    noise = np.random.default_rng(2).normal(0, 2.0, (300, 2))
    calm, lively = (smoothed(noise, SmoothingSettings(cutoff=cutoff)).std() for cutoff in (0.3, 6.0))
    assert calm < lively < noise.std()


def test_keypoints_and_objects_are_filtered_apart():
    rng = np.random.default_rng(3)
    tracks = rng.normal(100, 4, (4, 25, 2))  # two objects of two keypoints
    frames = ([pose(tracks[:2, n]), pose(tracks[2:, n])] for n in range(25))
    found = list(stream(frames))
    for index, track in enumerate(tracks):
        alone = smoothed(track)
        together = [poses[index // 2].keypoints[index % 2] for poses in found]
        np.testing.assert_allclose(together, alone, atol=1e-4)


def test_a_change_in_the_number_of_objects_starts_anew():
    first, second = pose(np.zeros(2)), pose(np.full(2, 90.0))
    found = list(stream([[first], [], [second], [second, first]]))
    assert [len(poses) for poses in found] == [1, 0, 1, 2]
    np.testing.assert_array_equal(found[2][0].keypoints, second.keypoints)
    np.testing.assert_array_equal(found[3][1].keypoints, first.keypoints)


def test_a_keypoint_that_is_not_found_for_a_while_leaves_a_gap():
    """The others are filtered as if nothing were; it starts anew where it comes back."""
    tracks = np.random.default_rng(4).normal(100, 4, (3, 30, 2))
    tracks[1, 8:15] = np.nan
    tracks[2, :] = np.nan  # never found
    found = np.stack([poses[0].keypoints for poses in stream([pose(tracks[:, n])] for n in range(30))], axis=1)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(tracks))
    np.testing.assert_allclose(found[0], smoothed(tracks[0]), atol=1e-4)
    np.testing.assert_allclose(found[1, :8], smoothed(tracks[1, :8]), atol=1e-4)
    np.testing.assert_allclose(found[1, 15:], smoothed(tracks[1, 15:]), atol=1e-4)


def test_it_is_a_stream_and_leaves_the_rest_alone():
    endless = ([pose(np.full(2, float(n)))] for n in itertools.count())
    found = stream(endless)
    third = [next(found) for _ in range(3)][2][0]
    assert third.box == (0.0, 0.0, 200.0, 100.0) and third.keypoints.dtype == np.float32
    np.testing.assert_array_equal(third.proposals, [[2.0, 2.0]])


@pytest.mark.parametrize("change", [{"cutoff": 0.0}, {"lag": -1.0}, {"speed_cutoff": float("nan")}])
def test_settings_that_make_no_sense(change):
    with pytest.raises(SettingsError, match=next(iter(change))):
        SmoothingSettings(**change)
