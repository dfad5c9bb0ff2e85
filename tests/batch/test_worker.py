from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from PIL import Image

from edgecape.batch.manifest import Listed, Run, Shard, looked_for
from edgecape.batch.worker import READERS, Worker, ahead
from edgecape.examples import lamp
from edgecape.io.storage import LocalFolder
from edgecape.io.video import read_frames, write_video

from toy import estimator


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    model, example = estimator(), lamp()
    prompt = model.prompt(example.support)
    prompt.save(tmp_path / "out" / "support.prompt")
    run = Run(LocalFolder(tmp_path / "out"), looked_for(model.fingerprint, [example.support], None), 3)
    return Worker(run.with_photos([Listed("a.png", 1, 1)]), model, draw=False)


def test_things_come_in_order_and_few_are_under_way():
    taken = []

    def endless():
        for number in itertools.count():
            taken.append(number)
            yield number

    found = ahead(lambda number: number * 2, endless(), 3)
    assert list(itertools.islice(found, 10)) == list(range(0, 20, 2))
    assert len(taken) <= 10 + 3 + 1
    found.close()


def test_memory_holds_a_batch_and_outcomes_keep_their_order(worker, tmp_path, monkeypatch):
    """Of a large shard, only this batch and the next one are taken: one is read while the other is computed."""
    picture = tmp_path / "1.png"
    Image.fromarray(lamp().queries[0]).save(picture)
    taken: list[str] = []
    photo = worker._photo
    monkeypatch.setattr(worker, "_photo", lambda listed: taken.append(listed.file) or photo(listed))
    names = [picture.as_posix() if n % 2 else f"{tmp_path}/gone{n}.png" for n in range(100)]
    outcomes = worker.do(Shard(0, tuple(Listed(name, 1, 1) for name in names)))
    first = [next(outcomes) for _ in range(4)]
    assert [x.file for x in first] == names[:4]
    assert [x.failed is None for x in first] == [False, True, False, True]
    assert first[0].failed == f"image {names[0]} does not exist"
    assert first[1].size == (320, 320) and first[1].bytes == picture.stat().st_size and first[1].digest
    assert len(taken) <= 2 * (2 * worker.batch_size) + READERS + 1  # every other one is missing
    assert [x.file for x in outcomes] == names[4:]


def test_what_no_photo_causes_ends_the_run(worker, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no model")

    Image.fromarray(lamp().queries[0]).save(tmp_path / "1.png")
    monkeypatch.setattr(worker.estimator, "predict", fail)
    with pytest.raises(RuntimeError, match="no model"):
        list(worker.do(Shard(0, (Listed(f"{tmp_path}/1.png", 1, 1),))))


def test_frames_of_a_range(worker, tmp_path):
    film = tmp_path / "clip.mp4"
    write_video(film, [lamp().queries[0]] * 7, fps=10)
    listed = Listed(film.as_posix(), 1, 1, 7)
    for first, stop, frames in ((0, 3, [0, 1, 2]), (3, 6, [3, 4, 5]), (6, None, [6])):
        found = list(worker._predicted(Shard(0, (listed,), first, stop)))
        assert [x.frame for x in found] == frames and all(x.size == (320, 320) for x in found)


def test_ranges_of_frames_are_exact(tmp_path):
    frames = [lamp().queries[0] // (n + 1) for n in range(9)]
    write_video(tmp_path / "a.mp4", frames, fps=10)
    whole = list(read_frames(tmp_path / "a.mp4"))
    parts = [frame for first in (0, 4, 8) for frame in read_frames(tmp_path / "a.mp4", first, first + 4)]
    assert len(parts) == len(whole) == 9
    assert all((one == other).all() for one, other in zip(parts, whole, strict=True))
