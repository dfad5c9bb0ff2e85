"""Many clients at once over real connections: the benchmark's clients, on a small scale."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from service import client, serving

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "studio_load.py"


@pytest.fixture
def load(monkeypatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("studio_load", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "studio_load", module)
    spec.loader.exec_module(module)
    return module


def test_clients_are_served_without_errors(load, tmp_path):
    app = client(tmp_path / "project").app
    with serving(app) as address:
        report = load.drive(address, clients=8, seconds=600, rounds=1)
    assert report.errors == [] and report.asked == len(report.served)
    assert sorted(report.served) == [n for n in range(8) for _ in range(sum(load.AT_ONCE))]
    assert app.state.studio.engine.waiting == app.state.studio.engine.running == 0


def test_spread_is_that_of_clients_with_something_to_do(load):
    assert load.Report([0, 1, 0, 1, 0, 1]).spread() == 1
    assert load.Report([0, 0, 0, 1, 1, 1, 1]).spread() == 2
