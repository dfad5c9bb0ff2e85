"""A Ray cluster of two nodes on this machine, photos and results in a real S3 store: the bytes of a plain run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgecape.batch.cluster import Actor, Job, _cause, pack, unpack
from edgecape.batch.manifest import Listed, Shard
from edgecape.cli.main import main
from edgecape.errors import DataError
from edgecape.io.storage import RemoteFolder

from toy import saved_model, write_lamps

PHOTOS, PARTS = 24, 12


@pytest.fixture(scope="module")
def world(s3: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command, without output and engine."""
    root = tmp_path_factory.mktemp("cluster")
    model = saved_model(root)
    write_lamps(root / "photos", PHOTOS)
    photos = RemoteFolder("s3://photos/lamps")
    for picture in (root / "photos").glob("*.png"):
        with photos.writing(picture.name) as path:
            path.write_bytes(picture.read_bytes())
    support = ["--support", str(root / "photos" / "1000.png"), "--points", "100,200 150,120 90,90"]
    return ["predict", "s3://photos/lamps", *support, "--model", str(model), "--shard-size", "2"]


@pytest.fixture(scope="module")
def expected(world) -> bytes:
    assert main([*world, "-o", "s3://out/local"]) == 0
    return results("local")


def results(output: str) -> bytes:
    return RemoteFolder(f"s3://out/{output}").read("predictions.csv")


def parts(output: str) -> dict[str, int]:
    return {file.name: file.mtime for file in RemoteFolder(f"s3://out/{output}").files("parts")}


def start(world: list[str], output: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "edgecape.cli.main", *world, "-o", f"s3://out/{output}", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_shard_as_ray_hands_it_on():
    for shard in (
        Shard(3, (Listed("a ü.jpg", 1, 2), Listed("b.jpg", 3, 4))),
        Shard(4, (Listed("c.mp4", 1, 2, 9),), 3, 6),
    ):
        assert unpack(pack(shard)) == shard


def test_what_was_wrong_on_a_node_is_said_as_it_is():
    exceptions = pytest.importorskip("ray.exceptions")
    inner = DataError("out/parts/part-00000.jsonl cannot be written: No space left on device")
    assert _cause(exceptions.RayTaskError("f", "traceback", inner)) is inner
    wrapped = exceptions.RayTaskError("f", "traceback", RuntimeError("something"))
    assert isinstance(_cause(wrapped), DataError)


def test_a_job_array_on_a_store(world, expected):
    both = [start(world, "array", "--shard", f"{number}/2") for number in (1, 2)]
    assert [process.wait() for process in both] == [0, 0]
    assert results("array") == expected
    assert main(["status", "s3://out/array"]) == 0


def test_another_support_is_refused(world, expected, capsys):
    other = [word if word != "100,200 150,120 90,90" else "100,200 150,120 90,91" for word in world]
    before = parts("local")
    assert main([*other, "-o", "s3://out/local"]) == 2
    assert "s3://out/local holds a run with another support photo or marks" in capsys.readouterr().err
    assert parts("local") == before and results("local") == expected


def test_a_node_and_the_driver_are_killed(world, expected, monkeypatch):
    """Parts that were there are not written again, and the results are those of a plain run."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    each = {"num_cpus": 1, "object_store_memory": 100_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**each, "include_dashboard": False})
    node = cluster.add_node(**each)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    try:
        process = start(world, "ray", "--engine", "ray")
        wait(lambda: len(parts("ray")) >= 2, process)
        cluster.remove_node(node, allow_graceful=False)
        seen = parts("ray")
        wait(lambda: len(parts("ray")) > len(seen), process)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        seen = parts("ray")
        again = start(world, "ray", "--engine", "ray")
        said, _ = again.communicate()
        assert again.returncode == 0, said
        after = parts("ray")
        assert len(after) == PARTS and {name: after[name] for name in seen} == seen
        assert results("ray") == expected
    finally:
        cluster.shutdown()


def wait(condition, process: subprocess.Popen[str]) -> None:
    while not condition():
        if process.poll() is not None:
            pytest.fail(f"the run ended before it was to be disturbed: {process.communicate()[0]}")
        time.sleep(0.1)


def test_a_node_that_does_not_see_the_output_says_so(tmp_path: Path):
    with pytest.raises(DataError, match="finds no run in"):
        Actor(Job(str(tmp_path), os.getcwd(), None, False, None))
    with pytest.raises(DataError, match="has no folder"):
        Actor(Job(str(tmp_path), str(tmp_path / "gone"), None, False, None))
