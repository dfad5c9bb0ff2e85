"""mkdocs: the notebooks as pages, with the outputs they were saved with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "docs/notebooks"


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        text = "\n\n".join(page(json.loads(path.read_text(encoding="utf-8"))))
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to a notebook lead to its page."""
    return markdown.replace(".ipynb)", ".md)")


def page(notebook: dict[str, Any]) -> Iterator[str]:
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source
            continue
        yield f"```python\n{source}\n```"
        for output in cell["outputs"]:
            data = output.get("data", {})
            shown = next((kind for kind in data if kind.startswith("image/")), None)
            if shown is not None:
                yield f"![output](data:{shown};base64,{''.join(data[shown])})".replace("\n", "")
            else:
                said = "".join(output.get("text", data.get("text/plain", "")))
                yield f"```text\n{said.rstrip()}\n```"
