from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgecape.batch.outputs import by_source, check_format, draw_source, drawn_path, smooth_videos
from edgecape.batch.parts import Entry
from edgecape.errors import AnnotationError
from edgecape.io.video import read_frames, write_video
from edgecape.types import Pose

GREY = np.full((64, 96, 3), 128, dtype=np.uint8)


def entry(file: str, x: float = 48.0) -> Entry:
    point = np.array([(x, 32.0)], dtype=np.float32)
    return Entry(file, (96, 64), [Pose(point, np.ones(1, dtype=np.float32), (0, 0, 96, 64), point)])


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("photos/a.jpg", "photos/a.jpg"),
        ("photos/a.JPG", "photos/a.JPG"),
        ("photos/a.png", "photos/a.png.jpg"),
        ("/data/a.tif", "data/a.tif.jpg"),
        ("../a.jpg", "up/a.jpg"),
        ("clip.mp4", "clip.mp4"),
        ("clip.avi", "clip.avi.mp4"),
    ],
)
def test_where_pictures_go(source, place):
    assert drawn_path(Path("out"), source) == Path("out/drawn") / place


def test_frames_belong_to_their_video_also_when_photos_lie_between():
    entries = [entry("a.mp4#0"), entry("p.jpg"), entry("a.mp4#1"), entry("b.mp4#0")]
    found = by_source(entries)
    assert list(found) == ["a.mp4", "p.jpg", "b.mp4"]
    assert [each.file for each in found["a.mp4"]] == ["a.mp4#0", "a.mp4#1"]


def test_smoothing_is_for_videos_only(tmp_path):
    film = (tmp_path / "a.mp4").as_posix()
    write_video(film, [GREY] * 3, fps=20)
    entries = [entry(f"{film}#0", 40), entry("p.jpg", 10), entry(f"{film}#1", 44), entry("q.jpg", 90)]
    found = smooth_videos(entries)
    assert [each.file for each in found] == [each.file for each in entries]
    places = [each.poses[0].keypoints[0, 0] for each in found]
    assert places[0] == 40 and places[1] == 10 and 40 < places[2] < 44 and places[3] == 90


def test_a_drawn_video_shows_each_pose_on_its_frame(tmp_path):
    film = (tmp_path / "a.mp4").as_posix()
    write_video(film, [GREY] * 4, fps=20)
    entries = [entry(f"{film}#{n}", 20.0 * n + 10) for n in range(4)]
    draw_source(tmp_path / "out", film, entries)
    frames = list(read_frames(drawn_path(tmp_path / "out", film)))
    places = [np.abs(frame.astype(int) - 128).sum(axis=(0, 2)).argmax() for frame in frames]
    np.testing.assert_allclose(places, [10, 30, 50, 70], atol=5)


@pytest.mark.parametrize("format", ["yolo", "labelme", "labelstudio", "sleap", "cvat"])
def test_formats_that_lead_to_photos_take_no_videos(format):
    check_format(format, [Path("a.jpg")])
    with pytest.raises(AnnotationError, match="frames of a.mp4"):
        check_format(format, [Path("b.jpg"), Path("a.mp4")])
