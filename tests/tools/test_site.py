"""Pages of the site that are made: the command reference from help texts, equations, notebooks."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path

import pytest

from edgecape.cli.main import COMMANDS

TOOLS = Path(__file__).parents[2] / "tools"
HELP = """usage: edgecape cook [-h] DISH

Cook it.

Example: edgecape cook soup

More on it.

 positional arguments
 --------------------
  DISH                 What to cook. (required)

 options
 -------
  -h, --help           show this help message and exit
  --salt {None}|FLOAT  How much, in
                       grams. (default: 2.5)
  --settings.stove {gas,wood}
                       (default: gas)
"""


def test_a_help_text_becomes_a_page():
    pages = runpy.run_path(str(TOOLS / "command_pages.py"))
    found = pages["read_help"](HELP)
    assert found.examples == ["edgecape cook soup"] and found.about == "Cook it.\n\nMore on it."
    text = "\n".join(pages["described"](found))
    assert "| `DISH` | What to cook. *required* |" in text
    assert "--help" not in text


def test_options_are_told_as_people_write_them():
    pages = runpy.run_path(str(TOOLS / "command_pages.py"))
    group = pages["read_group"]("options", HELP.splitlines()[-5:-2])
    salt = group.options[-1]
    assert pages["spelling"](salt) == "`--salt FLOAT`"
    assert pages["meaning"](salt) == "How much, in grams. *default:* `2.5`"


def test_every_command_and_option_of_it_is_in_the_reference():
    pages = runpy.run_path(str(TOOLS / "command_pages.py"))
    text = pages["commands"]()
    assert all(f"\n## edgecape {name}\n" in text for name in COMMANDS)
    for option in (
        "--support-category",
        "--no-browser",
        "--settings.episodes.shots",
        "--hold-out",
        "--train-annotations",
    ):
        assert f"`{option}" in text, option
    assert "show this help" not in text and "{None}" not in text


def test_equations_become_mathml():
    if importlib.util.find_spec("latex2mathml") is None:
        pytest.skip("latex2mathml is not installed")
    page = runpy.run_path(str(TOOLS / "equations.py"))["on_page_markdown"]
    made = page("It costs $5 and $6.\n\n$$\nA = \\tilde B\n$$\n\nwith $`x_i`$ in `$HOME`.")
    assert made.count("<math") == 2 and 'display="block"' in made
    assert "$5 and $6" in made and "`$HOME`" in made and "$$" not in made


def test_a_notebook_becomes_a_page():
    page = runpy.run_path(str(TOOLS / "notebook_pages.py"))["page"]
    outputs = [{"text": ["3\n"]}, {"data": {"image/jpeg": "AB\nC=", "text/plain": "<Image>"}}]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": "print(3)", "outputs": outputs},
    ]
    assert list(page({"cells": cells})) == [
        "# Title\ntext",
        "```python\nprint(3)\n```",
        "```text\n3\n```",
        "![output](data:image/jpeg;base64,ABC=)",
    ]
