"""What is printed, on any terminal: a sign that its encoding lacks is written with those it has."""

from __future__ import annotations

import codecs
import os
import sys
import unicodedata
from contextlib import suppress
from typing import TextIO

SIGNS = {
    "…": "...", "×": "x", "→": "->", "←": "<-", "–": "-", "—": "-", "−": "-", "±": "+-", "·": ".", "≥": ">=", "≤": "<=",
    "≈": "~", "≠": "!=", "•": "*", "’": "'", "‘": "'", "“": '"', "”": '"',
}  # fmt: skip


def plain(sign: str) -> str:
    """A sign in ASCII, as readable as may be."""
    if "─" <= sign <= "╿":  # lines and corners of tables and frames
        return "-" if sign in "─━╌╍═╴╶╸╺" else "|" if sign in "│┃║╎╏╵╷╹╻" else "+"
    letters = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()  # é is an e with a stroke
    return SIGNS.get(sign) or letters or sign.encode("ascii", "backslashreplace").decode()


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(plain, error.object[error.start : error.end])), error.end


def print_anything() -> None:
    """Make standard output and errors take every text."""
    codecs.register_error("edgecape.plain", _replace)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="edgecape.plain")


def abandon(stream: TextIO) -> None:
    """Forget what a stream could not write: Python would try, and complain, once more when it ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
