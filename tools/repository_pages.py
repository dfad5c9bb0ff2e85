"""mkdocs: pages that live at the top of the repository, and links that lead out of the site."""

from __future__ import annotations

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
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Files outside docs/ are named, not linked: the site does not hold them."""
    depth = page.file.src_uri.count("/")

    def named(link: re.Match[str]) -> str:
        return f": `{link[1]}`" if link[0].count("../") > depth else link[0]

    return UP.sub(named, markdown.replace("](../README.md)", "](index.md)"))
