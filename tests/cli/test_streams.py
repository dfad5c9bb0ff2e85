"""Output on terminals that know few signs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecape.cli.main import COMMANDS
from edgecape.cli.streams import plain

import toy

LOCALES = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "C locale": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
}


def run(locale: str, *arguments: str, code: str | None = None) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}
    command = ["-m", "edgecape.cli.main", *arguments] if code is None else ["-c", code]
    return subprocess.run(
        [sys.executable, *command], capture_output=True, timeout=300, env=environment | LOCALES[locale]
    )


def printed(locale: str, done: subprocess.CompletedProcess[bytes]) -> str:
    encoding = "latin-1" if locale == "latin-1" else "ascii"
    assert b"Error" not in done.stderr and b"Traceback" not in done.stderr
    return done.stdout.decode(encoding) + done.stderr.decode(encoding)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_text(command: str):
    done = run("ascii", command, "--help")
    assert done.returncode == 0 and "usage: edgecape" in printed("ascii", done)


@pytest.mark.parametrize("locale", LOCALES)
def test_a_table_and_what_stands_below_it(tmp_path: Path, locale: str):
    toy.write_lamps(tmp_path, 2)
    (tmp_path / "1000.png").unlink()
    done = run(locale, "data", "check", str(tmp_path))
    assert done.returncode == 1 and "missing for example 1000.png" in printed(locale, done)


@pytest.mark.parametrize("locale", LOCALES)
def test_plain_prints_and_errors(locale: str):
    """A prediction that says "loading the model …"; names that no terminal of the kind can show."""
    code = (
        "import sys; from edgecape.cli import convert, main\n"
        "from edgecape.errors import EdgeCapeError\n"
        "def talk(arguments):\n"
        "    print('loading \\u2026 2 \\u00d7 3 \\u2192 \\u00c3')\n"
        "    raise EdgeCapeError('\\u5199\\u771f\\udcff.jpg \\u2026')\n"
        "convert.main = talk; sys.exit(main.main(['convert']))"
    )
    done = run(locale, code=code)
    said = printed(locale, done)
    assert done.returncode == 2
    assert "error: \\u5199\\u771f\\udcff.jpg ..." in said
    assert "loading ... 2 × 3 -> Ã" in said if locale == "latin-1" else "loading ... 2 x 3 -> A\n" in said


@given(st.characters())
def test_every_sign_has_an_ascii_form(sign: str):
    assert plain(sign).isascii() and plain(sign)


def test_lines_and_corners():
    assert [plain(sign) for sign in "─│╭┼…é×"] == ["-", "|", "+", "+", "...", "e", "x"]
