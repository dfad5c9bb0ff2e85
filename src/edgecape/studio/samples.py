"""An example for each call of the API, put into its description: one story, of a cow and her calf."""

from __future__ import annotations

import json
import shlex
from typing import Any, NamedTuple

from edgecape import __version__
from edgecape.studio.limits import Limits

COW, CALF, PROMPT = "5f1d3a9c0b7e2468", "c02b94e17f6a3d58", "9a4e61d7b3c05f82"
ADDRESS = "http://127.0.0.1:7860"


class Sample(NamedTuple):
    answer: Any = None  # None: nothing, or a file
    body: Any = None
    files: tuple[str, ...] = ()  # "field=@file" and "field=value", as curl's -F takes them
    place: str = ""  # what stands for the part of the path in braces, and after it
    to: str = ""  # file that the answer is saved as


NAMES = ["head", "left foot", "right foot"]
EDGES = [[0, 1], [0, 2]]
SHOT = {
    "photo": COW,
    "box": None,
    "points": [
        {"x": 120.0, "y": 80.0, "hidden": False},
        {"x": 64.0, "y": 200.0, "hidden": False},
        {"x": 210.0, "y": 190.0, "hidden": True},
    ],
}
MARKS = {"names": NAMES, "skeleton": EDGES, "prior": "mine", "shots": [SHOT]}
POSE = {
    "keypoints": [[131.25, 74.5], [70.5, 188.0], None],
    "scores": [0.93, 0.81, 0.0],
    "effort": "fast",
}
PHOTOS = [
    {"id": COW, "name": "cow.jpg", "width": 640, "height": 480, "clip": None, "frame": None, "time": None},
    {"id": CALF, "name": "calf.jpg", "width": 600, "height": 800, "clip": None, "frame": None, "time": None},
]
FRAME = {"id": CALF, "name": "herd.mp4#0", "width": 600, "height": 800, "clip": "herd.mp4", "frame": 0, "time": 0.0}
QUERY = {
    "photo": CALF,
    "box": None,
    "pose": POSE | {"moved": [False, True, False]},
    "state": "predicted",
    "error": None,
    "foundWith": PROMPT,
    "earlier": None,
    "changed": 1767225600000,
}
DOCUMENT = MARKS | {
    "revision": 4,
    "name": "cow",
    "queries": [QUERY],
    "prompt": None,
    "settings": {"scoreThreshold": 0.3, "graphThreshold": 0.1, "showNames": True},
}
PROJECT = DOCUMENT | {"photos": {photo["id"]: photo for photo in PHOTOS}}
EMPTY = PROJECT | {"revision": 5, "name": "", "names": [], "skeleton": [], "shots": [], "queries": [], "photos": {}}
STATUS = {
    "version": __version__,
    "model": {"state": "ready", "error": None, "fingerprint": "3b1c…", "facts": {}},
    "limits": Limits().model_dump(by_alias=True),
    "queue": {"waiting": 12, "prompts": 0, "running": 8},
}
PRIOR = [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
FACTS = {
    "id": PROMPT,
    "names": NAMES,
    "skeleton": EDGES,
    "prior": PRIOR,
    "weights": [[0, 1.04, 0.97], [1.04, 0, 0.12], [0.97, 0.12, 0]],
    "graph": [[0, 0.52, 0.48], [0.9, 0, 0.1], [0.89, 0.11, 0]],
    "shots": 1,
}
ABOUT_CAT = {"name": "cat", "about": "A cat's face with five keypoints"}
TEMPLATE = {
    "name": "bird",
    "about": "15 keypoints",
    "names": ["beak", "tail"],
    "skeleton": [[0, 1]],
    "symmetry": [],
    "places": [[0.1, 0.2], [0.95, 0.6]],
}
FORMAT = {"name": "coco", "title": "COCO", "about": "COCO keypoints", "suffix": ".json"}

SAMPLES = {
    "get_status": Sample(STATUS),
    "get_project": Sample(PROJECT),
    "save_project": Sample({"revision": 5}, DOCUMENT),
    "reset_project": Sample(EMPTY),
    "download_archive": Sample(to="cow.edgecape.zip"),
    "open_archive_file": Sample(PROJECT, files=("file=@cow.edgecape.zip",)),
    "upload_photos": Sample({"photos": PHOTOS, "failed": []}, files=("files=@cow.jpg", "files=@calf.jpg")),
    "upload_video": Sample({"photos": [FRAME], "failed": []}, files=("file=@herd.mp4", "frames=100")),
    "get_photo": Sample(place=f"{COW}?thumb=1", to="cow.jpg"),
    "delete_photo": Sample(place=CALF),
    "import_label_file": Sample(
        {
            "names": NAMES,
            "skeleton": EDGES,
            "shots": [SHOT],
            "photos": PHOTOS[:1],
            "failed": [],
            "missing": ["bull.jpg"],
            "notes": [],
        },
        files=("file=@labels.json", "photos=@cow.jpg"),
    ),
    "list_examples": Sample([ABOUT_CAT]),
    "use_example": Sample(
        {
            "names": NAMES,
            "skeleton": EDGES,
            "shots": [SHOT],
            "queries": [QUERY | {"pose": None, "state": "waiting", "foundWith": None, "changed": None}],
            "photos": PHOTOS,
        },
        place="cat",
    ),
    "list_templates": Sample([TEMPLATE]),
    "list_formats": Sample([FORMAT]),
    "export_labels": Sample(body={"format": "coco", "photos": False}, to="cow.json"),
    "create_prompt": Sample(FACTS, MARKS),
    "check_shots": Sample({"photo": COW, "index": 0, "distance": 0.041, "worst": [2]}, place=f"{PROMPT}/check"),
    "suggest_shots": Sample([{"photo": CALF, "gain": 0.021}], {"prompt": PROMPT, "photos": [CALF]}),
    "open_prompt": Sample(FACTS, files=("file=@cow.prompt",)),
    "get_prompt": Sample(FACTS, place=PROMPT),
    "download_prompt": Sample(place=f"{PROMPT}/file", to="cow.prompt"),
    "find_keypoints": Sample(
        {"photo": CALF, "index": 0, "pose": POSE},
        {"prompt": PROMPT, "photos": [{"photo": CALF, "box": [20, 30, 500, 700]}], "effort": "auto"},
    ),
}


def add_samples(api: dict[str, Any]) -> None:
    """Into an OpenAPI description, for people (curl) and programs."""
    for path, item in api["paths"].items():
        for method, what in item.items():
            sample = SAMPLES[what["operationId"]]
            what["x-codeSamples"] = [{"lang": "Shell", "label": "curl", "source": command(method, path, sample)}]
            if sample.body is not None:
                what["requestBody"]["content"]["application/json"]["example"] = sample.body
            if sample.answer is not None:
                for content in what["responses"]["200"]["content"].values():
                    content["example"] = sample.answer


def command(method: str, path: str, sample: Sample) -> str:
    """As it is typed."""
    address = ADDRESS + (path.partition("{")[0] + sample.place if sample.place else path)
    usual = "post" if sample.body is not None or sample.files else "get"
    words = ["curl", *(["-X", method.upper()] if method != usual else [])]
    words += [word for field in sample.files for word in ("-F", field)]
    if sample.body is not None:
        words += ["-H", "Content-Type: application/json", "-d", json.dumps(sample.body)]
    words += ["-o", sample.to] if sample.to else []
    return shlex.join([*words, address])
