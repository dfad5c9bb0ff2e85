"""A wrong index base shifts the whole graph and nothing fails: it must never pass in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecape.data.objects import read_coco
from edgecape.errors import DataError
from edgecape.io.edge_base import EdgeBase, Skeleton, decide, proven_base

from coco_files import sample, write

Edges = tuple[tuple[int, int], ...]


@st.composite
def skeletons(draw: st.DrawFn, name: str = "thing") -> Skeleton:
    """A sound skeleton, counted from 0."""
    K = draw(st.integers(2, 12))
    index = st.integers(0, K - 1)
    edge = st.tuples(index, index).filter(lambda pair: pair[0] != pair[1])
    return Skeleton(name, K, tuple(draw(st.lists(edge, min_size=1, max_size=15))))


def shifted(skeleton: Skeleton, by: int) -> Skeleton:
    return Skeleton(skeleton.name, skeleton.K, tuple((i + by, j + by) for i, j in skeleton.edges))


@given(skeletons(), st.sampled_from([0, 1]))
def test_alone_it_is_proven_or_said_to_be_a_guess(skeleton: Skeleton, base: int) -> None:
    (decision,) = decide([shifted(skeleton, base)], "auto", "file")
    assert decision.base == base or not decision.proven
    used = {index for edge in skeleton.edges for index in edge}
    if (0 in used and base == 0) or (skeleton.K - 1 in used and base == 1):
        assert decision.proven


@given(st.lists(skeletons(), min_size=1, max_size=5), st.sampled_from([0, 1]))
def test_in_a_file_of_one_base_only_an_announced_default_can_be_wrong(several: list[Skeleton], base: int) -> None:
    there = [shifted(skeleton, base) for skeleton in several]
    decisions = decide(there, "auto", "file")
    if any(decision.proven for decision in decisions):
        assert {decision.base for decision in decisions} == {base}
    else:
        assert {decision.base for decision in decisions} == {0}


@given(st.lists(st.tuples(skeletons(), st.sampled_from([0, 1])), min_size=1, max_size=5))
def test_in_a_mixed_file_nothing_wrong_is_called_proven(several: list[tuple[Skeleton, int]]) -> None:
    decisions = decide([shifted(skeleton, base) for skeleton, base in several], "auto", "file")
    for (_, base), decision in zip(several, decisions, strict=True):
        assert decision.base == base or not decision.proven


@given(skeletons(), st.sampled_from([0, 1]), st.sampled_from([0, 1]))
def test_a_given_base_is_used_or_refuted(skeleton: Skeleton, base: int, given: EdgeBase) -> None:
    there = shifted(skeleton, base)
    if proven_base(there, "file") in (None, given):
        assert decide([there], given, "file")[0].base == given
    else:
        with pytest.raises(DataError, match=r"'thing'.*edge"):
            decide([there], given, "file")


@pytest.mark.parametrize(
    ("edges", "base"),
    [
        (((0, 1), (1, 2)), 0),
        (((1, 2), (2, 4)), 1),
        (((1, 2), (2, 3)), None),
        (((1, 4),), 1),
        (((3, 0),), 0),
    ],
)
def test_what_edges_prove(edges: Edges, base: int | None) -> None:
    assert proven_base(Skeleton("x", 4, edges), "file") == base


@pytest.mark.parametrize(
    ("edges", "words"),
    [(((0, 1), (3, 4)), r"\(0, 1\).*\(3, 4\)"), (((0, 4),), r"\(0, 4\)"), (((1, 5),), r"\(1, 5\)"), (((-1, 2),), "-1")],
)
def test_impossible_edges(edges: Edges, words: str) -> None:
    with pytest.raises(DataError, match=f"file.*{words}"):
        decide([Skeleton("x", 4, edges)], "auto", "file")


def test_rest_of_the_file_decides_with_a_note(tmp_path: Path) -> None:
    content = sample()
    content["categories"][0]["skeleton"] = [[1, 2], [2, 3]]
    content["categories"][1]["skeleton"] = [[1, 2], [2, 3]]  # of 4 keypoints: proves nothing
    dataset = read_coco(write(tmp_path / "a.json", content), "")
    assert [category.edges for category in dataset.categories] == [((0, 1), (1, 2))] * 2
    (note,) = dataset.notes
    assert note.startswith("warning: chair: edges taken as counted from 1")


def test_nothing_proves_anything(tmp_path: Path) -> None:
    content = sample()
    content["categories"][0]["skeleton"] = [[1, 2]]
    path = write(tmp_path / "a.json", content)
    dataset = read_coco(path, "")
    assert dataset.categories[0].edges == ((1, 2),)
    assert "counted from 0: nothing proves" in dataset.notes[0]
    assert read_coco(path, "", edge_base=1).categories[0].edges == ((0, 1),)
    assert read_coco(path, "", edge_base=1).notes == ()


def test_the_file_may_say_its_base(tmp_path: Path) -> None:
    content = {**sample(), "info": {"edge_base": 1}}
    content["categories"][0]["skeleton"] = [[1, 2]]
    assert read_coco(write(tmp_path / "a.json", content), "").categories[0].edges == ((0, 1),)
    content["categories"][0]["skeleton"] = [[0, 1]]
    with pytest.raises(DataError, match=r"counted from 1, but category 'dog' \(3 keypoints\) has edge \(0, 1\)"):
        read_coco(write(tmp_path / "a.json", content), "")


def mp100_file(tmp_path: Path, **skeletons: list[list[int]]) -> Path:
    """A file with categories of MP-100 (ids and keypoints as there) and these skeletons."""
    kinds = {"car": (32, 13), "bus": (38, 13), "horse_body": (2, 17), "otter_body": (50, 17)}
    categories = [
        {"id": kinds[name][0], "name": name, "keypoints": [str(k) for k in range(kinds[name][1])], "skeleton": edges}
        for name, edges in skeletons.items()
    ]
    return write(tmp_path / "mp100.json", {"images": [], "annotations": [], "categories": categories})


@pytest.mark.parametrize(
    ("skeletons", "bases", "edition"),
    [
        ({"car": [[0, 2]], "horse_body": [[1, 17]]}, {"car": 0, "horse_body": 1}, "original"),
        ({"car": [[0, 2]], "horse_body": [[0, 16]]}, {"car": 0, "horse_body": 0}, "re-annotated"),
        # cars do not speak for the others, nor others for the cars
        ({"car": [[0, 2]], "horse_body": [[1, 2]]}, {"car": 0, "horse_body": 0}, None),
        ({"car": [[1, 2]], "horse_body": [[1, 17]]}, {"car": 0, "horse_body": 1}, "original"),
        (
            {"car": [[0, 2]], "otter_body": [[1, 2]], "horse_body": [[1, 17]]},
            {"car": 0, "otter_body": 1, "horse_body": 1},
            "original",
        ),
    ],
)
def test_mp100_bases_go_by_name(
    tmp_path: Path, skeletons: dict[str, list[list[int]]], bases: dict[str, int], edition: str | None
) -> None:
    dataset = read_coco(mp100_file(tmp_path, **skeletons), "")
    assert {category.name: category.file_base for category in dataset.categories} == bases
    assert [note for note in dataset.notes if "edition" in note] == ([f"MP-100, {edition} edition"] if edition else [])


def test_one_base_for_mp100s_original_files_is_refused(tmp_path: Path) -> None:
    path = mp100_file(tmp_path, car=[[0, 2]], horse_body=[[1, 17]])
    with pytest.raises(DataError, match=r"'car'.*\(0, 2\)"):
        read_coco(path, "", edge_base=1)
    with pytest.raises(DataError, match=r"'horse_body'.*\(1, 17\)"):
        read_coco(path, "", edge_base=0)


def test_ap10k_counts_from_one(tmp_path: Path) -> None:
    names = [str(k) for k in range(17)]
    skeleton = [[1, 2], [1, 3], [2, 3], [3, 4], [4, 5], [16, 17]]
    categories = [
        {"id": id_, "name": name, "supercategory": family, "keypoints": names, "skeleton": skeleton}
        for id_, name, family in ((1, "antelope", "Bovidae"), (2, "argali sheep", "Bovidae"), (9, "fox", "Canidae"))
    ]
    path = write(tmp_path / "ap10k.json", {"images": [], "annotations": [], "categories": categories})
    for category in read_coco(path, "").categories:
        assert category.edges[0] == (0, 1)
        assert category.file_base == 1
