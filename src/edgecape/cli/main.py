"""`edgecape COMMAND …`: finds the command's module and runs it; nothing heavy is imported before that."""

from __future__ import annotations

import difflib
import importlib
import sys

from edgecape import __version__
from edgecape.errors import EdgeCapeError

COMMANDS = {
    "demo": "see it work on bundled pictures, or on two of yours",
    "predict": "find keypoints on photos, from one or a few marked ones",
    "status": "see what a run has done, what failed and what is left",
    "studio": "mark, predict and correct in the browser",
    "train": "train a model on your own data, in three phases",
    "evaluate": "measure a model beside its baselines with the MP-100 protocol",
    "experiment": "wrong skeletons, and one result against another, with intervals",
    "benchmark": "count parameters and operations, and measure speed",
    "convert": "turn an official EdgeCape or GraphCape checkpoint into a model folder",
    "data": "check, assemble and split data sets",
}
BAD_INPUT, INTERRUPTED = 2, 130


def usage() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())
    return f"""usage: edgecape COMMAND [options]

Mark keypoints and a skeleton on one photo of any object; get them on every other photo of its kind.

commands:
{commands}

edgecape COMMAND --help says more, with an example; edgecape --version prints the version."""


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if arguments[0] in ("--version", "-V"):
        print(f"edgecape {__version__}")
        return 0
    command, rest = arguments[0], arguments[1:]
    if command not in COMMANDS:
        close = difflib.get_close_matches(command, COMMANDS, n=1)
        hint = f"did you mean '{close[0]}'?" if close else "edgecape --help lists the commands"
        print(f"error: there is no command '{command}'; {hint}", file=sys.stderr)
        return BAD_INPUT
    try:
        return int(importlib.import_module(f"edgecape.cli.{command}").main(rest))
    except EdgeCapeError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
