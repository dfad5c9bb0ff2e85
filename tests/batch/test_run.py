"""Whole runs: killed, shared out, disturbed, on a full disk. Each photo comes out once, and every file is whole."""

from __future__ import annotations

import csv
import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from edgecape.batch.locking import ARRAY, LOCK, held
from edgecape.cli.main import main
from edgecape.examples.lamps import draw_lamp
from edgecape.io.locks import Lock
from edgecape.io.storage import LocalFolder
from edgecape.io.video import read_frames, write_video

from toy import estimator, write_lamps

PHOTOS, FRAMES = 9, 6
KILLS = int(os.environ.get("EDGECAPE_KILLS", "8"))  # 100 by hand, before a release


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, a video and the result of an undisturbed run."""
    root = tmp_path_factory.mktemp("world")
    write_lamps(root / "photos", PHOTOS)
    lamps = (draw_lamp((100.0 - 2 * n, -3.0 * n, 40.0), hue=8, ground=220, seed=1)[0] for n in range(FRAMES))
    write_video(root / "clip.mp4", lamps, fps=10)
    return root


@pytest.fixture
def predict(world, monkeypatch) -> Callable[..., int]:
    made = estimator()
    monkeypatch.setattr("edgecape.predictor.EdgeCape.from_pretrained", lambda source=None: made)
    monkeypatch.chdir(world)
    common = ["predict", "photos", "clip.mp4", "--support", "photos/lamps.json", "--draw", "--shard-size", "2"]
    return lambda out, *more: main([*common, "-o", str(out), *more])


@pytest.fixture
def expected(predict, world) -> bytes:
    if not (world / "whole").exists():
        assert predict("whole") == 0
    return (world / "whole" / "predictions.csv").read_bytes()


def child(work: Callable[[], int]) -> int:
    """A process that does it."""
    process = os.fork()
    if process == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return process


def ended(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def check(out: Path, expected: bytes) -> None:
    assert (out / "predictions.csv").read_bytes() == expected
    with open(out / "predictions.csv", newline="") as file:
        rows = [(row["image"], row["keypoint"]) for row in csv.DictReader(file)]
    assert len(set(rows)) == len(rows) and len({image for image, _ in rows}) == PHOTOS + FRAMES
    assert not [path for path in out.rglob("*") if path.name.startswith(".")]
    pictures = list((out / "drawn" / "photos").iterdir())
    assert len(pictures) == PHOTOS
    for picture in pictures:
        Image.open(picture).load()
    assert len(list(read_frames(out / "drawn" / "clip.mp4"))) == FRAMES


def test_killed_at_any_moment(predict, expected, tmp_path):
    start = time.monotonic()
    assert ended(child(lambda: predict(tmp_path / "timed"))) == 0
    usual = time.monotonic() - start
    moments, killed = random.Random(0), 0
    for _ in range(KILLS):
        process = child(lambda: predict(tmp_path / "out"))
        time.sleep(moments.uniform(0, usual))
        os.kill(process, signal.SIGKILL)
        in_time = ended(process) == -signal.SIGKILL
        if (tmp_path / "out" / "predictions.csv").exists():
            assert (tmp_path / "out" / "predictions.csv").read_bytes() == expected
        if not in_time:  # the machine is faster than it was
            usual /= 2
            shutil.rmtree(tmp_path / "out")
        killed += in_time
    assert killed
    assert ended(child(lambda: predict(tmp_path / "out"))) == 0
    check(tmp_path / "out", expected)


@pytest.mark.parametrize("limit", [300, 3_000, 12_000, 30_000])
def test_a_full_disk_is_said_and_nothing_is_lost(predict, expected, tmp_path, capfd, limit):
    """Files that may grow so far only, which a part, a picture, the video then exceeds."""

    def limited() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return predict(tmp_path / "out")

    assert ended(child(limited)) in (1, 2)
    said = capfd.readouterr().err
    assert "cannot be written" in said and "Traceback" not in said
    for path in tmp_path.rglob("*"):
        assert not path.name.startswith("."), path
        if path.suffix == ".jpg":
            Image.open(path).load()
    assert not (tmp_path / "out" / "drawn" / "clip.mp4").exists()
    assert predict(tmp_path / "out") == 0
    check(tmp_path / "out", expected)


def test_a_second_run_says_who_is_there(predict, expected, tmp_path, capsys):
    out = tmp_path / "out"
    with held(LocalFolder(out), None):
        assert predict(out) == 2
        assert f"in use by a run, process {os.getpid()} on " in capsys.readouterr().err
        assert predict(out, "--shard", "1/2") == 2
    with held(LocalFolder(out), (1, 2)) as hold:
        hold.share()
        assert predict(out) == 2
        assert "in use by part of a job array" in capsys.readouterr().err
        assert predict(out, "--shard", "1/2") == 2
    assert predict(out) == 0
    check(out, expected)


def test_two_runs_at_once(predict, expected, tmp_path):
    """One of them does it all; the other says so."""
    processes = [child(lambda: predict(tmp_path / "out")) for _ in range(2)]
    codes = sorted(ended(process) for process in processes)
    assert codes in ([0, 2], [0, 0])  # the second may come when the first has ended
    check(tmp_path / "out", expected)


def test_a_lock_ends_with_its_process(predict, tmp_path):
    def hold() -> int:
        with held(LocalFolder(tmp_path / "out"), None):
            (tmp_path / "held").touch()
            time.sleep(60)
        return 0

    process = child(hold)
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    ended(process)
    assert predict(tmp_path / "out") == 0


def test_a_job_array_in_turn(predict, expected, tmp_path, capsys):
    out = tmp_path / "out"
    assert predict(out, "--shard", "2/3") == 0
    assert "the last process of the job array to end writes the results" in capsys.readouterr().out
    assert not (out / "predictions.csv").exists()
    assert predict(out, "--shard", "1/3") == 0 and predict(out, "--shard", "3/3") == 0
    check(out, expected)


def test_a_job_array_at_once(predict, expected, tmp_path):
    out = tmp_path / "out"
    processes = [child(lambda part=part: predict(out, "--shard", f"{part}/3")) for part in (1, 2, 3)]
    assert [ended(process) for process in processes] == [0, 0, 0]
    check(out, expected)


@pytest.mark.parametrize("said", ["", "a run, process 1 on a machine, since yesterday"])
def test_whoever_has_just_taken_the_lock_has_not_written_there_yet(said, tmp_path, monkeypatch):
    """The file is empty, or speaks of a run before, until the other process of the array has written."""
    path = tmp_path / LOCK
    other = Lock(path, ARRAY)
    assert other.take()
    path.write_text(said)

    def sleep(seconds: float) -> None:
        other.release()

    monkeypatch.setattr("edgecape.batch.locking.time.sleep", sleep)
    with held(LocalFolder(tmp_path), (1, 3)) as hold:
        assert hold.alone


def test_a_damaged_part_is_done_again(predict, expected, tmp_path, capsys):
    out = tmp_path / "out"
    assert predict(out) == 0
    part = out / "parts" / "part-00002.jsonl"
    part.write_bytes(part.read_bytes().replace(b"0.", b"1.", 1))
    capsys.readouterr()
    assert predict(out) == 0
    said = capsys.readouterr().out
    assert "part-00002.jsonl is damaged" in said and "2 done (" in said
    check(out, expected)


def test_a_part_of_another_run_is_not_touched(predict, expected, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["predict", "photos", "--support", "photos/1000.png", "--points", "9,9", "-o", str(out)]) == 0
    foreign = (out / "parts" / "part-00000.jsonl").read_bytes()
    (tmp_path / "mine" / "parts").mkdir(parents=True)
    (tmp_path / "mine" / "parts" / "part-00001.jsonl").write_bytes(foreign)
    assert predict(tmp_path / "mine") == 2
    assert "part-00001.jsonl belongs to another run" in capsys.readouterr().err
    assert (tmp_path / "mine" / "parts" / "part-00001.jsonl").read_bytes() == foreign
    assert not (tmp_path / "mine" / "run.json").exists()
    assert predict(tmp_path / "mine", "--overwrite") == 0
    check(tmp_path / "mine", expected)


def test_what_killed_runs_left_is_cleared(predict, expected, tmp_path):
    out = tmp_path / "out"
    left = [out / folder / f".{'0a' * 16}{suffix}" for folder, suffix in
            (("parts", ".jsonl"), ("drawn/photos", ".jpg"), ("", ".csv"), ("drawn", ".mp4"))]  # fmt: skip
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
    (out / ".mine").touch()  # somebody else's
    assert predict(out) == 0
    assert not any(path.exists() for path in left) and (out / ".mine").exists()
    (out / ".mine").unlink()
    check(out, expected)
