"""edgecape studio: mark, predict and correct in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.conf import FlagCreatePairsOff, Positional

if TYPE_CHECKING:
    from edgecape.predictor import EdgeCape


def studio(
    project: Positional[Path] = Path("edgecape-project"),
    host: str = "127.0.0.1",
    port: int = 7860,
    token: str | None = None,
    token_file: Path | None = None,
    no_browser: Annotated[bool, FlagCreatePairsOff] = False,
    model: str | None = None,
) -> int:
    """Open the studio in the browser: mark keypoints on a photo, draw the skeleton, predict on others, correct, export.

    Example: edgecape studio

    Example: edgecape studio cows --port 0 --no-browser

    Scripts can use it too: its JSON API is described at /docs. It serves this machine only, unless --host and --token
    say otherwise.

    Args:
        project: Folder of the project, made if it is not there; everything the studio writes is inside it.
        host: Address to serve at; anything but this machine's own needs a token.
        port: Port to serve at, 0 for any that is free.
        token: Word that other programs and browsers have to give; others can see it in the list of processes, so that
            --token-file or the variable EDGECAPE_TOKEN is the better way.
        token_file: File whose content is the token.
        no_browser: Only print the address.
        model: A model folder, hub id or official checkpoint; the default model if not given.
    """
    from edgecape.studio.server import find_token, serve

    def load() -> EdgeCape:
        from edgecape.predictor import EdgeCape

        return EdgeCape.from_pretrained(model)

    serve(project, load, host, port, find_token(token, token_file), browser=not no_browser)
    return 0


def main(arguments: list[str]) -> int:
    return tyro.cli(studio, prog="edgecape studio", args=arguments)
