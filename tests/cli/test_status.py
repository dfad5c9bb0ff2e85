from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgecape.batch.locking import held
from edgecape.cli.main import main
from edgecape.io.storage import LocalFolder

from toy import estimator, write_lamps

SUPPORT = ("--support", "photos/1000.png", "--points", "100,200 150,120")


@pytest.fixture
def out(tmp_path: Path, monkeypatch, capsys) -> Path:
    """A run of five photos, of which one is bad, in three parts."""
    made = estimator()
    monkeypatch.setattr("edgecape.predictor.EdgeCape.from_pretrained", lambda source=None: made)
    monkeypatch.chdir(tmp_path)
    write_lamps(tmp_path / "photos", 5)
    (tmp_path / "photos" / "1002.png").write_bytes(b"no picture")
    assert main(["predict", "photos", *SUPPORT, "-o", "out", "--shard-size", "2"]) == 1
    capsys.readouterr()
    return tmp_path / "out"


def test_done_bad_and_left(out, capsys):
    assert main(["status", str(out)]) == 1
    said = capsys.readouterr().out
    assert "4 done, 1 failed, 0 left in 0 parts" in said and "failed: image photos/1002.png cannot be read" in said
    (out / "parts" / "part-00000.jsonl").unlink()
    (out / "parts" / "part-00002.jsonl").write_bytes(b"half")
    with held(LocalFolder(out), (1, 2)):
        assert main(["status", str(out), "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["done"] == 1 and list(facts["failed"]) == ["photos/1002.png"]
    assert facts["left"] == 3 and facts["parts_left"] == 2
    assert "part-00002.jsonl is damaged" in facts["damaged"][0]
    assert "part of a job array, process" in facts["at_work"][0]


def test_all_done(out, tmp_path, capsys):
    (tmp_path / "photos" / "1002.png").write_bytes((tmp_path / "photos" / "1001.png").read_bytes())
    assert main(["predict", "photos", *SUPPORT, "-o", "out"]) == 0
    capsys.readouterr()
    assert main(["status", str(out)]) == 0
    assert capsys.readouterr().out == "5 done, 0 failed, 0 left in 0 parts\n"


def test_no_run(tmp_path, capsys):
    assert main(["status", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err
