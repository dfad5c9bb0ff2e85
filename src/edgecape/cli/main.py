"""`edgecape COMMAND …`: finds the command's module and runs it; nothing heavy is imported before that.

The one place where an error becomes a sentence and an exit code.
"""

from __future__ import annotations

import difflib
import importlib
import sys
import traceback

from edgecape import __version__
from edgecape.cli.streams import abandon, print_anything
from edgecape.errors import EdgeCapeError, SettingsError

COMMANDS = {
    "demo": "see it work on bundled pictures, or on photos of yours",
    "predict": "find keypoints on photos, from one or a few marked ones",
    "status": "see what a run has done, what failed and what is left",
    "studio": "mark, predict and correct in the browser",
    "train": "train a model on your own data, in three phases",
    "evaluate": "measure a model beside its baselines with the MP-100 protocol",
    "experiment": "the paper's tables and figures, and a report of them",
    "benchmark": "count parameters and operations, and measure speed",
    "export": "write a model as ONNX graphs, to be used without torch",
    "convert": "turn an official EdgeCape or GraphCape checkpoint into a model folder",
    "data": "check, assemble and split data sets",
    "completion": "make the shell complete commands and options",
}
BAD_INPUT, UNEXPECTED, INTERRUPTED, BROKEN_PIPE = 2, 3, 130, 141  # the last two as shells have them: 128 + signal


def usage() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())
    return f"""usage: edgecape COMMAND [options]

Mark keypoints and a skeleton on one photo of any object; get them on every other photo of its kind.

commands:
{commands}

edgecape help COMMAND (or COMMAND --help) says more, with an example; edgecape --version prints the version.
--debug, anywhere, shows where an error came from.

exit codes: 0 done, 1 done but for some, 2 bad input, 3 an error nobody expected, 130 stopped by Ctrl-C."""


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    print_anything()
    try:
        try:
            return run([word for word in given if word != "--debug"])
        finally:
            sys.stdout.flush()  # what cannot be written is known now, not when Python ends
    except BrokenPipeError:  # whoever read the output has seen enough
        abandon(sys.stdout)
        return BROKEN_PIPE
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if "--debug" in given:
            traceback.print_exc()
        if isinstance(error, OSError):
            abandon(sys.stdout)  # it may be what has no room
        sentence, code = explain(error)
        print(f"error: {sentence}", file=sys.stderr)
        return code


def run(arguments: list[str]) -> int:
    if "--version" in arguments or arguments[:1] == ["-V"]:
        print(f"edgecape {__version__}")
        return 0
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0
    command, rest = arguments[0], arguments[1:]
    if command not in COMMANDS:
        close = difflib.get_close_matches(command, COMMANDS, n=1)
        hint = f"did you mean '{close[0]}'?" if close else "edgecape --help lists the commands"
        raise SettingsError(f"there is no command '{command}'; {hint}")
    return int(importlib.import_module(f"edgecape.cli.{command}").main(rest))


def explain(error: Exception) -> tuple[str, int]:
    """One sentence, and the exit code."""
    if isinstance(error, EdgeCapeError):
        return str(error), BAD_INPUT
    if isinstance(error, OSError) and error.strerror:  # no permission, no room, …
        return error.strerror + (f": {error.filename}" if error.filename else ""), BAD_INPUT
    text = " ".join(str(error).split())
    shown = text if len(text) <= 300 else f"{text[:300]} …"
    what = f"something happened that edgecape did not expect ({type(error).__name__}: {shown})"
    return f"{what}; please report it as an issue, with what the same command prints with --debug", UNEXPECTED


if __name__ == "__main__":
    sys.exit(main())
