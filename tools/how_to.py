"""Runs what the how-to pages show, and writes what was printed into them.

    python tools/how_to.py docs/how-to/*.md

A page is run from top to bottom in an empty folder that holds nothing but `examples/`:

- a block with a title is a file, and is written;
- a `python` block is run, all of a page in one namespace; a `text` block after it is what it prints;
- a `console` block holds commands after `$`, each followed by what it prints;
- a block after `<!-- not run -->` is left as it is: it needs minutes, other data, or other machines.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from edgecape import EdgeCape

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(
    r"^(?P<skip><!-- not run -->\n)?```(?P<kind>\w+)(?P<options>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S
)
TITLE = re.compile(r'title="([^"]+)"')
PROGRESS = re.compile(r"\d+ of \d+, [\d.]+ per second, ")


def run(page: str) -> str:
    """The text of a page with what its commands print in the current folder."""
    names: dict[str, Any] = {}
    printed = ""

    def block(found: re.Match[str]) -> str:
        nonlocal printed
        kind, text = found["kind"], found["text"]
        title = TITLE.search(found["options"])
        if found["skip"]:
            return found[0]
        if title:
            Path(title[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(title[1]).write_text(text, encoding="utf-8")
        elif kind == "python":
            printed = said(lambda: exec(compile(text, "page", "exec"), names))
        elif kind == "text":
            text, printed = printed, ""
        elif kind == "console":
            text = "".join(f"$ {command}\n{output_of(command)}" for command in commands(text))
        return f"```{kind}{found['options']}\n{text}```"

    return BLOCK.sub(block, page)


def commands(text: str) -> Iterator[str]:
    """Those of a console block; one that ends with a backslash goes on."""
    for found in re.finditer(r"^\$ ((?:.*\\\n)*.*)$", text, re.M):
        yield found[1]


def output_of(command: str) -> str:
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    if words[0] == "edgecape":
        from edgecape.cli.main import main as edgecape

        codes: list[int] = []
        printed = said(lambda: codes.append(edgecape(words[1:])))
        if codes != [0]:
            raise RuntimeError(f"{command} ended with {codes}: {printed}")
        return printed
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


def said(call: Callable[[], object]) -> str:
    """What a call prints, but for progress, of which a faster machine prints less."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        call()
    return "".join(f"{line.rstrip()}\n" for line in output.getvalue().splitlines() if not PROGRESS.match(line))


@contextlib.contextmanager
def room() -> Iterator[Path]:
    """An empty folder with the examples, as the current one."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "examples").symlink_to(ROOT / "examples")
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    os.environ["COLUMNS"] = "100"
    EdgeCape.from_pretrained = functools.cache(EdgeCape.from_pretrained)  # type: ignore[method-assign]
    for path in parser.parse_args().pages:
        page = path.read_text(encoding="utf-8")
        with room():
            made = run(page)
        path.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
