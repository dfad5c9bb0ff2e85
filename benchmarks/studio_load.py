"""The studio under load: a server process with the default model, and clients on this machine that all want something.

    python benchmarks/studio_load.py [--clients 8] [--seconds 180] [--model MODEL]

Clients begin together and go on until the time is over: each moves its marks a little, asks for the prompt, and with it
for three photos, then five, then one. Printed: errors and requests without an answer; predictions per second beside
those of the backbone alone (measured before and after with the server at rest); how evenly the clients were served; how
long they waited for a prompt and for the first pose of a request, in passes of the backbone; the server's resident
memory as the work proceeds (Linux).
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

AT_ONCE = (3, 5, 1)  # photos of one request, in turn


@dataclass
class Report:
    served: list[int] = field(default_factory=list)  # the client of each prediction, in the order they arrived
    errors: list[str] = field(default_factory=list)
    asked: int = 0  # predictions that were asked for
    prompts: list[float] = field(default_factory=list)  # seconds until each was there
    waits: list[float] = field(default_factory=list)  # seconds until the first pose of each request
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


def ask(address: str, method: str, path: str, body: Any = None, client: int = 0) -> Any:
    """The open answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "X-EdgeCape-Client": f"client-{client}"}
    return urllib.request.urlopen(urllib.request.Request(address + path, data, headers, method=method))


def drive(
    address: str, clients: int, seconds: float, rounds: int = 10**9, watch: Callable[[], None] = lambda: None
) -> Report:
    """All clients at once, each for so long or so many rounds; `watch` is called after every prediction."""
    example = json.load(ask(address, "POST", "api/v1/examples/cat"))
    photos = [query["photo"] for query in example["queries"]]
    marks = {name: example[name] for name in ("names", "skeleton", "shots")}
    report, lock, start = Report(), threading.Lock(), threading.Barrier(clients + 1)

    def moved(number: int, turn: int) -> Any:
        """The marks of a client that puts its keypoints a little elsewhere each time."""
        shot = marks["shots"][0]
        points = [point | {"x": point["x"] + number / 7 + turn % 50 / 50} for point in shot["points"]]
        return marks | {"shots": [shot | {"points": points}]}

    def work(number: int, turn: int) -> None:
        begun = time.perf_counter()
        prompt = json.load(ask(address, "POST", "api/v1/prompts", moved(number, turn), number))["id"]
        prompted = time.perf_counter() - begun
        for many in AT_ONCE:
            wanted = [{"photo": photos[n % len(photos)]} for n in range(many)]
            with lock:
                report.asked += many
            begun, first = time.perf_counter(), None
            with ask(address, "POST", "api/v1/predictions", {"prompt": prompt, "photos": wanted}, number) as lines:
                for line in map(json.loads, lines):
                    first = first or time.perf_counter() - begun
                    with lock:
                        report.served.append(number)
                        report.errors += [line["error"]] if "error" in line else []
                        watch()
            with lock:
                report.waits.append(first or 0.0)
        with lock:
            report.prompts.append(prompted)

    def client(number: int) -> None:
        start.wait()
        until = time.perf_counter() + seconds
        try:
            for turn in range(rounds):
                if time.perf_counter() > until:
                    return
                work(number, turn)
        except Exception as error:
            report.errors.append(f"client {number}: {error!r}")

    work(0, 0)  # the first costs more
    report = Report()
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
    parser.add_argument("--seconds", type=float, default=180)
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
            begun, memory = time.perf_counter(), [(0.0, resident(server.pid))]

            def watch() -> None:
                now = time.perf_counter() - begun
                if now - memory[-1][0] > options.seconds / 6:
                    memory.append((now, resident(server.pid)))

            report = drive(address, options.clients, options.seconds, watch=watch)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
    backbone = statistics.mean((before, backbone_seconds(model)))
    rate = len(report.served) / report.seconds
    counts = [report.served.count(number) for number in range(options.clients)]

    def told(waits: list[float]) -> str:
        worst, usual = max(waits), statistics.median(waits)
        return f"median {usual / backbone:.0f}, worst {worst / backbone:.0f} passes ({usual:.2f} and {worst:.2f} s)"

    print(f"predictions  {len(report.served)} of {report.asked} answered, {len(report.errors)} errors")
    print(f"speed        {rate:.2f} per second, {rate * backbone:.2f} of the backbone alone ({1 / backbone:.2f})")
    print(f"fairness     {min(counts)} to {max(counts)} per client, never more than {report.spread()} apart")
    print(f"prompts      {len(report.prompts)}; {told(report.prompts)}")
    print(f"first pose   {told(report.waits)}")
    print("memory       " + ", ".join(f"{mib:.0f} MiB after {at:.0f} s" for at, mib in memory))
    for error in report.errors[:5]:
        print(f"error        {error}")
    sys.exit(bool(report.errors) or len(report.served) != report.asked)


if __name__ == "__main__":
    main()
