from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgecape.batch.parts import Journal
from edgecape.errors import DataError
from edgecape.formats.labels import Entry
from edgecape.types import Pose, Prompt

RNG = np.random.default_rng(0)
GRAPH = np.ones((3, 3), dtype=np.float32)
PROMPT = Prompt(
    tokens=RNG.normal(size=(1, 3, 8)).astype(np.float32),
    places=GRAPH[None, :, :2],
    views=np.zeros((1, 2), dtype=np.int64),
    usable=np.ones(3, dtype=bool),
    prior=GRAPH,
    weights=GRAPH,
    graph=GRAPH,
    flip_index=None,
    skeleton=((0, 1),),
    names=("a", "b", "c"),
    shots=1,
    model="m",
)


def entry(file: str, objects: int = 1) -> Entry:
    def points():
        return RNG.uniform(-20, 3000, (3, 2)).astype(np.float32)

    scores = RNG.uniform(size=3).astype(np.float32)
    poses = [Pose(points(), scores, (1.5, 2.0, 30.0, 40.0), points(), PROMPT.names, PROMPT.skeleton)] * objects
    return Entry(file, (640, 480), poses)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "journal.jsonl"


def files(path: Path, prompt: Prompt = PROMPT, boxes: str = "") -> list[str]:
    with Journal(path, prompt, boxes, resume=True) as journal:
        return [each.file for each in journal]


def test_entries_come_back(path):
    written = [entry("a/é 牛.jpg"), entry("b.jpg", objects=2), entry("none.jpg", objects=0)]
    with Journal(path, PROMPT) as journal:
        for each in written:
            journal.add(each)
        found = list(journal)  # also while it is open
    assert [each.file for each in found] == [each.file for each in written]
    for there, each in zip(found, written, strict=True):
        assert there.size == (640, 480) and len(there.poses) == len(each.poses)
        for pose, original in zip(there.poses, each.poses, strict=True):
            np.testing.assert_allclose(pose.keypoints, original.keypoints, atol=1e-3)
            np.testing.assert_allclose(pose.proposals, original.proposals, atol=1e-3)
            np.testing.assert_allclose(pose.scores, original.scores, atol=1e-6)
            assert (pose.box, pose.names, pose.skeleton) == (original.box, original.names, original.skeleton)
            assert pose.keypoints.dtype == pose.scores.dtype == np.float32


def test_a_keypoint_that_was_not_found_is_null(path):
    """Never the word NaN, which is no JSON."""
    given = entry("a.jpg")
    given.poses[0].keypoints[1], given.poses[0].proposals[1], given.poses[0].scores[1] = np.nan, np.nan, 0
    with Journal(path, PROMPT) as journal:
        journal.add(given)

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    lines = [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]
    assert lines[1]["poses"][0]["keypoints"][1] is None and lines[1]["poses"][0]["proposals"][1] is None
    assert set(lines[1]["poses"][0]) == {"keypoints", "scores", "box", "proposals"}  # the rest is in the first line
    with Journal(path, PROMPT, resume=True) as journal:
        (found,) = journal
    np.testing.assert_array_equal(found.poses[0].found, [True, False, True])
    np.testing.assert_allclose(found.poses[0].keypoints, given.poses[0].keypoints, atol=1e-3)
    assert found.poses[0].scores[1] == 0


def test_a_prompt_with_a_keypoint_that_no_support_shows_is_known_again(path):
    tokens = PROMPT.tokens.copy()
    tokens[:, 1] = np.nan
    prompt = replace(PROMPT, tokens=tokens, usable=np.array([True, False, True]))
    with Journal(path, prompt) as journal:
        journal.add(entry("1.jpg"))
    assert files(path, prompt) == ["1.jpg"]
    with pytest.raises(DataError, match="another support, model or boxes"):
        files(path)


def test_whatever_a_crash_leaves_the_whole_lines_are_kept(path):
    """Cut anywhere, the file opens, holds the entries before the cut, and takes new ones."""
    with Journal(path, PROMPT) as journal:
        journal.add(entry("1.jpg"))
        journal.add(entry("2.jpg"))
    whole = path.read_bytes()
    ends = [n + 1 for n, byte in enumerate(whole) if byte == ord("\n")]
    for cut in {0, 1, *ends, *(end - 1 for end in ends), *(end + 7 for end in ends[:-1]), len(whole) // 2}:
        path.write_bytes(whole[:cut])
        with Journal(path, PROMPT, resume=True) as journal:
            journal.add(entry("new.jpg"))
        kept = sum(end <= cut for end in ends[1:])
        assert files(path) == [*["1.jpg", "2.jpg"][:kept], "new.jpg"]


def test_without_resume_it_starts_anew(path):
    for name in ("1.jpg", "2.jpg"):
        with Journal(path, PROMPT) as journal:
            journal.add(entry(name))
    assert files(path) == ["2.jpg"]


@pytest.mark.parametrize(
    ("change", "boxes"),
    [
        ({"model": "other"}, ""),
        ({"names": None}, ""),
        ({"skeleton": ((0, 2),)}, ""),
        ({"tokens": PROMPT.tokens + np.float32(0.1)}, ""),
        ({"tokens": PROMPT.tokens[:, :2], "usable": PROMPT.usable[:2]}, ""),
        ({}, "boxes"),
    ],
)
def test_another_prompt_is_refused_and_nothing_is_lost(path, change, boxes):
    with Journal(path, PROMPT) as journal:
        journal.add(entry("1.jpg"))
    before = path.read_bytes()
    with pytest.raises(DataError, match="another support, model or boxes"):
        files(path, replace(PROMPT, **change), boxes)
    assert path.read_bytes() == before


def test_the_last_digits_of_a_prompt_do_not_matter(path):
    with Journal(path, PROMPT) as journal:
        journal.add(entry("1.jpg"))
    assert files(path, replace(PROMPT, tokens=PROMPT.tokens * np.float32(1 + 1e-6))) == ["1.jpg"]


@pytest.mark.parametrize("content", ["a text\n", '{"edgecape journal": 0}\n', "[1, 2]\n"])
def test_other_files_are_left_alone(path, content):
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(DataError, match="is not a journal"):
        files(path)
    assert path.read_text() == content


@pytest.mark.parametrize(
    "line",
    [
        '{"file": "2.jpg"}',
        "[]",
        '{"file": "2.jpg", "size": [1, 1], "poses": [{"keypoints": [[1, 2]], "scores": [], "box": [0, 0, 1, 1], '
        '"proposals": [null]}]}',
        '{"file": "2.jpg", "size": [1, 1], "poses": [{"keypoints": [[1, 2]], "scores": [1], "box": [0], '
        '"proposals": [null]}]}',
    ],
)
def test_a_damaged_line_is_named(path, line):
    with Journal(path, PROMPT) as journal:
        journal.add(entry("1.jpg"))
    with open(path, "a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match="line 3 is damaged"):
        files(path)
