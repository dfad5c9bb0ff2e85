"""The studio under load: a server process with the default model, and clients on this machine that all want something.

    python benchmarks/studio_load.py [--clients 8] [--predictions 200] [--model MODEL]

Clients begin together, half of them with one prompt and half with another, and ask for five photos at a time. Printed:
errors, predictions per second beside those of the backbone alone (measured before and after with the server at rest),
the server's resident memory as the work proceeds (Linux), and how evenly the clients were served.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AT_ONCE = 5  # photos per request


@dataclass
class Report:
    served: list[int] = field(default_factory=list)  # the client of each prediction, in the order they arrived
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def spread(self) -> int:
        """The most predictions that one client was ahead of another, as long as both had something to do."""
        total = {client: self.served.count(client) for client in set(self.served)}
        done = dict.fromkeys(total, 0)
        widest = 0
        for client in self.served:
            done[client] += 1
            busy = [number for other, number in done.items() if number < total[other]]
            widest = max(widest, max(busy) - min(busy)) if busy else widest
        return widest


def ask(address: str, method: str, path: str, body: Any = None) -> Any:
    """The open answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    return urllib.request.urlopen(urllib.request.Request(address + path, data, headers, method=method))


def drive(address: str, clients: int, predictions: int, watch: Callable[[int], None] = lambda done: None) -> Report:
    """All clients at once; `watch` is told the number of predictions that have arrived."""
    example = json.load(ask(address, "POST", "api/examples/cat"))
    photos = [query["photo"] for query in example["queries"]]
    marks = {name: example[name] for name in ("names", "skeleton", "shots")}
    prompts = [json.load(ask(address, "POST", "api/prompts", marks | {"prior": p}))["id"] for p in ("mine", "full")]
    list(ask(address, "POST", "api/predictions", {"prompt": prompts[0], "photos": [{"photo": photos[0]}]}))  # warm
    watch(0)
    report, lock, start = Report(), threading.Lock(), threading.Barrier(clients + 1)

    def client(number: int) -> None:
        left = predictions // clients
        start.wait()
        try:
            while left:
                wanted = [{"photo": photos[n % len(photos)]} for n in range(min(AT_ONCE, left))]
                left -= len(wanted)
                body = {"prompt": prompts[number % 2], "photos": wanted}
                with ask(address, "POST", "api/predictions", body) as lines:
                    for line in map(json.loads, lines):
                        with lock:
                            report.served.append(number)
                            report.errors += [line["error"]] if "error" in line else []
                            watch(len(report.served))
        except Exception as error:
            report.errors.append(f"client {number}: {error!r}")

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    start.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    report.seconds = time.perf_counter() - begun
    return report


def backbone_seconds(model: Any, batch: int = 8, times: int = 3) -> float:
    """Of one photo, in a batch."""
    import torch

    from edgecape.evaluation.cost import stock

    runtime = model.torch_runtime
    backbone = stock(runtime.backbone)
    frames = torch.rand(batch, 3, *runtime.size, device=runtime.device)
    found = []
    with torch.inference_mode():
        for _ in range(times + 1):
            start = time.perf_counter()
            backbone(frames)
            found.append((time.perf_counter() - start) / batch)
    return statistics.median(found[1:])


def resident(process: int) -> float:
    """MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--predictions", type=int, default=200)
    parser.add_argument("--model")
    options = parser.parse_args()
    from edgecape import EdgeCape

    model = EdgeCape.from_pretrained(options.model)
    before = backbone_seconds(model)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "edgecape.cli.main", "studio", folder, "--port", "0", "--no-browser"]
        command += ["--model", options.model] if options.model else []
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            address = re.search(r"http://\S+", server.stdout.readline())[0]  # type: ignore[index, union-attr]
            memory: dict[int, float] = {}

            def watch(done: int) -> None:
                if done in (0, options.predictions // 4, options.predictions):
                    memory[done] = resident(server.pid)

            report = drive(address, options.clients, options.predictions, watch)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
    backbone = statistics.mean((before, backbone_seconds(model)))
    rate = len(report.served) / report.seconds
    print(f"predictions  {len(report.served)} for {options.clients} clients, {len(report.errors)} errors")
    print(f"speed        {rate:.2f} per second, {rate * backbone:.2f} of the backbone alone ({1 / backbone:.2f})")
    print("memory       " + ", ".join(f"{mib:.0f} MiB after {done}" for done, mib in memory.items()))
    print(f"fairness     no client was ever more than {report.spread()} predictions ahead of another")
    for error in report.errors[:5]:
        print(f"error        {error}")
    sys.exit(bool(report.errors) or len(report.served) != options.predictions)


if __name__ == "__main__":
    main()
