"""One run on one machine, in a job array and on a Ray cluster, from a real S3 bucket: the same bytes, whatever happens.

    python benchmarks/many_machines.py PHOTOS SUPPORT [--number 3000] [--distinct 300] [--model MODEL] [--shard-size N]

`number` copies of `distinct` photos of the folder PHOTOS are put into a bucket. Compared are the merged results of
`local`, of `--shard 1/2` and `2/2` at the same time, of Ray on two nodes of one processor each, and of Ray with a node
killed in the middle and its driver killed twice. Printed: seconds, whether the bytes are the same, whether a part that
was there when something was killed was written again, and the overhead of Ray over two plain processes.
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path

from edgecape.io.images import SUFFIXES
from edgecape.io.storage import RemoteFolder, open_folder

SERVER = runpy.run_path(str(Path(__file__).parents[1] / "tools/s3_server.py"))


def upload(photos: Path, number: int, distinct: int) -> None:
    found = [path for path in sorted(photos.rglob("*")) if path.suffix.lower() in SUFFIXES][:distinct]
    folder = RemoteFolder("s3://photos")

    def put(numbered: tuple[int, Path]) -> None:
        with folder.writing(f"all/{numbered[0]:06d}{numbered[1].suffix}") as path:
            path.parent.mkdir(parents=True)
            path.write_bytes(numbered[1].read_bytes())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, enumerate(islice(cycle(found), number))))


class Runs:
    def __init__(self, arguments: list[str]):
        self.common = [sys.executable, "-m", "edgecape.cli.main", "predict", "s3://photos/all", *arguments]

    def start(self, output: str, *more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self.common, "-o", f"s3://out/{output}", *more], stdout=subprocess.DEVNULL)

    def timed(self, output: str, *several: tuple[str, ...]) -> float:
        start = time.perf_counter()
        codes = [process.wait() for process in [self.start(output, *more) for more in several]]
        assert not any(codes), codes
        return time.perf_counter() - start


def results(output: str) -> bytes:
    content = open_folder(f"s3://out/{output}").read("predictions.csv")
    assert content is not None, f"{output} has no results"
    return content


def parts(output: str) -> dict[str, int]:
    """Parts that are there → when they were written."""
    return {file.name: file.mtime for file in open_folder(f"s3://out/{output}").files("parts")}


def wait(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not condition():
        assert process.poll() is None, "the run ended before it was to be disturbed"
        time.sleep(0.5)


def disturbed(runs: Runs, total: int, cluster: object, node: object) -> list[str]:
    """A node killed after a quarter, the driver after a half and three quarters; parts that were written twice."""
    seen: dict[str, int] = {}
    output, process = "disturbed", runs.start("disturbed", "--engine", "ray")

    def reached(share: float) -> bool:
        return len(parts(output)) >= share * total

    wait(lambda: reached(0.25), process)
    seen |= parts(output)
    cluster.remove_node(node, allow_graceful=False)  # type: ignore[attr-defined]
    print(f"  a node was killed when {len(seen)} of {total} parts were there", flush=True)
    for share in (0.5, 0.75):
        wait(lambda share=share: reached(share), process)  # type: ignore[misc]
        process.kill()
        process.wait()
        seen |= {name: when for name, when in parts(output).items() if name not in seen}
        print(f"  the driver was killed when {len(seen)} of {total} parts were there", flush=True)
        process = runs.start(output, "--engine", "ray")
    assert process.wait() == 0
    after = parts(output)
    return [name for name, when in seen.items() if after[name] != when]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("support")
    parser.add_argument("--number", type=int, default=3000)
    parser.add_argument("--distinct", type=int, default=300)
    parser.add_argument("--model")
    parser.add_argument("--shard-size", default="30")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    arguments = ["--support", os.path.abspath(options.support), "--shard-size", options.shard_size]
    arguments += ["--model", os.path.abspath(options.model)] if options.model else []
    with tempfile.TemporaryDirectory() as place, SERVER["serving"](Path(place), ("photos", "out")) as environment:
        os.environ.update(environment)
        start = time.perf_counter()
        upload(options.photos, options.number, options.distinct)
        print(f"{options.number} photos put into a bucket in {time.perf_counter() - start:.0f} s", flush=True)
        runs = Runs(arguments)
        alone = runs.timed("local", ())
        expected = results("local")
        total = len(parts("local"))
        print(f"local, one process         {alone:7.1f} s  {total} parts", flush=True)
        array = runs.timed("array", ("--shard", "1/2"), ("--shard", "2/2"))
        print(f"--shard 1/2 and 2/2        {array:7.1f} s  same bytes: {results('array') == expected}", flush=True)

        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        node = cluster.add_node(num_cpus=1)
        os.environ["RAY_ADDRESS"] = cluster.address
        ray = runs.timed("ray", ("--engine", "ray"))
        print(f"Ray, two nodes             {ray:7.1f} s  same bytes: {results('ray') == expected}", flush=True)
        start = time.perf_counter()
        twice = disturbed(runs, total, cluster, node)
        seconds = time.perf_counter() - start
        same = results("disturbed") == expected
        print(f"Ray, node and driver killed{seconds:7.1f} s  same bytes: {same}, written twice: {twice or 'none'}")
        print(f"Ray takes {ray - array:+.1f} s ({100 * (ray / array - 1):+.0f} %) over two plain processes")
        cluster.shutdown()


if __name__ == "__main__":
    main()
