"""Processes that end in the middle of writing: what was acknowledged before is there."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from edgecape.studio.limits import Limits
from edgecape.studio.project import ProjectStore

CHILD = """
import io, sys
from pathlib import Path
from PIL import Image
from edgecape.studio.archive import open_archive, write_archive
from edgecape.studio.limits import Limits
from edgecape.studio.models import Corrected, Document, Query
from edgecape.studio.project import Incoming, ProjectStore

store = ProjectStore(Path(sys.argv[1]), Limits())
store.open_folder()
print("ready", flush=True)
number = 0
while True:
    number += 1
    file = io.BytesIO()
    Image.new("RGB", (40, 30), (number % 256, number // 256, int(sys.argv[2]))).save(file, "PNG")
    photo = store.add_photos([Incoming(f"{number}.png", file.getvalue())]).uploaded.photos[0].id
    print("photo", photo, flush=True)
    project = store.read()
    pose = Corrected(keypoints=[[1.0, 2.0]], scores=[0.5], moved=[False])
    query = Query(photo=photo, pose=pose, state="waiting")  # found, not accepted, and looked for again
    queries = [*project.queries, query] if all(one.photo != photo for one in project.queries) else project.queries
    revision = store.save(Document(revision=project.revision, names=["a"], queries=queries))
    print("saved", revision, photo, flush=True)
    if number % 5 == 0:
        with store.scratching() as folder:
            path = write_archive(store, folder / "project.zip")
            with path.open("rb") as archive:
                print("opened", open_archive(store, archive).revision, flush=True)
"""
KILLS = 20


def test_nothing_acknowledged_is_lost(tmp_path: Path):
    folder, chance = tmp_path / "project", random.Random(0)
    photos: set[str] = set()
    revision, saved = 0, 0
    for kill in range(KILLS):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(folder), str(kill)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.01, 0.3))
        child.kill()
        lines = [line.split() for line in child.communicate()[0].splitlines(keepends=True) if line.endswith("\n")]
        for what, *facts in lines:
            if what == "saved":
                photos.add(facts[1])
                saved += 1
            if what in ("saved", "opened"):
                revision = int(facts[0])
        project = ProjectStore(folder, Limits()).read() if folder.joinpath("project.json").exists() else None
        if project is not None:
            assert project.revision >= revision
            assert photos <= {query.photo for query in project.queries if query.pose is not None}
            assert photos <= set(project.photos)
    assert saved > KILLS  # there was something to lose
