"""Sections as they are saved, and the page that shows them: whole, on its own, and nothing in it but text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from edgecape.errors import DataError
from edgecape.experiments import figures
from edgecape.experiments.options import Options, command
from edgecape.experiments.report import page
from edgecape.experiments.section import Section, Table, Value

DONE = {"data": "val", "regime": "told: as it is", "command": "edgecape experiment x <data>"}


def section(**changes: object) -> Section:
    clear, unclear = Value(1.23, 0.2, 2.4, difference=True), Value(-0.1, -1.0, 0.9, 0.25, difference=True)
    table = Table("A table", ("arm", "a", "b"), (("first", clear, "x & y"), ("second", unclear, "")), "a note")
    lines = {"fixed": [Value(70.0, 69, 71), Value(69.0, 68, 70)]}
    drawn = figures.curves("falls", "as <expected>", (0, 8), lines, ("edges", "mPCK"), {"none": 68.5}, even=True)
    photo = figures.picture("photo", "a tile", np.zeros((20, 30, 3), dtype=np.uint8), {"pair": [1, 2]})
    usual = {
        "done": DONE,
        "tables": (table,),
        "figures": (drawn, photo),
        "findings": ("it falls",),
        "notes": ("noted",),
    }
    return Section("noisy-prior", "What falls?", "it falls", **usual | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Value(71.234), "71.2"),
        (Value(71.2, 69.5, 73.04), "71.2 (69.5 … 73.0)"),
        (Value(71.2, 69.5, 73.0, 0.31), "71.2 ± 0.3 (69.5 … 73.0)"),
        (Value(-0.5, -0.9, 0.1, difference=True), "−0.5 (−0.9 … +0.1)"),
        (Value(0.0931, digits=3), "0.093"),
        (Value(float("nan")), "–"),
        (Value(-0.01, -0.04, 0.02, difference=True), "0.0 (0.0 … 0.0)"),
    ],
)
def test_a_number_carries_its_interval(value: Value, text: str) -> None:
    assert str(value) == text


def test_only_a_difference_can_be_clear() -> None:
    assert Value(1, 0.1, 2, difference=True).is_clear and Value(-1, -2, -0.1, difference=True).is_clear
    assert not Value(1, -0.1, 2, difference=True).is_clear and not Value(50, 40, 60).is_clear


def test_a_saved_section_is_the_same_again() -> None:
    one = section()
    again = Section.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again == one and page([again], "t") == page([one], "t")
    with pytest.raises(DataError, match="no saved section"):
        Section.from_dict({"tables": [{}]})
    with pytest.raises(DataError, match="no saved section"):
        Section.from_dict({**one.to_dict(), "more": 1})


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attributes if name in ("src", "href", "xlink:href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attributes if name in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        self.text.append(text)


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    reader = Reader()
    content = page([section(), section(done={**DONE, "regime": "published: trained"})], "A <title>", ["left out: a"])
    reader.feed(content)
    assert not reader.open  # every element is closed
    assert all(link.startswith(("#", "data:image/jpeg;base64,")) for link in reader.links), reader.links
    assert "<script" not in content and "@import" not in content and "url(http" not in content
    text = " ".join(reader.text)
    for wanted in (
        "A <title>",
        "x & y",
        "as <expected>",
        "+1.2",
        "0.2 … +2.4",
        "it falls",
        "experiment x <data>",
        "left out: a",
    ):
        assert wanted in text, wanted
    assert re.search(r'class="clear">\+1\.2<', content) and not re.search(r'class="clear">−0\.1', content)
    names = re.findall(r'<section id="([^"]+)"', content)
    assert len(set(names)) == 2 and all(f'href="#{name}"' in content for name in names)
    assert "(told)" in text and "(published)" in text
    assert "prefers-color-scheme: dark" in content and "@media print" in content


def test_a_figure_shows_its_numbers_in_the_colours_of_the_page() -> None:
    drawn = section().figures[0]
    assert drawn.data == {"x": [0, 8], "lines": {"fixed": [70.0, 69.0]}, "levels": {"none": 68.5}}
    assert "currentColor" in drawn.svg and figures.INK not in drawn.svg and figures.GRID not in drawn.svg
    assert drawn.svg.startswith("<svg role") and 'height="' not in drawn.svg[: drawn.svg.index(">")]
    for label in ("edges", "mPCK", "fixed", "none"):
        assert f">{label}</text>" in drawn.svg
    same = section().figures[0]
    assert drawn.svg == same.svg  # to the byte: a report that is made again is the same


def test_marks_of_two_figures_do_not_mix() -> None:
    """Names inside a drawing are unique in the whole page."""
    value = {"a": Value(1, 0, 2)}
    one, other = (figures.dots(title, "", {"x": value}, "y").svg for title in ("first", "second"))
    names = [set(re.findall(r'<clipPath id="([^"]+)"', svg)) for svg in (one, other)]
    assert names[0] and not names[0] & names[1]


def test_dots_show_what_they_are_given() -> None:
    groups = {"1-shot": {"none": Value(60, 58, 62), "fixed": Value(61, 59, 63)}, "5-shot": {"fixed": Value(70, 69, 71)}}
    drawn = figures.dots("b", "", groups, "mPCK")
    assert drawn.data == {"1-shot": {"none": 60, "fixed": 61}, "5-shot": {"fixed": 70}}
    assert all(f">{label}</text>" in drawn.svg for label in ("1-shot", "5-shot", "none", "fixed", "mPCK"))


def test_a_command_names_models_without_the_folders_of_this_machine() -> None:
    given = ("predicted + bias=/home/me/runs/both-0/model", "none=none-0/model")
    said = command("benchmark", Options((Path("/home/me/mpmini"),), regime="ours", models=given))
    assert said == (
        "edgecape experiment benchmark mpmini --regime ours --models 'predicted + bias=both-0/model' "
        "--models none=none-0/model"
    )
