from __future__ import annotations

import pytest

from edgecape.cli.main import main
from edgecape.evaluation.cost import count_costs


def test_the_reference_s_sizes():
    parts = {part.name: part for part in count_costs()}
    assert parts["backbone"].parameters / 1e6 == pytest.approx(22.06, abs=0.5)  # the position grid is resampled
    head = sum(part.parameters for name, part in parts.items() if name != "backbone")
    dead = 2 * (256 * 256 + 256) + 9  # projections that official checkpoints store and never use
    assert (head + dead) / 1e6 == pytest.approx(15.56, abs=0.01)
    assert parts["pose-graph predictor"].parameters / 1e6 == pytest.approx(8.2, abs=0.15)
    assert all(part.flops > 0 for part in parts.values())
    assert parts["backbone"].flops / 1e9 == pytest.approx(11.5, abs=1.5)


def test_the_command_prints_them(capsys):
    assert main(["benchmark", "--model"]) == 0
    out = capsys.readouterr().out
    assert "pose-graph predictor" in out and "head" in out
