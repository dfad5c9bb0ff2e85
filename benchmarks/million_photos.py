"""What a million photos cost besides looking at them: listing a bucket, beginning a run, resuming it, merging parts.

    python benchmarks/million_photos.py [--number 1000000] [--keypoints 17]

Keys and poses are made up: the bucket is a server on this machine that answers as S3 does, a thousand keys at a time;
parts are written to a temporary folder. Each step runs in a process of its own; its seconds, those in which it was busy
(less on a machine with other work), and the peak of its memory are printed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import numpy as np

from edgecape.batch.manifest import Listed, LookedFor, Run
from edgecape.batch.outputs import Results, Wanted, write_results
from edgecape.batch.parts import Outcome, write_part
from edgecape.batch.queries import find_queries
from edgecape.batch.survey import survey
from edgecape.io.storage import LocalFolder
from edgecape.types import Pose

PAGE = 1000


def key(number: int) -> str:
    return f"made-up/camera-{number // 10_000:03d}/2026-11-18T12-{number:07d}.jpg"


def serve(number: int) -> ThreadingHTTPServer:
    class Bucket(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = parse_qs(urlparse(self.path).query)
            start = int(asked.get("continuation-token", ["0"])[0])
            stop = min(start + PAGE, number)
            keys = "".join(
                f"<Contents><Key>{key(n)}</Key><LastModified>2026-11-18T12:00:00.000Z</LastModified>"
                f'<ETag>"{n:032x}"</ETag><Size>{100_000 + n}</Size><StorageClass>STANDARD</StorageClass></Contents>'
                for n in range(start, stop)
            )
            more = stop < number
            token = f"<NextContinuationToken>{stop}</NextContinuationToken>" if more else ""
            text = (
                '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                f"<Name>photos</Name><Prefix>made-up/</Prefix><KeyCount>{stop - start}</KeyCount>"
                f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{keys}</ListBucketResult>"
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def listing(number: int) -> str:
    found = find_queries(["s3://photos/made-up"], [], [])
    assert len(found) == number
    return f"{len(found)} keys"


def begun(folder: Path) -> Run:
    run = Run.open(LocalFolder(folder))
    assert run is not None
    return run


def beginning(folder: Path, number: int) -> str:
    wanted = LookedFor("m", "s", None, None, None, None)
    photos = (Listed(f"s3://photos/{key(n)}", 100_000 + n, 1) for n in range(number))
    run = Run(LocalFolder(folder), wanted, 8).with_photos(photos)
    run.save()
    size = (folder / run.lists[0].name).stat().st_size
    return f"{run.lists[0].parts} parts of {run.lists[0].shard_size}, list of {size / 1e6:.1f} MB"


def writing(folder: Path, keypoints: int) -> str:
    run, rng = begun(folder), np.random.default_rng(0)
    places = rng.uniform(0, 1000, (PAGE, keypoints, 2)).astype(np.float32)
    scores = rng.uniform(0, 1, (PAGE, keypoints)).astype(np.float32)
    poses = [Pose(place, score, (0, 0, 1000, 800), place) for place, score in zip(places, scores, strict=True)]
    for shard in run.shards(0):
        outcomes = (
            Outcome(listed.file, None, listed.bytes, 1, "0" * 32, (1000, 800), (pose,))
            for listed, pose in zip(shard.members, poses, strict=False)
        )
        for _ in write_part(run, shard, outcomes, False):
            pass
    return f"{sum(file.bytes for file in run.output.files('parts')) / 1e9:.2f} GB"


def resuming(folder: Path) -> str:
    found = survey(begun(folder))
    return f"{found.done} done, {found.left} left"


def merging(folder: Path, format: str) -> str:
    target = write_results(LocalFolder(folder), Results(begun(folder)), Wanted(format))
    assert target is not None
    return f"{Path(target).stat().st_size / 1e9:.2f} GB"


def measured(name: str, step: Callable[..., str], *given: Any) -> None:
    def work(queue: Any) -> None:
        start = time.perf_counter()
        said = step(*given)
        seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
        busy, memory = used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3
        queue.put(f"{name:<28}{seconds:>8.1f} s{busy:>8.1f} s busy{memory:>8.0f} MB   {said}")

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get(), flush=True)
    process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=1_000_000)
    parser.add_argument("--keypoints", type=int, default=17)
    options = parser.parse_args()
    server = serve(options.number)
    os.environ |= {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "AWS_ACCESS_KEY_ID": "made-up",
                   "AWS_SECRET_ACCESS_KEY": "made-up", "AWS_EC2_METADATA_DISABLED": "true"}  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        measured("nothing, for comparison", lambda: "")
        measured("listing a bucket", listing, options.number)
        measured("beginning a run", beginning, folder, options.number)
        measured("(writing parts)", writing, folder, options.keypoints)
        measured("resuming: reading all parts", resuming, folder)
        for format in ("csv", "coco"):
            measured(f"merging into {format}", merging, folder, format)


if __name__ == "__main__":
    main()
