"""From nothing to an export, in the two ways that need most of the page: without a mouse, and with a video."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from edgecape.drawing import palette
from edgecape.io.video import write_video

from browser import Person, Place, draw_beetle, save

Visit = Callable[..., Person]
NAMES = ("head", "left side", "right side", "tail")
EDGES = [[0, 1], [0, 2], [1, 3]]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, list[Place]]]:
    folder = tmp_path_factory.mktemp("beetles")
    drawn = [draw_beetle((900, 600), seed) for seed in range(3)]
    return [(save(photo, folder / f"beetle {n}.png"), places) for n, (photo, places) in enumerate(drawn)]


@pytest.fixture
def mouseless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever clicks, taps or fills in fails."""
    from playwright.sync_api import Locator, Mouse

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("this was to be done by keyboard alone")

    for kind, names in ((Mouse, ("click", "move", "down", "wheel")), (Locator, ("click", "fill", "tap", "focus"))):
        for name in names:
            monkeypatch.setattr(kind, name, refused)


def tab_to(person: Person, name: str, most: int = 30) -> None:
    """Press Tab until what is so called has the focus; few stops are on the way."""
    told = """() => { const at = document.activeElement;
        return at.matches("button, a, input, select") ? at.getAttribute("aria-label") ?? at.innerText : ""; }"""
    for _ in range(most):
        person.page.keyboard.press("Tab")
        if name in person.page.evaluate(told):
            return
    raise AssertionError(f"{name} is not within {most} stops")


def is_drawn(person: Person, k: int, K: int, place: Place) -> bool:
    """Is there a dot in the keypoint's colour on the screen, around where the photo has that place?"""
    x, y = person.on_screen(place)
    clip = {"x": round(x) - 8, "y": round(y) - 8, "width": 16, "height": 16}
    seen = np.asarray(Image.open(io.BytesIO(person.page.screenshot(clip=clip))).convert("RGB"), dtype=float)
    rows, columns = np.indices((16, 16)) + 0.5
    away = np.hypot(columns + clip["x"] - x, rows + clip["y"] - y)
    ring = seen[(away > 3) & (away < 5)]  # the crosshair may be in its middle
    return bool(np.abs(np.median(ring, axis=0) - palette(K)[k]).max() < 40)


def chosen(person: Person, *files: Path) -> None:
    """Enter, and the files that the system's dialog gives."""
    with person.page.expect_file_chooser() as chooser:
        person.page.keyboard.press("Enter")
    chooser.value.set_files([str(file) for file in files])


def steer(person: Person, start: Place, end: Place) -> None:
    """The crosshair, from one place of the photo to within half a step of another."""
    scale = person.frame()[2]
    for axis, (back, forth) in enumerate((("ArrowLeft", "ArrowRight"), ("ArrowUp", "ArrowDown"))):
        steps = round((end[axis] - start[axis]) * scale / 8)
        for coarse, number in (("Shift+", abs(steps) // 5), ("", abs(steps) % 5)):
            for _ in range(number):
                person.page.keyboard.press(coarse + (forth if steps > 0 else back))


def test_the_whole_loop_by_keyboard_alone(visit: Visit, photos: Any, mouseless: None, tmp_path: Path) -> None:
    """Open, mark, connect, find, review, correct, accept, export."""
    person = visit()
    page, keys = person.page, person.page.keyboard
    page.on("filechooser", lambda _: None)  # from now on dialogs are answered here, not by the system
    tab_to(person, "Choose a photo")
    chosen(person, photos[0][0])
    page.locator("#mark-stage:focus").wait_for()
    scale, at = person.frame()[2], (450.0, 300.0)  # the crosshair begins in the middle
    for name, place in zip(NAMES, photos[0][1], strict=False):
        steer(person, at, place)
        keys.press("Enter")
        keys.type(name)
        keys.press("Enter")
        point = person.saved()["shots"][0]["points"][-1]
        at = (point["x"], point["y"])
        assert np.abs(np.subtract(at, place)).max() * scale <= 5
        assert is_drawn(person, NAMES.index(name), len(NAMES), at)
    keys.press("e")
    for i, j in EDGES:
        for k in (i, j):
            keys.press(str(k + 1))
            keys.press("Enter")
    keys.press("Escape")
    assert person.saved()["skeleton"] == EDGES
    keys.press("f")
    tab_to(person, "Choose photos")
    chosen(person, *(file for file, _ in photos[1:]))
    found = person.searched(2)["queries"]

    keys.press("n")  # review, and put one right
    number = int(page.locator(".position").inner_text().split()[0]) - 1
    keys.press("4")
    before = found[number]["pose"]["keypoints"]
    wanted = np.array(before[3])
    for key, step in [("Shift+ArrowLeft", (-10, 0))] * 3 + [("ArrowDown", (0, 1))]:
        keys.press(key)
        wanted = np.clip(wanted + step, 0, (900, 600))  # the small model finds places beside the photo
    after = person.saved()["queries"][number]["pose"]["keypoints"]
    assert after[3] == pytest.approx(wanted, abs=0.02) and after[:3] == before[:3] and after[3] != before[3]
    assert is_drawn(person, 3, len(NAMES), tuple(after[3]))
    keys.press("Escape")
    for _ in range(2):
        keys.press("n")
        keys.press("Space")
    project = person.saved()
    assert [query["state"] for query in project["queries"]] == ["accepted"] * 2

    keys.press("f")
    tab_to(person, "Export")
    keys.press("Enter")
    tab_to(person, "COCO keypoints")
    with page.expect_download() as download:
        keys.press("Enter")
    download.value.save_as(tmp_path / "labels.json")
    coco = json.loads((tmp_path / "labels.json").read_text())
    assert coco["categories"][0]["keypoints"] == list(NAMES) and len(coco["annotations"]) == 3
    exported = np.array([one["keypoints"] for one in coco["annotations"]]).reshape(3, -1, 3)[1:, :, :2]
    assert np.allclose(exported, [query["pose"]["keypoints"] for query in project["queries"]], atol=0.01)


def test_a_clip_from_drop_to_export(visit: Visit, tmp_path: Path) -> None:
    """Drop it, mark its first frame, scrub, correct a frame, use it as a shot, find on the rest, export."""
    frames = [np.asarray(draw_beetle((320, 240), 0)[0].rotate(6 * n, fillcolor=(110, 110, 110))) for n in range(8)]
    places = draw_beetle((320, 240), 0)[1][:4]
    write_video(tmp_path / "beetle.mp4", frames, 4.0)
    person = visit()
    page = person.page
    person.drop(tmp_path / "beetle.mp4")
    person.press("30")  # as many frames as it has
    page.locator("#mark-stage .picture").wait_for()
    assert len(person.saved()["queries"]) == 7
    person.mark(places, NAMES)
    page.keyboard.press("f")
    queries = person.searched(7)["queries"]
    photos = person.service.project["photos"]
    assert [photos[query["photo"]]["frame"] for query in queries] == list(range(1, 8))

    page.locator(".card .open").first.click()
    slider = page.get_by_label("Frame of the video")
    looks = {}
    for at in (6, 3):  # scrub: the picture of that frame is on the screen
        slider.fill(str(at))
        page.get_by_text(f"beetle.mp4 · frame {at + 1} · 0:0{(at + 1) / 4:.2f}").wait_for()
        person.frame()  # decoded
        x, y = person.on_screen((0, 0))
        clip = {"x": x, "y": y, "width": 320 * person.frame()[2], "height": 240 * person.frame()[2]}
        picture = Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB").resize((320, 240))
        looks[at] = [np.abs(np.asarray(picture, float) - frame).mean() for frame in frames]
        assert int(np.argmin(looks[at])) == at + 1
    person.shown("video")
    start = queries[3]["pose"]["keypoints"][0]
    person.drag(start, (100, 60))
    corrected = person.saved()["queries"][3]["pose"]
    assert corrected["moved"] == [True, False, False, False]
    assert corrected["keypoints"][0] == pytest.approx([100, 60], abs=1)

    person.press("Use as another shot")
    page.keyboard.press("Escape")
    after = person.searched()
    assert [photos[shot["photo"]]["frame"] for shot in after["shots"]] == [0, 4]
    ids = {query["foundWith"] for n, query in enumerate(after["queries"]) if n != 3}
    assert len(ids) == 1 and ids != {queries[0]["foundWith"]}  # the rest was searched with both
    assert after["queries"][3]["pose"] == corrected

    person.press("Export")
    with page.expect_download() as download:
        person.press("DeepLabCut")
    download.value.save_as(tmp_path / "labels.csv")
    lines = (tmp_path / "labels.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[3:]] == [f"beetle.mp4#{n}" for n in range(8)]
    assert [float(cell) for cell in lines[3 + 4].split(",")[1:3]] == pytest.approx([100, 60], abs=1)
