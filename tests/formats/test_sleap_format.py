"""SLEAP files, through sleap-io."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from edgecape import formats
from edgecape.errors import DataError, MissingPackageError
from edgecape.formats import LabelledImage, LabelledObject, LabelSet

from labels_for_tests import assert_same, cow


def test_sleap_io_reads_ours(tmp_path: Path) -> None:
    sleap_io = pytest.importorskip("sleap_io")
    formats.write(tmp_path / "a.slp", cow(), "sleap")
    labels = sleap_io.load_slp(str(tmp_path / "a.slp"))
    assert labels.skeletons[0].node_names == list(cow().names)
    assert labels.skeletons[0].edge_inds == [(0, 1), (1, 2)]
    assert [tuple(video.shape) for video in labels.videos] == [(1, 120, 100, 3), (1, 48, 64, 3)]
    instance = labels.labeled_frames[0].instances[0]
    assert isinstance(instance, sleap_io.PredictedInstance)
    assert instance.score == pytest.approx(0.85)
    np.testing.assert_allclose(instance.numpy(), [[10, 20], [30.5, 40.25], [np.nan, np.nan]])


def test_photos_of_one_size_are_one_sequence(tmp_path: Path) -> None:
    sleap_io = pytest.importorskip("sleap_io")
    thing = LabelledObject([[1, 2]])
    images = [LabelledImage(f"{name}.png", 9, height, (thing,)) for name, height in (("a", 8), ("b", 7), ("c", 8))]
    formats.write(tmp_path / "a.slp", LabelSet(["eye"], None, "cow", images), "sleap")
    assert [video.filename for video in sleap_io.load_slp(str(tmp_path / "a.slp")).videos] == [
        ["a.png", "c.png"],
        ["b.png"],
    ]
    assert_same(formats.read(tmp_path / "a.slp")[0], LabelSet(["eye"], None, "cow", images))


def test_a_project_on_videos_where_the_user_corrected_predictions(tmp_path: Path) -> None:
    sleap_io = pytest.importorskip("sleap_io")
    mouse = sleap_io.Skeleton(["nose", "tail"], edges=[("tail", "nose")], name=None)
    video = sleap_io.Video(filename="clips/mouse.mp4", open_backend=False)
    guess = sleap_io.PredictedInstance.from_numpy(np.ones((2, 2)), mouse, point_scores=np.array([0.5, 0.25]), score=0.3)
    own = sleap_io.Instance.from_numpy(np.array([[3.0, 4.0], [np.nan, np.nan]]), mouse)
    frames = [
        sleap_io.LabeledFrame(video=video, frame_idx=12, instances=[guess, own]),
        sleap_io.LabeledFrame(video=video, frame_idx=13, instances=[guess]),
    ]
    sleap_io.save_slp(sleap_io.Labels(labeled_frames=frames), str(tmp_path / "a.slp"), verbose=False)
    (labels,) = formats.read(tmp_path / "a.slp")
    assert labels.category == "animal"
    assert labels.skeleton == ((0, 1),)
    assert [image.file for image in labels.images] == ["clips/mouse.mp4#12", "clips/mouse.mp4#13"]
    (corrected,), (predicted,) = (image.objects for image in labels.images)
    assert corrected.scores is None
    assert corrected.visible.tolist() == [True, False]
    assert predicted.scores is not None
    assert predicted.scores.tolist() == [0.5, 0.25]
    assert predicted.score == pytest.approx(0.3)


def test_several_skeletons(tmp_path: Path) -> None:
    pytest.importorskip("sleap_io")
    car = LabelSet(
        ["wheel"], None, "car", [LabelledImage("cow2.png", 64, 48, (LabelledObject([[1, 2]], scores=[0.5]),))]
    )
    formats.write(tmp_path / "a.slp", [cow(), car], "sleap")
    cows, cars = formats.read(tmp_path / "a.slp")
    assert_same(cows, cow(), without="occluded box")
    assert [len(image.objects) for image in cars.images] == [0, 1]


def test_half_a_file(tmp_path: Path) -> None:
    pytest.importorskip("sleap_io")
    formats.write(tmp_path / "a.slp", cow(), "sleap")
    content = (tmp_path / "a.slp").read_bytes()
    (tmp_path / "a.slp").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"a\.slp is not a SLEAP file"):
        formats.read(tmp_path / "a.slp")


@pytest.mark.parametrize("content", [b"", b"nothing"])
def test_damaged_files(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("sleap_io")
    (tmp_path / "a.slp").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.slp is not a SLEAP file"):
        formats.read(tmp_path / "a.slp")
    with pytest.raises(DataError, match=r"b\.slp does not exist"):
        formats.read(tmp_path / "b.slp", "sleap")


def test_without_sleap_io_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sleap_io", None)
    (tmp_path / "a.slp").write_bytes(b"")
    with pytest.raises(MissingPackageError, match=r"pip install 'edgecape\[formats\]'"):
        formats.read(tmp_path / "a.slp")
    with pytest.raises(MissingPackageError, match=r"pip install 'edgecape\[formats\]'"):
        formats.write(tmp_path / "b.slp", cow(), "sleap")
