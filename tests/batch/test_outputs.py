from __future__ import annotations

import json
import weakref
from pathlib import Path

import numpy as np
import pytest

from edgecape.batch.manifest import Listed, LookedFor, Run
from edgecape.batch.outputs import Results, Steadied, Wanted, check_wanted, draw_videos, drawn_name, write_results
from edgecape.batch.parts import Outcome, write_part
from edgecape.errors import AnnotationError
from edgecape.formats.labels import Entry
from edgecape.io.storage import LocalFolder
from edgecape.io.video import read_frames, write_video
from edgecape.types import Pose, Support

GREY = np.full((64, 96, 3), 128, dtype=np.uint8)
WANTED = LookedFor("m", "s", None, None, None, None, "auto")
SHOWN = [Support(GREY, [(1, 1)])]


def poses(x: float = 48.0) -> tuple[Pose, ...]:
    point = np.array([(x, 32.0)], dtype=np.float32)
    return (Pose(point, np.ones(1, dtype=np.float32), (0, 0, 96, 64), point),)


def entry(file: str, x: float = 48.0) -> Entry:
    return Entry(file, (96, 64), poses(x))


def add(run: Run, done: dict[str, float | None], size: int = 2) -> Run:
    """A list of photos with its parts: where each has its keypoint, or None if it failed."""
    run = run.with_photos((Listed(file, 1, 1) for file in done), size)
    for shard in run.shards(len(run.lists) - 1):
        outcomes = (
            Outcome(listed.file, None, 1, 1, "d", failed="bad")
            if (x := done[listed.file]) is None
            else Outcome(listed.file, None, 1, 1, "d", (96, 64), poses(x))
            for listed in shard.members
        )
        assert len(list(write_part(run, shard, outcomes, False))) == len(shard.members)
    return run


def test_each_photo_comes_once_as_it_was_found_last(tmp_path):
    run = add(Run(LocalFolder(tmp_path), WANTED, 8), {"a": 1, "b": 2, "c": None, "e": 5, "g": 7})
    run = add(run, {"b": 20, "c": 30, "f": 6})
    run = add(run, {"e": None, "c": 33})
    for _ in range(2):  # it can be gone through again
        found = [(each.file, each.poses[0].keypoints[0, 0]) for each in Results(run)]
        assert found == [("a", 1), ("b", 20), ("c", 33), ("f", 6), ("g", 7)]


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("photos/a.jpg", "photos/a.jpg"),
        ("photos/a.JPG", "photos/a.JPG"),
        ("photos/a.png", "photos/a.png.jpg"),
        ("/data/a.tif", "data/a.tif.jpg"),
        ("../a.jpg", "up/a.jpg"),
        ("s3://bucket/a b/c.png", "bucket/a b/c.png.jpg"),
        ("clip.mp4", "clip.mp4"),
        ("clip.avi", "clip.avi.mp4"),
    ],
)
def test_where_pictures_go(source, place):
    assert drawn_name(source) == f"drawn/{place}"


def test_smoothing_is_for_videos_only(tmp_path):
    film = (tmp_path / "a.mp4").as_posix()
    write_video(film, [GREY] * 3, fps=20)
    entries = [entry("p.jpg", 10), entry(f"{film}#0", 40), entry(f"{film}#1", 44), entry("q.jpg", 90)]
    found = Steadied(entries)
    assert list(found) and [each.file for each in found] == [each.file for each in entries]
    places = [each.poses[0].keypoints[0, 0] for each in found]
    assert places[0] == 10 and places[1] == 40 and 40 < places[2] < 44 and places[3] == 90


@pytest.mark.parametrize("known", [[0, 1, 2, 3], [0, 2], [1]])
def test_a_drawn_video_shows_each_pose_on_its_frame(tmp_path, known):
    """Also where nothing is known of some: what comes after the last of them is left out."""
    film = (tmp_path / "a.mp4").as_posix()
    write_video(film, [GREY] * 4, fps=20)
    entries = [entry("p.jpg"), *(entry(f"{film}#{n}", 20.0 * n + 10) for n in known)]
    assert list(draw_videos(LocalFolder(tmp_path / "out"), entries)) == [(film, None)]
    frames = list(read_frames(tmp_path / "out" / drawn_name(film)))
    assert len(frames) == known[-1] + 1
    for number, frame in enumerate(frames):
        marks = np.abs(frame.astype(int) - 128).sum(axis=(0, 2))
        assert abs(marks.argmax() - (20 * number + 10)) <= 5 if number in known else marks.max() < 2000


@pytest.mark.parametrize("format", ["yolo", "labelme", "labelstudio", "sleap", "cvat"])
def test_formats_that_lead_to_photos_take_no_videos(format):
    check_wanted(Wanted(format), [Listed("a.jpg", 1, 1)], SHOWN)
    with pytest.raises(AnnotationError, match="frames of a.mp4"):
        check_wanted(Wanted(format), [Listed("b.jpg", 1, 1), Listed("a.mp4", 1, 1, 9)], SHOWN)


def test_label_files_that_would_fall_together_are_found_out_before_the_work():
    with pytest.raises(AnnotationError, match="share the label file"):
        check_wanted(Wanted("labelme"), [Listed("/x/a.jpg", 1, 1), Listed("/y/a.jpg", 1, 1)], SHOWN)


def test_names_are_checked_before_the_work():
    with pytest.raises(AnnotationError, match="not one line of text"):
        check_wanted(Wanted(), [Listed("a.jpg", 1, 1)], [Support(GREY, [(1, 1)], names=["a\nb"])])


def test_ids_of_a_coco_file(tmp_path):
    images = [{"id": 7, "file_name": "x/a.jpg"}, {"id": 9, "file_name": "y/a.jpg"}, {"id": 11, "file_name": "b.jpg"}]
    category = {"id": 3, "name": "cow", "keypoints": ["k"], "skeleton": []}
    dataset = tmp_path / "data.json"
    dataset.write_text(json.dumps({"images": images, "annotations": [], "categories": [category]}))
    wanted = Wanted("coco-results", "cow", dataset)
    photos = [Listed(file, 1, 1) for file in ("photos/b.jpg", "photos/y/a.jpg")]
    check_wanted(wanted, photos, SHOWN)
    assert write_results(LocalFolder(tmp_path), [entry(listed.file) for listed in photos], wanted) is not None
    found = json.loads((tmp_path / "predictions.json").read_text())
    assert [(result["image_id"], result["category_id"]) for result in found] == [(11, 3), (9, 3)]
    for file, what in (("c.jpg", "no such photo"), ("a.jpg", "several photos")):
        with pytest.raises(AnnotationError, match=f"image {file} has no id: .* {what}"):
            check_wanted(wanted, [Listed(file, 1, 1)], SHOWN)


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

    assert Path(write_results(LocalFolder(tmp_path), Made(), Wanted(format))).exists()
    assert 1 <= most <= 4


def test_nothing_found_is_nothing_written(tmp_path):
    assert write_results(LocalFolder(tmp_path), [Entry("a.jpg", (9, 9), [])], Wanted()) is None
    assert list(tmp_path.iterdir()) == []
