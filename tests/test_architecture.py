"""docs/architecture.md draws the tree; data flows downwards, and nothing imports upward."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/edgecape"


def drawn() -> dict[str, bool]:
    """Files in the order of the drawing → whether they are free of torch."""
    text = (ROOT / "docs/architecture.md").read_text()
    tree = re.search(r"```\nsrc/edgecape/\n(.*?)```", text, re.DOTALL)
    assert tree is not None
    found: dict[str, bool] = {}
    folder = ""
    for line in tree[1].splitlines():
        names = line.split(" — ")[0]
        if entry := re.fullmatch(r"  (\w+/)", names):
            folder = entry[1]
        elif not line.startswith("    "):
            folder = ""
        found |= {f"{folder}{name}": bool(free) for name, free in re.findall(r"(\w+\.py)( °)?", names)}
    return found


def imported(path: Path) -> set[str]:
    """Modules of the package that a file imports when it runs, anywhere in it."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {file for alias in node.names for file in file_of(alias.name)}
        elif isinstance(node, ast.ImportFrom) and node.module:  # a module of that name, or something in the module
            found |= {f for alias in node.names for f in file_of(f"{node.module}.{alias.name}") or file_of(node.module)}
    return found


def file_of(module: str) -> set[str]:
    place = SOURCE.joinpath(*module.split(".")[1:])
    files = (place.with_suffix(".py"), place / "__init__.py") if module.split(".")[0] == "edgecape" else ()
    return {str(file.relative_to(SOURCE)) for file in files if file.is_file()}


ORDER = list(drawn())
LISTED = ("formats/__init__.py", "examples/__init__.py")  # the only ones that hold something


def test_the_drawing_is_complete():
    there = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")}
    there -= {name for name in there if name.endswith("__init__.py") and name not in LISTED}
    assert set(ORDER) == there


@pytest.mark.parametrize("name", ORDER)
def test_nothing_imports_upward(name: str):
    empty = {found for found in imported(SOURCE / name) if found.endswith("__init__.py") and found not in LISTED}
    assert imported(SOURCE / name) - empty - {name} <= set(ORDER[: ORDER.index(name)])


def test_the_paper_s_room_is_free_of_ours():
    for path in (SOURCE / "model").glob("*.py"):
        assert not any(name.startswith(("matching/", "runtime/", "weights/")) for name in imported(path)), path.name


def test_files_marked_as_free_of_torch_are():
    names = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name, free in drawn().items() if free
    ]
    assert len(names) > 40
    block = "import importlib, sys; sys.modules['torch'] = None; [importlib.import_module(n) for n in sys.argv[1:]]"
    free = [f"edgecape.{name}" for name in names]
    done = subprocess.run([sys.executable, "-c", block, "edgecape", *free], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
