from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecape.batch.manifest import Listed, LookedFor, Run, cut, looked_for, usual_shard_size
from edgecape.errors import DataError
from edgecape.formats.boxes import Boxes
from edgecape.io.storage import LocalFolder
from edgecape.types import Support

WANTED = LookedFor("m", "s", ("a", "b"), ((0, 1),), None, None, "auto")
FILMS = st.one_of(st.none(), st.integers(0, 50))


def photos(*names: str) -> list[Listed]:
    return [Listed(name, 10, 1) for name in names]


@given(st.lists(FILMS, max_size=30), st.integers(1, 12))
def test_shards_hold_every_photo_and_frame_once_and_in_order(frames, size):
    members = [Listed(f"{n:03d}", 1, 1, count) for n, count in enumerate(frames)]
    shards = list(cut(members, size, 7))
    assert [shard.number for shard in shards] == list(range(7, 7 + len(shards)))
    found = []
    for shard in shards:
        assert 1 <= len(shard.members) <= size
        if shard.members[0].frames is None:
            found += [listed.file for listed in shard.members]
            assert all(listed.frames is None for listed in shard.members)
        else:
            (film,) = shard.members
            last = max(film.frames, 1) if shard.stop is None else shard.stop
            assert last - shard.first <= size and (shard.stop is None) == (last == max(film.frames, 1))
            found += [f"{film.file}#{n}" for n in range(shard.first, last)]
    expected = [
        name
        for film in members
        for name in ([film.file] if film.frames is None else [f"{film.file}#{n}" for n in range(max(film.frames, 1))])
    ]
    assert found == expected


@pytest.mark.parametrize(("number", "size"), [(1, 16), (300, 16), (3000, 32), (50_000, 504), (2_000_000, 1000)])
def test_a_stop_costs_a_hundredth_at_most_where_that_is_much(number, size):
    assert usual_shard_size(number, 8) == size


def test_a_run_comes_back(tmp_path):
    run = Run(LocalFolder(tmp_path), WANTED, 8).with_photos(photos("b.jpg", "a.jpg"), 1)
    run.save()
    again = Run.open(LocalFolder(tmp_path))
    assert again == run and again.members == (photos("a.jpg", "b.jpg"),)
    assert '"skeleton": [[0, 1]]' in (tmp_path / "run.json").read_text()  # people read it too
    more = again.with_photos(photos("b.jpg", "c.jpg"), 5)
    assert more.lists[1].first_part == 2
    assert [more.is_newest(name, 0) for name in ("a.jpg", "b.jpg", "c.jpg")] == [True, False, False]
    assert [more.is_newest(name, 1) for name in ("a.jpg", "b.jpg", "c.jpg")] == [False, True, True]


def test_an_output_without_run(tmp_path):
    assert Run.open(LocalFolder(tmp_path)) is None


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"edgecape run": 99}', b"\xff", b"[" * 100_000, b'{"edgecape run": 1}']
)
def test_files_that_are_no_run(tmp_path, content):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(DataError, match="run.json is no run of this version"):
        Run.open(LocalFolder(tmp_path))


@pytest.mark.parametrize("content", [b"", b"not packed", None])
def test_a_damaged_list_is_named(tmp_path, content):
    run = Run(LocalFolder(tmp_path), WANTED, 8).with_photos(photos("a.jpg"))
    path = tmp_path / run.lists[0].name
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(DataError, match=r"list-000\.jsonl\.gz is damaged"):
        list(run.shards(0))


def test_boxes_are_kept_with_the_run(tmp_path):
    boxes = Boxes(Path("b.json"), {"a.jpg": {"x/a.jpg": [(1.0, 2.0, 3.0, 4.5)]}})
    run = Run(LocalFolder(tmp_path), replace(WANTED, boxes=boxes.digest), 8)
    run.save_boxes(boxes)
    assert run.boxes().find("x/a.jpg") == [[1.0, 2.0, 3.0, 4.5]]
    (tmp_path / "boxes.json.gz").write_bytes(b"no")
    with pytest.raises(DataError, match="boxes.json.gz is damaged"):
        run.boxes()


def test_what_is_looked_for_is_known_by_what_was_given():
    picture = np.zeros((9, 9, 3), dtype=np.uint8)
    first = looked_for("m", [Support(picture, [(1, 2), (3, 4)], [(0, 1)], names=["a", "b"])], None)
    assert first == looked_for("m", [Support(picture.copy(), [(1, 2), (3, 4)], [(0, 1)], names=["a", "b"])], None)
    others = {
        "model": looked_for("n", [Support(picture, [(1, 2), (3, 4)], [(0, 1)], names=["a", "b"])], None),
        "support photo or marks": looked_for(
            "m", [Support(picture + np.uint8(1), [(1, 2), (3, 4)], [(0, 1)], names=["a", "b"])], None
        ),
        "names of keypoints": looked_for("m", [Support(picture, [(1, 2), (3, 4)], [(0, 1)])], None),
        "skeleton": looked_for("m", [Support(picture, [(1, 2), (3, 4)], names=["a", "b"])], None),
        "boxes": replace(first, boxes="x"),
        "number of propagated poses": replace(first, propagated=8),
    }
    for said, other in others.items():
        assert first.differences(other) == said and first.digest != other.digest
    moved = looked_for("m", [Support(picture, [(1, 2), (3, 5)], [(0, 1)], names=["a", "b"])], None)
    assert first.differences(moved) == "support photo or marks"
    without = {name: value for name, value in asdict(first).items() if name != "propagated"}
    assert first.digest == hashlib.sha256(json.dumps(without).encode()).hexdigest()[:32]  # as before it was known
    assert json.dumps(first.names) == '["a", "b"]'
