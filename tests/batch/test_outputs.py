from __future__ import annotations

import weakref
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgecape.batch.outputs import Steadied, check_format, draw_all, drawn_path, write_results
from edgecape.errors import AnnotationError
from edgecape.formats.labels import Entry
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


def test_smoothing_is_for_videos_only(tmp_path):
    film = (tmp_path / "a.mp4").as_posix()
    write_video(film, [GREY] * 3, fps=20)
    entries = [entry(f"{film}#0", 40), entry("p.jpg", 10), entry(f"{film}#1", 44), entry("q.jpg", 90)]
    found = Steadied(entries)
    assert list(found) and [each.file for each in found] == [each.file for each in entries]
    places = [each.poses[0].keypoints[0, 0] for each in found]
    assert places[0] == 40 and places[1] == 10 and 40 < places[2] < 44 and places[3] == 90


@pytest.mark.parametrize("stopped", [False, True])
def test_a_drawn_video_shows_each_pose_on_its_frame(tmp_path, stopped):
    """Also if a run was stopped within it, and the next one did a photo before it went on."""
    film, photo = (tmp_path / "a.mp4").as_posix(), (tmp_path / "p.png").as_posix()
    write_video(film, [GREY] * 4, fps=20)
    Image.fromarray(GREY).save(photo)
    entries = [entry(f"{film}#{n}", 20.0 * n + 10) for n in range(4)]
    entries.insert(2 if stopped else 4, entry(photo))
    assert not any(draw_all(tmp_path / "out", entries))
    assert drawn_path(tmp_path / "out", photo).exists()
    frames = list(read_frames(drawn_path(tmp_path / "out", film)))
    places = [np.abs(frame.astype(int) - 128).sum(axis=(0, 2)).argmax() for frame in frames]
    np.testing.assert_allclose(places, [10, 30, 50, 70], atol=5)


@pytest.mark.parametrize("format", ["yolo", "labelme", "labelstudio", "sleap", "cvat"])
def test_formats_that_lead_to_photos_take_no_videos(format):
    check_format(format, [Path("a.jpg")])
    with pytest.raises(AnnotationError, match="frames of a.mp4"):
        check_format(format, [Path("b.jpg"), Path("a.mp4")])


@pytest.mark.parametrize("format", ["csv", "coco", "coco-results", "deeplabcut", "labelme", "labelstudio"])
def test_no_more_than_a_photo_is_held_while_results_are_written(tmp_path, format):
    """However many there are: these exist only while somebody looks at them."""
    living, most = weakref.WeakSet(), 0

    class Made:
        def __iter__(self):
            nonlocal most
            for n in range(200):
                made = entry(f"{n}.jpg", float(n))
                living.add(made)
                most = max(most, len(living))
                yield made

    assert write_results(tmp_path, Made(), format).exists()
    assert 1 <= most <= 4


def test_nothing_found_is_nothing_written(tmp_path):
    assert write_results(tmp_path, [Entry("a.jpg", (9, 9), [])], "csv") is None
    assert list(tmp_path.iterdir()) == []
