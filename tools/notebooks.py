"""Runs the notebooks from top to bottom and saves them with what they print and show, pictures made small.

python tools/notebooks.py
"""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import nbclient
import nbformat
from PIL import Image

FOLDER = Path(__file__).parents[1] / "docs/notebooks"
WIDEST = 1000  # pixels of a picture
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def small(encoded: str) -> str:
    """A JPEG, as wide as a page."""
    picture = Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGB")
    picture.thumbnail((WIDEST, 10 * WIDEST))
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=86)
    return base64.b64encode(content.getvalue()).decode()


def kept(output: Any) -> bool:
    """All but warnings of libraries."""
    return output.get("name") != "stderr"


def main() -> None:
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        nbclient.NotebookClient(
            notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": FOLDER}}
        ).execute()
        notebook.metadata = KERNEL
        for number, cell in enumerate(notebook.cells):
            cell.id, cell.metadata = f"cell-{number}", {}
            if cell.cell_type == "code":
                cell.outputs = [output for output in cell.outputs if kept(output)]
                for output in cell.outputs:
                    if "image/png" in output.get("data", {}):
                        output.data["image/jpeg"] = small(output.data.pop("image/png"))
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
