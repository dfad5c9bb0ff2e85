from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecape.batch.manifest import Listed, LookedFor, Run, Shard, part_name
from edgecape.batch.parts import DamagedPartError, Outcome, read_part, whole_part, write_part
from edgecape.errors import DataError
from edgecape.io.storage import LocalFolder
from edgecape.types import Pose

RNG = np.random.default_rng(0)
WANTED = LookedFor("m", "s", ("a", "b", "c"), ((0, 1),), None, None, "auto")


def outcome(file: str, objects: int = 1, frame: int | None = None) -> Outcome:
    def points():
        return RNG.uniform(-20, 3000, (3, 2)).astype(np.float32)

    scores = RNG.uniform(size=3).astype(np.float32)
    poses = [Pose(points(), scores, (1.5, 2.0, 30.0, 40.0), points(), WANTED.names, WANTED.skeleton)] * objects
    return Outcome(file, frame, 123, 456, "d", (640, 480), tuple(poses))


SOME = outcome("a.jpg")
FAILED = Outcome("bad.jpg", None, 1, 2, None, failed="image bad.jpg cannot be read")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(LocalFolder(tmp_path), WANTED, 8).with_photos([Listed("a.jpg", 1, 1), Listed("b.jpg", 1, 1)])


def written(run: Run, outcomes: list[Outcome], drawn: bool = False) -> tuple[Shard, Path]:
    (shard,) = run.shards(0)
    assert list(write_part(run, shard, outcomes, drawn)) == outcomes
    return shard, run.output.root / part_name(shard.number)


def test_outcomes_come_back(run):
    given = [outcome("a/é 牛.jpg"), outcome("b.jpg", objects=2), outcome("none.jpg", objects=0), FAILED]
    given.append(outcome("clip.mp4", frame=7))
    shard, _ = written(run, given, drawn=True)
    part = read_part(run, shard)
    assert part.drawn and [x.file for x in part] == [x.file for x in given]
    assert [x.failed for x in part.failures()] == ["image bad.jpg cannot be read"]
    for there, each in zip(part, given, strict=True):
        assert (there.frame, there.bytes, there.mtime, there.digest) == (
            each.frame,
            each.bytes,
            each.mtime,
            each.digest,
        )
        assert there.size == each.size and len(there.poses) == len(each.poses)
        for pose, original in zip(there.poses, each.poses, strict=True):
            np.testing.assert_allclose(pose.keypoints, original.keypoints, atol=1e-3)
            np.testing.assert_allclose(pose.proposals, original.proposals, atol=1e-3)
            np.testing.assert_allclose(pose.scores, original.scores, atol=1e-6)
            assert (pose.box, pose.names, pose.skeleton) == (original.box, original.names, original.skeleton)
    assert list(part)[-1].entry.file == "clip.mp4#7"


def test_a_keypoint_that_was_not_found_is_null(run):
    """Never the word NaN, which is no JSON."""
    given = outcome("a.jpg")
    given.poses[0].keypoints[1], given.poses[0].proposals[1], given.poses[0].scores[1] = np.nan, np.nan, 0
    shard, path = written(run, [given])

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    lines = [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]
    assert lines[1]["poses"][0]["keypoints"][1] is None and lines[1]["poses"][0]["proposals"][1] is None
    assert not {"names", "skeleton"} & set(lines[1]["poses"][0])  # these stand in run.json
    (found,) = read_part(run, shard)
    np.testing.assert_array_equal(found.poses[0].found, [True, False, True])


def test_a_part_is_there_when_it_is_whole(run):
    (shard,) = run.shards(0)
    outcomes = write_part(run, shard, iter([outcome("a.jpg"), outcome("b.jpg")]), False)
    next(outcomes)
    assert read_part(run, shard) is None
    outcomes.close()  # as a run that is stopped
    assert read_part(run, shard) is None and not list((run.output.root / "parts").iterdir())


@given(data=st.data())
@settings(max_examples=150)
def test_no_damage_goes_unnoticed(tmp_path_factory, data):
    """Cut anywhere or changed in any byte, it is damaged, or of another run: never read, never a raw exception."""
    run = Run(LocalFolder(tmp_path_factory.mktemp("run")), WANTED, 8).with_photos([Listed("a.jpg", 1, 1)])
    shard, path = written(run, [SOME, FAILED])
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = data.draw(st.sampled_from(["cut", "byte", "twice", "line"]))
    if changed == "cut":
        content = whole[:place]
    elif changed == "byte":
        other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
        content = whole[:place] + bytes([other]) + whole[place + 1 :]
    else:
        lines = whole.splitlines(keepends=True)
        index = data.draw(st.integers(0, len(lines) - 1))
        content = b"".join(lines[:index] + ([lines[index]] * 2 if changed == "twice" else []) + lines[index + 1 :])
    path.write_bytes(content)
    with pytest.raises(DataError):
        read_part(run, shard)


def test_a_damaged_part_is_as_good_as_none_and_named(run):
    shard, path = written(run, [outcome("a.jpg")])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DamagedPartError, match="part-00000.jsonl is damaged: its checksum is wrong"):
        read_part(run, shard)
    damaged: list[str] = []
    assert whole_part(run, shard, damaged) is None and "part-00000.jsonl" in damaged[0]


def test_a_part_of_another_run_is_refused(run):
    _, path = written(run, [outcome("a.jpg")])
    before = path.read_bytes()
    for other in (replace(run, wanted=replace(WANTED, model="n")), run.with_photos([Listed("z.jpg", 1, 1)])):
        number = len(other.lists) - 1
        moved = next(other.shards(number))
        (run.output.root / part_name(moved.number)).write_bytes(before)
        with pytest.raises(DataError, match="belongs to another run"):
            whole_part(other, moved)
    assert path.read_bytes() == before


def test_lines_that_nobody_wrote(run):
    """With a good checksum, as only a program could make it."""
    shard, path = written(run, [outcome("a.jpg")])
    heading = path.read_bytes().splitlines(keepends=True)[0]
    for line in (
        b"[]\n",
        b'{"file": "a.jpg"}\n',
        b"{\n",
        b'{"file": 1, "frame": 2, "bytes": 3, "mtime": 4, "poses": 5}\n',
    ):
        end = {"entries": 1, "sha256": hashlib.sha256(heading + line).hexdigest()}
        path.write_bytes(heading + line + json.dumps(end).encode() + b"\n")
        with pytest.raises(DataError, match="holds what no version of edgecape writes"):
            list(read_part(run, shard))
