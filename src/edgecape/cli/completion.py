"""edgecape completion: a script that makes the shell complete commands, options and files."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, Union

import tyro
from tyro.conf import Positional, arg, subcommand

from edgecape.cli.main import COMMANDS


def completion(shell: Positional[Literal["bash", "zsh", "fish"]]) -> int:
    """Print a script that makes a shell complete commands and options of edgecape.

    Example: edgecape completion bash > ~/.local/share/bash-completion/completions/edgecape

    Example: edgecape completion zsh > ~/.zfunc/_edgecape

    Example: edgecape completion fish > ~/.config/fish/completions/edgecape.fish

    zsh needs the folder in its fpath before compinit is called.

    Args:
        shell: The shell that is to read the script.
    """
    with suppress(SystemExit):  # how tyro ends when it has printed the script
        tyro.cli(
            group({name: function_of(name) for name in COMMANDS}),
            prog="edgecape",
            args=["--tyro-write-completion", shell, "-"],
            config=(tyro.conf.AvoidSubcommands,),  # an option whose default may be nothing is no command
        )
    if shell == "bash":
        print("complete -o bashdefault -o default -F _tyro_edgecape edgecape  # where nothing else fits, files")
    return 0


def group(commands: Mapping[str, Callable[..., int]]) -> Any:
    """The type of which tyro makes these sub-commands."""
    kinds = tuple(Annotated[Any, subcommand(name, constructor=made)] for name, made in commands.items())
    return Union[kinds]  # noqa: UP007 - of as many as there are


def function_of(command: str) -> Callable[..., int]:
    """What runs a command, with all that it can be told."""
    module = importlib.import_module(f"edgecape.cli.{command}")
    if not hasattr(module, "SUBCOMMANDS"):
        return getattr(module, command)

    def run(chosen: Any) -> int:
        return chosen

    run.__annotations__["chosen"] = Annotated[group(module.SUBCOMMANDS), arg(name="")]
    return run


def main(arguments: list[str]) -> int:
    return tyro.cli(completion, prog="edgecape completion", args=arguments)
