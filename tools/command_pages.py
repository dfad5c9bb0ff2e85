"""mkdocs: the command reference from the commands' own help, and the pages that live at the top of the repository."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COPIED = {"contributing.md": "CONTRIBUTING.md", "changes.md": "CHANGELOG.md"}
UP = re.compile(r"\]\((?:\.\./)+((?!docs/)[^)]+)\)")  # links to files of the repository that are no documents


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for name, source in COPIED.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, "reference/commands.md", content=commands()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Files outside docs/ are named, not linked: the site does not hold them."""
    return UP.sub(lambda link: f": `{link[1]}`", markdown.replace("](../README.md)", "](index.md)"))


def commands() -> str:
    """One section for each command, with what `--help` prints."""
    from edgecape.cli.main import COMMANDS, usage

    parts = ["# Commands\n", "What each command prints with `--help`.\n", f"```text\n{usage()}\n```\n"]
    for name, what in COMMANDS.items():
        parts.append(f"## edgecape {name}\n\n{what[0].upper()}{what[1:]}.\n")
        below = getattr(importlib.import_module(f"edgecape.cli.{name}"), "SUBCOMMANDS", {"": None})
        parts += [f"```text\n{help_of(name, part)}\n```\n" for part in below]
    return "\n".join(parts)


def help_of(command: str, part: str) -> str:
    from edgecape.cli.main import main

    said = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            main([command, *([part] if part else []), "--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return re.sub(r"\x1b\[[0-9;]*m", "", said.getvalue()).strip()
