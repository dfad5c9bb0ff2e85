from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from edgecape.errors import DataError, ImageError
from edgecape.examples.lamps import draw_lamp
from edgecape.io.video import frame_name, is_video, parse_frame_name, read_frames, video_facts, write_video

FRAMES = 12


def lamp_frames(number: int = FRAMES):
    """A lamp that bends down."""
    for n in range(number):
        yield draw_lamp((100.0 - 2 * n, -3.0 * n, 40.0), hue=8, ground=220, seed=1)[0]


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv"])
def test_written_frames_come_back(tmp_path: Path, suffix):
    path = tmp_path / f"lamp{suffix}"
    write_video(path, lamp_frames(), fps=12.5)
    facts = video_facts(path)
    assert facts.fps == pytest.approx(12.5) and facts.size == (320, 320) and facts.frames == FRAMES
    found = list(read_frames(path))
    assert len(found) == FRAMES and list(tmp_path.iterdir()) == [path]
    for frame, drawn in zip(found, lamp_frames(), strict=True):
        assert frame.shape == (320, 320, 3) and frame.dtype == np.uint8
        assert np.abs(frame.astype(int) - drawn).mean() < 6  # compressed; swapped colours would be far off


def test_colours_are_red_green_blue(tmp_path: Path):
    red = np.zeros((64, 64, 3), dtype=np.uint8)
    red[..., 0] = 220
    write_video(tmp_path / "red.mp4", [red] * 3, fps=10)
    assert next(read_frames(tmp_path / "red.mp4")).mean(axis=(0, 1)).argmax() == 0


def test_odd_sides_lose_a_row(tmp_path: Path):
    write_video(tmp_path / "odd.mp4", [np.full((65, 91, 3), 90, dtype=np.uint8)] * 3, fps=10)
    assert [frame.shape for frame in read_frames(tmp_path / "odd.mp4")] == [(64, 90, 3)] * 3


def test_a_failure_leaves_nothing(tmp_path: Path):
    def frames():
        yield np.zeros((64, 64, 3), dtype=np.uint8)
        raise ImageError("no more")

    with pytest.raises(ImageError, match="no more"):
        write_video(tmp_path / "half.mp4", frames(), fps=10)
    with pytest.raises(DataError, match="none.mp4"):
        write_video(tmp_path / "none.mp4", [], fps=10)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "does not exist"), (b"", "cannot be opened"), (b"this is no video" * 99, "cannot be opened")],
)
def test_files_that_are_no_videos(tmp_path: Path, content, message):
    path = tmp_path / "bad.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ImageError, match=message):
        next(read_frames(path))
    with pytest.raises(ImageError, match="is a folder"):
        video_facts(tmp_path)


def test_a_video_cut_short_gives_its_good_frames_and_then_an_error(tmp_path: Path):
    path = tmp_path / "cut.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (320, 320))
    for frame in lamp_frames(30):
        writer.write(frame)
    writer.release()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    good = 0
    with pytest.raises(ImageError, match="of 30 frames; it is damaged or cut short"):
        for _ in read_frames(path):
            good += 1
    assert 5 < good < 25


@pytest.mark.parametrize(
    ("file", "parts"),
    [
        ("a/clip.mp4#12", ("a/clip.mp4", 12)),
        ("a.b/clip#2.MOV#0", ("a.b/clip#2.MOV", 0)),
        ("a/photo.jpg", None),
        ("a/photo#1.jpg", None),
        ("a/photo.jpg#1", None),
        ("clip.mp4#", None),
    ],
)
def test_names_of_frames(file, parts):
    assert parse_frame_name(file) == parts
    if parts is not None:
        assert frame_name(*parts) == file and is_video(parts[0])
