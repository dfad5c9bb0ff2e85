"""Bad input and the answer it gets: every row of docs/bad-input.md is a call that is made here.

A row is added with `@case(section, "what is given")` above a function of a `Bench`. It runs in a folder that holds
cow.jpg (640 × 480 pixels) and nothing else, and raises an EdgeCapeError or returns what else a person is told.
`python tests/bad_input.py` writes the document, tests/test_bad_input.py compares it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from edgecape import EdgeCape, Prompt, Support, formats
from edgecape.errors import EdgeCapeError
from edgecape.formats.boxes import read_boxes
from edgecape.formats.supports import read_supports
from edgecape.io.images import load_image
from edgecape.types import Pose

from toy import estimator

DOCUMENT = Path(__file__).parents[1] / "docs" / "bad-input.md"
POINTS = [(100, 100), (400, 300), (250, 200)]
ABOUT = """# What gets what

Every row is a call that a test makes, with the answer it got: errors as the command line prints and Python raises
them (all are `EdgeCapeError`), warnings as readers note them. `python tests/bad_input.py` writes this page.
"""


@dataclass(frozen=True)
class Bench:
    """What the rows work with."""

    model: EdgeCape
    prompt: Prompt

    def support(self, points: Any = POINTS, image: Any = "cow.jpg", **changes: Any) -> None:
        self.model.prompt(Support(image, points, **changes))

    def predict(self, images: Any = ("cow.jpg",), **arguments: Any) -> Any:
        return self.model.predict(self.prompt, images, **arguments)

    def command(self, line: str) -> str:
        """What `edgecape …` says on standard error."""
        from edgecape.cli.main import main

        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            main(shlex.split(line))
        return said.getvalue().strip().removeprefix("error: ")


@dataclass(frozen=True)
class Case:
    section: str
    given: str
    call: Callable[[Bench], Any]

    def answer(self, bench: Bench) -> str:
        with _fresh_folder():
            try:
                told = self.call(bench)
            except EdgeCapeError as error:
                told = str(error)
        assert isinstance(told, str) and told, f"{self.given}: nobody is told"
        return " ".join(told.split())


CASES: list[Case] = []


def case(section: str, given: str) -> Callable[[Callable[[Bench], Any]], Callable[[Bench], Any]]:
    def add(call: Callable[[Bench], Any]) -> Callable[[Bench], Any]:
        CASES.append(Case(section, given, call))
        return call

    return add


@contextlib.contextmanager
def _fresh_folder() -> Iterator[None]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Image.fromarray(np.full((480, 640, 3), 127, np.uint8)).save("cow.jpg")
            yield
        finally:
            os.chdir(before)


def document() -> str:
    model = estimator()
    image = np.random.default_rng(0).integers(0, 256, (320, 320, 3), dtype=np.uint8)
    bench = Bench(model, model.prompt(Support(image, POINTS[:1])))
    parts = [ABOUT]
    for section in dict.fromkeys(case.section for case in CASES):
        rows = [(case.given, case.answer(bench)) for case in CASES if case.section == section]
        lines = [f"| {given} | {answer.replace('|', chr(92) + '|')} |" for given, answer in rows]
        parts.append("\n".join([f"## {section}\n", "| given | answer |", "|---|---|", *lines]) + "\n")
    return "\n".join(parts)


# --- marks on a photo ------------------------------------------------------------------------------------------------

MARKS = "Keypoints, boxes and names of a support"
case(MARKS, "a keypoint outside the photo")(lambda b: b.support([(600, 10), (10, 500), (5, 5)]))
case(MARKS, "x and y exchanged")(lambda b: b.support([(100, 600), (300, 400), (200, 250)]))
case(MARKS, "keypoints as parts of the photo's sides")(lambda b: b.support([(0.2, 0.3), (0.8, 0.5), (0.4, 0.4)]))
case(MARKS, "keypoints that are not pairs")(lambda b: b.support([1, 2, 3]))
case(MARKS, "a place that is not a number")(lambda b: b.support([(100, float("nan")), (4, 5), (6, 7)]))
case(MARKS, '`visible=["false", "true", "true"]`')(lambda b: b.support(visible=["false", "true", "true"]))
case(MARKS, "`visible` with too few values")(lambda b: b.support(visible=[True]))
case(MARKS, "no keypoint that is visible")(lambda b: b.support(visible=[False] * 3))
case(MARKS, '`names="abc"`')(lambda b: b.support(names="abc"))
case(MARKS, "too few names")(lambda b: b.support(names=["head"]))
case(MARKS, "edges counted from 1")(lambda b: b.support(skeleton=[(1, 2), (2, 3)]))
case(MARKS, "an edge from a keypoint to itself")(lambda b: b.support(skeleton=[(1, 1)]))
case(MARKS, "a keypoint in two pairs of `symmetry`")(lambda b: b.support(symmetry=[(0, 1), (1, 2)]))
case(MARKS, "a box given as two corners")(lambda b: b.support(box=(300, 150, 620, 450)))
case(MARKS, "a box without area")(lambda b: b.support(box=(90, 90, 0, 50)))
case(MARKS, "a box outside the photo")(lambda b: b.support(box=(900, 90, 50, 50)))
case(MARKS, "a box as parts of the photo's sides")(lambda b: b.support(box=(0.1, 0.1, 0.8, 0.8)))
case(MARKS, "a box that does not show the keypoints")(lambda b: b.support(box=(90, 90, 40, 40)))
case(MARKS, "supports with different numbers of keypoints")(
    lambda b: b.model.prompt([Support("cow.jpg", POINTS), Support("cow.jpg", POINTS[:2])])
)
case(MARKS, "no support at all")(lambda b: b.model.prompt([]))

# --- photos ----------------------------------------------------------------------------------------------------------

PHOTOS = "Photos"


def saved(array: Any, name: str, *more: Any) -> str:
    pictures = [Image.fromarray(np.asarray(page)) for page in (array, *more)]
    pictures[0].save(name, **({"save_all": True, "append_images": pictures[1:]} if more else {}))
    return name


def grey(value: int = 9) -> Any:
    return np.full((60, 80), value, np.uint8)


@case(PHOTOS, "a file that is no picture")
def no_picture(bench: Bench) -> None:
    Path("text.jpg").write_text("hello")
    bench.predict("text.jpg")


case(PHOTOS, "a file that is not there")(lambda b: b.predict("gone.jpg"))
case(PHOTOS, "a folder in the place of a photo")(lambda b: b.predict(Path(".")))
case(PHOTOS, "an animated GIF")(lambda b: b.predict(saved(grey(), "a.gif", grey(90))))
case(PHOTOS, "a TIFF of several pages")(lambda b: b.predict(saved(grey(), "a.tif", grey(90), grey(30))))


@case(PHOTOS, "PostScript, whatever it is called")
def postscript(bench: Bench) -> None:
    Image.fromarray(grey()).save("a.eps")
    os.rename("a.eps", "a.jpg")
    bench.predict("a.jpg")


@case(PHOTOS, "a TIFF of floats from 0 to 5000")
def floats(bench: Bench) -> str:
    found = load_image(saved(np.linspace(0, 5000, 600, dtype=np.float32).reshape(20, 30), "a.tif"))
    return f"taken, stretched from its lowest to its highest value: {found.min()} to {found.max()}"


@case(PHOTOS, "a photo of 40 000 × 1 pixels")
def thin(bench: Bench) -> str:
    (pose,) = bench.predict(saved(np.zeros((1, 40_000), np.uint8), "thin.png"))
    return f"taken: {len(pose.keypoints)} keypoint found" if np.isfinite(pose.keypoints).all() else ""


case(PHOTOS, "an array (3, height, width)")(lambda b: b.predict(np.zeros((3, 48, 64), np.uint8)))
case(PHOTOS, "an array with values that are not numbers")(lambda b: b.predict([np.full((48, 64), np.nan)]))
case(PHOTOS, "the bytes of a file")(lambda b: b.predict(b"\xff\xd8\xff"))


class Broken:
    """A list of boxes that fails in a way nobody foresaw."""

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("out of order")


@case(PHOTOS, 'anything else that goes wrong with one photo, with `errors="return"`')
def unforeseen(bench: Bench) -> str:
    first, second = bench.predict(["cow.jpg"] * 2, boxes=[Broken(), None], errors="return")
    assert isinstance(second, Pose)
    return f"{type(first).__name__} in its place, the others are done: {first}"


# --- arguments of predict --------------------------------------------------------------------------------------------

CALLS = "Arguments of `EdgeCape.predict`"
case(CALLS, "one box for two images")(lambda b: b.predict(["cow.jpg"] * 2, boxes=[(0, 0, 50, 50)]))
case(CALLS, "a box where a list of boxes is expected")(lambda b: b.predict(["cow.jpg"], boxes=(0, 0, 50, 50)))
case(CALLS, "a box given as two corners")(lambda b: b.predict(boxes=[(400, 100, 600, 300)]))
case(CALLS, "a box outside the photo")(lambda b: b.predict(boxes=[(700, 100, 50, 50)]))
case(CALLS, "a box without area")(lambda b: b.predict(boxes=[(10, 10, 0, 50)]))
case(CALLS, "a box that is no box")(lambda b: b.predict(boxes=["left"]))
case(CALLS, "`batch_size=0`")(lambda b: b.predict(batch_size=0))
case(CALLS, '`errors="ignore"`')(lambda b: b.predict(errors="ignore"))
case(CALLS, "a support in the place of a prompt")(lambda b: b.model.predict(Support("cow.jpg", POINTS), ["cow.jpg"]))
case(CALLS, "a prompt of another model")(lambda b: estimator(seed=1).predict(b.prompt, ["cow.jpg"]))

# --- label files -----------------------------------------------------------------------------------------------------

LABELS = "Label files as supports"


def small(**changes: Any) -> Path:
    path = Path("cow.json")
    path.write_text(json.dumps({"image": "cow.jpg", "keypoints": POINTS} | changes))
    return path


def coco(*, skeleton: Any = (), names: tuple[str, ...] = ("cow",), boxes: Any = (), **image: Any) -> Path:
    content = {
        "images": [{"id": 1, "file_name": "cow.jpg", "width": 640, "height": 480} | image],
        "annotations": [
            {"id": n, "image_id": 1, "category_id": n, "keypoints": [100, 100, 2, 400, 300, 2, 250, 200, 2]}
            for n, _ in enumerate(names, start=1)
        ]
        + [{"id": 100 + n, "image_id": 1, "category_id": 1, "bbox": list(box)} for n, box in enumerate(boxes)],
        "categories": [
            {"id": n, "name": name, "keypoints": ["head", "tail", "back"], "skeleton": list(skeleton)}
            for n, name in enumerate(names, start=1)
        ],
    }
    path = Path("labels.json")
    path.write_text(json.dumps(content))
    return path


@case(LABELS, "COCO edges that may be counted from 0 or from 1")
def either_base(bench: Bench) -> str:
    return " ".join(read_supports(coco(skeleton=[[1, 2]])).notes)


case(LABELS, "`--edge-base 1` for edges that have a 0")(
    lambda b: read_supports(coco(skeleton=[[0, 1], [1, 2]]), edge_base=1)
)
case(LABELS, "an edge base for a file that is not COCO")(lambda b: read_supports(small(), edge_base=1))
case(LABELS, "a file with several categories")(lambda b: read_supports(coco(names=("cow", "horse"))))
case(LABELS, "a category that is not in the file")(
    lambda b: read_supports(coco(names=("cow", "horse")), category="goat")
)
case(LABELS, "a photo that is not there")(lambda b: read_supports(coco(file_name="photos/cow7.jpg")))
case(LABELS, "a photo that was made smaller since")(lambda b: read_supports(coco(width=1280, height=960)))


@case(LABELS, "labels made without regard to the photo's EXIF orientation")
def exif(bench: Bench) -> None:
    orientation = Image.Exif()
    orientation[0x0112] = 6
    Image.open("cow.jpg").save("cow.jpg", exif=orientation)
    read_supports(coco())


case(LABELS, "the small JSON with a field it does not have")(lambda b: read_supports(small(colour="red")))
case(LABELS, "the small JSON without its photo")(lambda b: read_supports(small(image="cow9.jpg")))
case(LABELS, 'the small JSON with `"names": "abc"`')(lambda b: read_supports(small(names="abc")))


@case(LABELS, "half a JSON file")
def half(bench: Bench) -> str:
    path = coco()
    path.write_text(path.read_text()[:99])
    try:
        read_supports(path)
    except EdgeCapeError as error:
        return str(error).split(": ")[0] + ": …"  # what follows is Python's own
    return ""


@case(LABELS, "a list of COCO results")
def results(bench: Bench) -> None:
    Path("results.json").write_text(json.dumps([{"image_id": 1, "keypoints": [1, 2, 3], "score": 1}]))
    read_supports("results.json")


@case(LABELS, "a file of no known format")
def unknown(bench: Bench) -> None:
    Path("labels.txt").write_text("cow 1 2")
    read_supports("labels.txt")


case(LABELS, "a format that cannot be read")(lambda b: read_supports(small(), format="word"))


@case(LABELS, "a DeepLabCut .h5 that holds Python objects, which pandas would run")
def objects(bench: Bench) -> None:
    h5py = _h5py()
    with h5py.File("labels.h5", "w") as file:
        group = file.create_group("df_with_missing")
        group.attrs.update(pandas_type=b"frame", axis1_variety=b"regular")
        group.create_dataset("axis1", (1,), dtype=h5py.vlen_dtype(np.uint8))  # as PyTables keeps a pickle
    read_supports("labels.h5")


@case(LABELS, "an .h5 that leads to other files")
def links(bench: Bench) -> None:
    h5py = _h5py()
    with h5py.File("labels.h5", "w") as file:
        file["df_with_missing"] = h5py.ExternalLink("secret.h5", "/")
    read_supports("labels.h5")


def _h5py() -> Any:
    import h5py

    return h5py


# --- boxes of label files --------------------------------------------------------------------------------------------

BOXES = "Label files as boxes"
case(BOXES, "boxes given as two corners")(lambda b: read_boxes(coco(boxes=[(400, 100, 600, 300)])))
case(BOXES, "a box outside the photo")(lambda b: read_boxes(coco(boxes=[(700, 100, 50, 50)])))
case(BOXES, "a box of negative size")(lambda b: read_boxes(coco(boxes=[(300, 300, -50, -50)])))
case(BOXES, "a box without area")(lambda b: " ".join(read_boxes(coco(boxes=[(10, 10, 0, 50)])).notes))
case(BOXES, "a photo of another size than the file says")(
    lambda b: read_boxes(coco(boxes=[(10, 10, 90, 90)], width=1280, height=960)).find("cow.jpg")
)
case(BOXES, "a photo that the file does not list")(lambda b: read_boxes(coco()).find("goat.jpg"))

# --- what was saved --------------------------------------------------------------------------------------------------

SAVED = "Saved prompts and results"


@case(SAVED, "a file that is no prompt")
def no_prompt(bench: Bench) -> str:
    Path("cow.prompt").write_text("hello")
    try:
        Prompt.load("cow.prompt")
    except EdgeCapeError as error:
        return str(error).split(": ")[0] + ": …"
    return ""


case(SAVED, "a prompt that is not there")(lambda b: Prompt.load("gone.prompt"))
case(SAVED, "results for photos without a pose")(lambda b: formats.save_poses("out.json", [[]], ["cow.jpg"]))
case(SAVED, "a format that cannot be written")(
    lambda b: formats.save_poses("out.doc", b.predict(), ["cow.jpg"], format="word")
)

# --- the command line ------------------------------------------------------------------------------------------------

COMMANDS = "The command line"
case(COMMANDS, "a command that there is not")(lambda b: b.command("predit cow.jpg"))
case(COMMANDS, "`edgecape predict` without `--support`")(lambda b: b.command("predict cow.jpg"))
case(COMMANDS, "a support without marks")(lambda b: b.command("predict cow.jpg --support cow.jpg"))


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
