"""What tables say of differences: for other photos, other categories, other trainings."""

from __future__ import annotations

import numpy as np
import pytest

from edgecape.evaluation.results import Result
from edgecape.experiments import tables
from edgecape.experiments.section import Table, Value

PAIRS = np.stack([np.repeat(np.arange(20), 5), np.tile(np.arange(100, 105), 20)], axis=1)


def trained(right: float) -> Result:
    """Of 1000 keypoints, this share is found exactly, the others nowhere near; the same ones whatever the share."""
    distance = np.where((np.arange(1000) * 7919 % 1000).reshape(100, 10) < round(1000 * right), 0.0, 9.0)
    return Result("toy", ("a", "b"), np.arange(100) % 2, PAIRS, distance, np.ones(100))


def test_a_difference_is_compared_with_what_trainings_differ_by() -> None:
    """Seeds differ by 1, 2 and 3 points: mean 2, deviation 1, 4.30 standard errors to either side."""
    first, second = [trained(x) for x in (0.51, 0.62, 0.43)], [trained(x) for x in (0.50, 0.60, 0.40)]
    found = tables.over_trainings(first, second)
    assert isinstance(found, Value)
    assert (found.mean, found.low, found.high) == pytest.approx((2, 2 - 4.30 / 3**0.5, 2 + 4.30 / 3**0.5))
    assert not found.is_clear
    gap = tables.gap(first, second)
    assert (gap.mean, gap.spread) == pytest.approx((2, 1)) and gap.is_clear


@pytest.mark.parametrize(("ours", "theirs"), [(1, 1), (2, 1), (1, 3)])
def test_trainings_that_do_not_pair_say_nothing_of_others(ours: int, theirs: int) -> None:
    first, second = [trained(0.5)] * ours, [trained(0.4)] * theirs
    assert tables.over_trainings(first, second) == "not known"
    assert tables.gap(first, second).spread is None


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        ((0.53, 0.6301, 0.7302), "holds for other photos and other categories and other trainings."),
        ((0.51, 0.65, 0.70), "holds for other photos and other categories; other trainings may differ."),
        ((0.5, 0.6, 0.7), "not told apart."),
    ],
)
def test_a_finding_names_what_it_holds_for(ours: tuple[float, ...], said: str) -> None:
    results = {"ours": [trained(x) for x in ours], "theirs": [trained(x) for x in (0.5, 0.6, 0.7)]}
    table = tables.difference_table("t", results, [("ours", "theirs")])
    (line,) = tables.finding(table)
    assert line.startswith("ours − theirs: ") and line.endswith(said)


def test_one_training_says_nothing_of_others() -> None:
    results = {"ours": [trained(0.6)], "theirs": [trained(0.5)]}
    table = tables.difference_table("t", results, [("ours", "theirs")], {("ours", "theirs"): "+1"})
    assert table.columns[-2:] == ("other trainings", "published")
    assert table.rows[0][-2:] == ("not known", "+1")
    assert tables.finding(table)[0].endswith("holds for other photos and other categories.")


def test_findings_read_any_table_of_differences() -> None:
    clear, unclear = Value(1, 0.5, 1.5, difference=True), Value(1, -0.5, 2.5, difference=True)
    rows = (("a − b", clear, unclear, unclear, "published"),)
    (line,) = tables.finding(Table("t", (), rows))
    assert line == "a − b: +1.0 (+0.5 … +1.5): holds for other photos; other categories and other trainings may differ."
