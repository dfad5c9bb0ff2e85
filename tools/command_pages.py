"""mkdocs: the command reference, read off what the commands themselves print with --help."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

WIDTH = "100"  # columns at which help is one column of text
INNER = "--settings."
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
DEFAULT = re.compile(r"\s*\((?:default: (?P<value>[^()]*(?:\([^()]*\)[^()]*)*)|(?P<word>required|repeatable))\)$")


@dataclass
class Option:
    spelled: str
    told: str = ""


@dataclass
class Group:
    """Options under one heading."""

    title: str
    about: str = ""
    options: list[Option] = field(default_factory=list)

    @property
    def inner(self) -> bool:
        """Settings of settings, of which there are many."""
        return any(option.spelled.startswith(INNER) for option in self.options)


@dataclass
class Help:
    """What a command says of itself."""

    usage: str
    about: str
    examples: list[str]
    groups: list[Group]


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    files.append(File.generated(config, "reference/commands.md", content=commands()))
    return files


def commands() -> str:
    """One section for each command."""
    from edgecape.cli.main import COMMANDS

    parts = [
        "# Commands\n",
        "`edgecape COMMAND --help` prints the same. What all commands share, as `--debug` and exit codes: "
        "[output and exit codes](../command-line.md).\n",
        "| command | what it does |\n|---|---|",
        *(f"| [{name}](#edgecape-{name}) | {what} |" for name, what in COMMANDS.items()),
        "",
    ]
    for name in COMMANDS:
        parts += [f"## edgecape {name}\n", *section(name)]
    return "\n".join(parts)


def section(command: str) -> Iterator[str]:
    below = getattr(importlib.import_module(f"edgecape.cli.{command}"), "SUBCOMMANDS", None)
    if below is None:
        yield from described(read_help(help_of(command)))
        return
    found = {name: read_help(help_of(command, name)) for name in below}
    alike: dict[str, list[str]] = {}  # many experiments take the same options
    for name, one in found.items():
        alike.setdefault("\n".join(tables(one)), []).append(name)
    for names in alike.values():
        if len(names) == 1:
            yield f"### edgecape {command} {names[0]}\n"
            yield from described(found[names[0]])
        else:
            yield f"### edgecape {command} NAME\n\n| name | what it does |\n|---|---|"
            yield from (f"| `{name}` | {found[name].about.splitlines()[0]} |" for name in names)
            yield ""
            yield from tables(found[names[0]])


def described(help: Help) -> Iterator[str]:
    first, _, rest = help.about.partition("\n\n")
    yield f"{first}\n"
    if help.examples:
        yield "```\n" + "\n".join(help.examples) + "\n```\n"
    yield f"{rest}\n"
    yield from tables(help)


def tables(help: Help) -> Iterator[str]:
    """One for all options; settings of settings are folded away."""
    yield table([option for group in help.groups if not group.inner for option in group.options])
    inner = [group for group in help.groups if group.inner]
    if inner:
        yield '??? note "All settings that can be changed"\n'
    for group in inner:
        told = f"{group.about}\n\n{table(group.options)}"
        yield "\n".join(f"    {line}" for line in told.splitlines()) + "\n"


def table(options: list[Option]) -> str:
    rows = [f"| {spelling(option)} | {meaning(option)} |" for option in options if "--help" not in option.spelled]
    return "\n".join(["| option | what it does |", "|---|---|", *rows, ""]) if rows else ""


def spelling(option: Option) -> str:
    """Options as they are typed; what may be left out or repeated is told by what they do."""
    plain = option.spelled.replace("{None}|", "").replace("{None,", "{")
    plain = re.sub(r"\[(\S+) \[\1 \.\.\.\]\]", r"\1 …", plain)
    return ", ".join(f"`{part}`" for part in plain.strip("[]").split(", ")).replace("|", "&#124;")


def meaning(option: Option) -> str:
    told, found = option.told, DEFAULT.search(option.told)
    if found:
        told = told[: found.start()]
        value = found["value"] or ""
        if found["word"]:
            told += f" *{found['word']}*"
        elif value not in ("", "None", "False"):
            told += f" *default:* `{value}`"
    return told.replace("|", "&#124;").replace("<", "&lt;").strip()


def read_help(text: str) -> Help:
    """Parts of a help text: usage, paragraphs, then headings underlined with ---, options indented by two."""
    lines = text.splitlines()
    starts = [n for n in range(len(lines) - 1) if lines[n].startswith(" ") and set(lines[n + 1].strip()) == {"-"}]
    before = "\n".join(lines[: starts[0] if starts else len(lines)])
    usage, _, told = before.partition("\n\n")
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n|\n(?=\s*Example: )", told) if part.strip()]
    examples = [part.removeprefix("Example: ") for part in paragraphs if part.startswith("Example: ")]
    about = "\n\n".join(part for part in paragraphs if not part.startswith("Example: "))
    groups = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        groups.append(read_group(lines[start].strip(), lines[start + 2 : end]))
    return Help(usage, about, examples, groups)


def read_group(title: str, lines: list[str]) -> Group:
    group = Group(title)
    positional = title.startswith("positional")
    for line in lines:
        text = line.strip()
        if not text or set(text) == {"-"}:
            continue
        indent = len(line) - len(line.lstrip())
        if indent == 2 and (positional or text.startswith("-")):
            spelled, _, told = re.sub(r" {2,}", "\0", text, count=1).partition("\0")
            group.options.append(Option(spelled, told))
        elif group.options and indent > 2:
            last = group.options[-1]
            last.told = f"{last.told} {text}".strip()
        else:
            group.about = f"{group.about} {text}".strip()
    return group


def help_of(command: str, part: str = "") -> str:
    from edgecape.cli.main import main

    said = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            main([command, *([part] if part else []), "--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return ESCAPES.sub("", said.getvalue()).strip()
