"""Results: saving, groups, intervals and comparisons; reports as files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from edgecape.data.dataset import Category, Dataset
from edgecape.errors import DataError
from edgecape.evaluation import groups as grouping
from edgecape.evaluation.published import published_metrics
from edgecape.evaluation.results import Report, Result, difference, summarise

GROUPS = {"all": [0, 1, 2], "first": [0], "others": [1, 2], "none": [2]}


def result(seed: int = 0, better: float = 0.0) -> Result:
    """Two of three categories have pairs: 20 episodes of 2 supports and 6 queries each."""
    rng = np.random.default_rng(0)
    pairs = []
    for start in (0, 20):
        for _ in range(20):
            chosen = start + rng.permutation(20)[:8]
            pairs += [[*chosen[:2], query] for query in chosen[2:]]
    distance = np.abs(np.random.default_rng(seed).normal(0.2, 0.05, (240, 4))) * (1 - better)
    distance[:120, 3] = np.nan
    return Result("toy", ("a", "b", "c"), np.repeat([0, 1], 120), np.array(pairs), distance, np.full(240, 30.0))


def test_saved_and_loaded(tmp_path: Path) -> None:
    saved = result()
    saved.save(tmp_path / "new" / "r.npz")
    loaded = Result.load(tmp_path / "new" / "r.npz")
    assert (loaded.dataset, loaded.categories) == (saved.dataset, saved.categories)
    for name in ("category", "pairs", "distance", "scale"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(saved, name))
        assert getattr(loaded, name).dtype == getattr(saved, name).dtype
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["r.npz"]


@pytest.mark.parametrize("content", [None, b"", b"no zip file", b"PK\x03\x04 half"])
def test_a_file_that_is_no_result(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "bad.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.npz is not a saved evaluation result"):
        Result.load(path)


def test_another_npz_is_no_result(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(DataError, match="not a saved evaluation result"):
        Result.load(tmp_path / "other.npz")


def test_groups_are_means_over_their_pairs_inside_their_intervals() -> None:
    found = result()
    rows = {row.group: row for row in summarise(found, GROUPS, resamples=200)}
    assert list(rows) == ["all", "first", "others"]  # a group without pairs has no row
    assert [(row.categories, row.pairs) for row in rows.values()] == [(2, 240), (1, 120), (1, 120)]
    for name, members in GROUPS.items():
        if name in rows:
            part = found.subset(np.isin(found.category, members)).metrics()
            assert rows[name].mean == pytest.approx(part)
            assert all(rows[name].low[metric] <= part[metric] <= rows[name].high[metric] for metric in part)
    assert rows["all"].mean["PCK@0.2"] == pytest.approx(
        (rows["first"].mean["PCK@0.2"] + rows["others"].mean["PCK@0.2"]) / 2
    )


def test_thresholds_are_free() -> None:
    row = summarise(result(), {"all": [0, 1]}, thresholds=(0.17, 0.3), resamples=10)[0]
    assert {"PCK@0.17", "PCK@0.3", "mPCK@4", "mPCK@5"} <= set(row.mean)
    assert "PCK@0.05" not in row.mean


def test_paired_differences_see_what_separate_intervals_cannot() -> None:
    worse, better = result(), result(better=0.02)
    row = difference(better, worse, {"all": [0, 1]}, resamples=300)[0]
    assert row.mean["NME"] == pytest.approx(better.metrics()["NME"] - worse.metrics()["NME"])
    assert row.high["NME"] < 0
    assert row.low["mPCK@5"] > 0
    nothing = difference(worse, worse, {"all": [0, 1]}, resamples=50)[0]
    assert set(nothing.low.values()) == set(nothing.high.values()) == {0.0}
    noise = difference(result(1), result(2), {"all": [0, 1]}, resamples=300)[0]
    assert noise.low["NME"] < 0 < noise.high["NME"]


def test_results_on_other_pairs_cannot_be_compared() -> None:
    first = result()
    with pytest.raises(DataError, match="not on the same pairs"):
        difference(first, first.subset(np.arange(240) < 100), GROUPS)


# --- groups --------------------------------------------------------------------------------------------------

DATA = Dataset(
    "toy",
    (
        Category(4, "tern", 2, (), ("beak", "tail"), "bird"),
        Category(5, "bus", 2, (), ("front", "back"), "vehicle"),
        Category(6, "face", 3, (), None, "face"),
        Category(7, "face", 5, (), None, "face"),
        Category(8, "thing", 2, (), ("0", "1"), None),
    ),
    (),
)


def test_groups_of_categories() -> None:
    assert grouping.everything(DATA) == {"all": [0, 1, 2, 3, 4]}
    names = ["category tern", "category bus", "category face (6)", "category face (7)", "category thing"]
    assert grouping.each_category(DATA.labels) == {name: [index] for index, name in enumerate(names)}
    assert grouping.each_supercategory(DATA) == {
        "supercategory bird": [0], "supercategory vehicle": [1], "supercategory face": [2, 3],
    }  # fmt: skip
    assert grouping.chosen_supercategories(DATA, ["bird"]) == {"bird": [0], "rest": [1, 2, 3, 4]}
    assert grouping.chosen_supercategories(DATA, ["soft=bird,face", "vehicle"]) == {
        "soft": [0, 2, 3], "vehicle": [1], "rest": [4],
    }  # fmt: skip


def test_unknown_supercategory() -> None:
    with pytest.raises(DataError, match="'fish'; toy has bird, vehicle, face"):
        grouping.chosen_supercategories(DATA, ["fish"])


def test_known_definitions_are_those_of_a_training_category() -> None:
    train = Dataset("t", (Category(1, "gull", 2, (), ("beak", "tail")), Category(2, "other", 2, (), ("0", "1"))), ())
    # numbers as names define nothing, so that "thing" is not "other"
    assert grouping.known_definitions(DATA, train).tolist() == [True, False, False, False, False]
    assert grouping.known_and_new(DATA, train) == {"known definition": [0], "new definition": [1, 2, 3, 4]}


# --- published rows and files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "split"),
    [("mp100_split1_test", 1), ("mp100_split5_val", 5), ("mp100_split6_test", None), ("mp100_split1_train", None),
     ("my_mp100_split1_test", None), ("test", None)],
)  # fmt: skip
def test_published_rows_appear_beside_mp100_only(name: str, split: int | None) -> None:
    assert bool(published_metrics(name, 1)) == (split is not None)
    assert bool(published_metrics(name, 1)) == (split is not None)


def test_published_values() -> None:
    one, five = published_metrics("mp100_split2_test", 1), published_metrics("mp100_split2_test", 5)
    assert one["EdgeCape (DINOv2-S)"] == pytest.approx({"PCK@0.2": 0.8942, "mPCK@5": 0.7772})
    assert five["EdgeCape (DINOv2-S)"] == pytest.approx({"PCK@0.2": 0.9187, "mPCK@5": 0.8107})
    assert set(one) - set(five) == {"X-Pose"}
    assert len(one) == 10
    assert published_metrics("mp100_split2_test", 3) == {}


def test_report_files_hold_the_same_numbers(tmp_path: Path) -> None:
    rows = {"m, x": summarise(result(), {"all": [0, 1]}, resamples=50)}
    report = Report("toy", 1, "all of it", ("a note",), rows, {})
    report.write_json(tmp_path / "r.json")
    report.write_csv(tmp_path / "r.csv")
    stored = json.loads((tmp_path / "r.json").read_text())
    assert stored["notes"] == ["a note"]
    row = stored["rows"]["m, x"][0]
    with open(tmp_path / "r.csv", newline="") as file:
        (line,) = csv.DictReader(file)
    assert (line["group"], line["method"], line["pairs"]) == ("all", "m, x", "240")
    for metric, value in result().metrics().items():
        assert row["mean"][metric] == float(line[metric]) == pytest.approx(value)
        assert row["low"][metric] == float(line[f"{metric} low"])
        assert row["high"][metric] == float(line[f"{metric} high"])


# --- seeds and categories ------------------------------------------------------------------------------------


def test_results_of_several_seeds_are_averaged_pair_by_pair() -> None:
    seeds, groups = [result(1), result(2), result(3)], {"all": [0, 1]}
    (row,) = summarise(seeds, groups, resamples=200)
    assert row.mean == pytest.approx({m: np.mean([one.metrics()[m] for one in seeds]) for m in row.mean})
    (alone,) = summarise(seeds[0], groups, resamples=200)
    width = [one.high["mPCK@5"] - one.low["mPCK@5"] for one in (row, alone)]
    assert width[0] < width[1]  # chance of training is averaged out
    (gap,) = difference(seeds, [result(4), result(5)], groups, resamples=200)
    others = np.mean([result(seed).metrics()["mPCK@5"] for seed in (4, 5)])
    assert gap.mean["mPCK@5"] == pytest.approx(row.mean["mPCK@5"] - others)
    with pytest.raises(DataError, match="not on the same pairs"):
        summarise([result(1), result(2).subset(np.arange(240) < 100)], groups)


def test_other_categories_make_intervals_wider_where_categories_differ() -> None:
    good, bad = result(better=0.9), result()
    mixed = Result(**{**bad.__dict__, "distance": np.concatenate((good.distance[:120], bad.distance[120:]))})
    (photos,), (too,) = (
        difference(mixed, bad, {"all": [0, 1]}, resamples=300, over_categories=over) for over in (False, True)
    )
    assert photos.mean == too.mean
    assert photos.low["mPCK@5"] > 0.1 and too.low["mPCK@5"] == pytest.approx(0)  # one of two shows nothing
    (one,), (same,) = (summarise(bad, {"first": [0]}, over_categories=over) for over in (False, True))
    assert one == same  # of one category there is no other
