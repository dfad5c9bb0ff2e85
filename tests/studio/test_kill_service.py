"""kill -9 of the whole service while people upload, search, save and open archives: what was acknowledged is there.

EDGECAPE_KILLS=20 for as many; a few in every run of the tests.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from service import encoded, lamp, marks

KILLS = int(os.environ.get("EDGECAPE_KILLS", "3"))
HERE = Path(__file__).parent
SERVER = f"""
import sys
sys.path[:0] = [{str(HERE)!r}, {str(HERE.parent)!r}]
from pathlib import Path
from edgecape.studio.server import serve
from toy import estimator
serve(Path(sys.argv[1]), estimator, port=0, browser=False)
"""


class Life:
    """One life of the service, and what it acknowledged."""

    def __init__(self, folder: Path):
        command = [sys.executable, "-c", SERVER, str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        assert "http" in line, self.process.stderr.read()
        self.http = httpx.Client(base_url=re.search(r"http://\S+/", line)[0] + "api/v1/", timeout=60)  # type: ignore[index]
        self.broken: list[str] = []  # answers that no kill explains

    def ask(self, method: str, path: str, **options: Any) -> Any:
        answer = self.http.request(method, path, **options)
        if not answer.is_success:
            self.broken.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.kill()
        self.http.close()


class People:
    """Somebody who uploads, and somebody who searches, saves and opens archives, until the service is gone."""

    def __init__(self) -> None:
        self.poses: dict[str, Any] = {}  # photo → pose that a save was acknowledged with
        self.revision = 0
        self.uploaded: dict[str, int] = {}  # photo → `archives` when it was sent
        self.archives = 0  # counts when one begins to be opened and when that ends: it takes away what is not used
        self.number = 0
        self.done: list[str] = []

    def live(self, life: Life, saves: int, seconds: float) -> None:
        """Until so many more saves are acknowledged, and that long besides; then it is killed."""
        wanted = self.done.count("save") + saves
        threads = [
            threading.Thread(target=self.until_gone, args=(work, life))
            for work in (self.upload, self.search, self.look)
        ]
        for thread in threads:
            thread.start()
        while self.done.count("save") < wanted and any(thread.is_alive() for thread in threads):
            time.sleep(0.005)
        time.sleep(seconds)
        life.kill()
        for thread in threads:
            thread.join()

    def until_gone(self, work: Callable[[Life], None], life: Life) -> None:
        try:
            while not life.broken:
                work(life)
        except (httpx.HTTPError, json.JSONDecodeError):  # it was killed
            pass

    def upload(self, life: Life) -> None:
        self.number += 1
        picture = np.full((30, 40, 3), (self.number % 256, self.number // 256, 7), np.uint8)
        before = self.archives
        answer = life.ask("POST", "photos", files={"files": (f"{self.number}.png", encoded(picture))})
        self.uploaded[answer.json()["photos"][0]["id"]] = before
        self.done.append("upload")

    def look(self, life: Life) -> None:
        life.ask("GET", "project/archive")
        self.done.append("archive")

    def search(self, life: Life) -> None:
        """A photo to mark and three to search; each pose is saved when it comes, and nobody accepts it."""
        seed = len(self.done)
        sent = [("files", (f"lamp {seed}-{n}.png", encoded(lamp(n)[0][seed % 7 :]))) for n in range(4)]
        first, *others = (photo["id"] for photo in life.ask("POST", "photos", files=sent).json()["photos"])
        given = marks(first)
        prompt = life.ask("POST", "prompts", json=given).json()["id"]
        wanted = {"prompt": prompt, "photos": [{"photo": photo} for photo in others]}
        with life.http.stream("POST", "predictions", json=wanted) as lines:
            for line in map(json.loads, lines.iter_lines()):
                if "pose" in line:
                    self.save(life, given, line["photo"], line["pose"] | {"moved": [False] * len(given["names"])})
        self.done.append("search")
        if self.done.count("search") % 2 == 0:
            archive = life.ask("GET", "project/archive").content
            self.archives += 1
            self.revision = life.ask("POST", "project/archive", files={"file": ("a.zip", archive)}).json()["revision"]
            self.archives += 1
            self.done.append("open")

    def save(self, life: Life, given: Any, photo: str, pose: Any) -> None:
        poses = self.poses | {photo: pose}
        queries = [{"photo": id_, "pose": found, "state": "predicted"} for id_, found in poses.items()]
        project = life.ask("GET", "project").json()
        document = {**given, "queries": queries, "revision": project["revision"]}
        self.revision = life.ask("PUT", "project", json=document).json()["revision"]
        self.poses = poses
        self.done.append("save")

    def check(self, life: Life) -> None:
        project = life.ask("GET", "project").json()
        assert project["revision"] >= self.revision
        there = {query["photo"]: query for query in project["queries"]}
        for photo, pose in self.poses.items():
            assert there[photo]["state"] == "predicted"
            assert there[photo]["pose"]["keypoints"] == pose["keypoints"]
            assert there[photo]["pose"]["scores"] == pose["scores"]
        calm = self.archives % 2 == 0  # no archive was just being opened
        waiting = [photo for photo, before in self.uploaded.items() if calm and before == self.archives]
        assert set(waiting) <= set(project["photos"])
        self.archives += self.archives % 2  # what was being opened when it was killed is over
        for photo in [*there, *waiting[-3:]]:
            assert life.ask("GET", f"photos/{photo}").is_success


def test_nothing_acknowledged_is_lost_when_the_service_is_killed(tmp_path: Path) -> None:
    chance, people = random.Random(0), People()
    for saves in islice(
        cycle((7, 0, 2, 4, 1)), KILLS
    ):  # three make a search, and an archive is opened after each second
        life = Life(tmp_path / "project")
        try:
            people.check(life)
            people.live(life, saves, chance.uniform(0, 0.3))
            assert not life.broken, life.broken
        finally:
            life.end()
    life = Life(tmp_path / "project")
    try:
        people.check(life)
    finally:
        life.end()
    counts = {what: people.done.count(what) for what in ("upload", "search", "save", "archive", "open")}
    assert all(counts.values()), counts  # there was something to lose
    print(counts)
