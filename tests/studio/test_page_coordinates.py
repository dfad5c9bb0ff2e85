"""What is clicked on the screen is what the service gets, on any photo, at any zoom, on any screen.

The photo has squares of strong colours at known pixels. Where a square is on the screen is read off a picture of the
screen, not asked of the page; a click there must store the square's photo pixel, and draw the marker there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from browser import COLOURS, Person, draw_targets, save

Visit = Callable[..., Person]
SMALL = {"width": 1190, "height": 640}
ZOOMS = (0, -700, 300)  # turns of the wheel, in pixels: the whole photo, four times as large, and smaller
PHOTOS = {"portrait": (600, 900), "landscape": (1300, 500), "square": (512, 512), "turned by EXIF": (640, 800)}


@pytest.mark.parametrize("ratio", [1, 1.5, 2, 3])
def test_clicks_store_the_pixels_that_are_seen(visit: Visit, tmp_path: Path, ratio: float) -> None:
    drawn = {name: draw_targets(size, seed) for seed, (name, size) in enumerate(PHOTOS.items())}
    files = [save(photo, tmp_path / f"{name}.png", "EXIF" in name) for name, (photo, _) in drawn.items()]
    person = visit(device_scale_factor=ratio, viewport=SMALL)
    person.page.route("**/api/v1/prompts", lambda route: route.fulfill(json={"id": "0" * 16}))  # needs no model
    person.choose("Choose a photo", *files)
    person.page.get_by_text(f"{len(files)} photos to mark").wait_for()  # until then each that arrives is shown
    scales = {name: mark_targets(person, number, drawn[name][1], ratio) for number, name in enumerate(PHOTOS)}
    stored = person.saved()["shots"]
    for shot, (name, (_, places)) in zip(stored, drawn.items(), strict=True):
        points = [(point["x"], point["y"]) for point in shot["points"]]
        off = np.abs(np.subtract(points, places)).max(axis=1) * scales[name]
        assert off.max() <= 0.5, (name, off)
        assert scales[name][1] > 3 * scales[name][0] > 3 * scales[name][2]
    person.shown(f"coordinates-{ratio}")

    start, (width, height) = drawn["turned by EXIF"][1][0], PHOTOS["turned by EXIF"]
    person.press("Show the whole photo")
    person.drag(start, (start[0] + width / 4, start[1] + height / 4))
    before, after = (shots[3]["points"][0] for shots in (stored, person.saved()["shots"]))
    off = np.subtract((after["x"] - before["x"], after["y"] - before["y"]), (width / 4, height / 4))
    assert np.abs(off).max() * person.frame()[2] <= 0.5


def mark_targets(person: Person, number: int, places: list[tuple[float, float]], ratio: float) -> list[float]:
    """Zoom to each coloured square, click its middle as it is seen, compare with where the page draws. The zooms."""
    person.page.locator(".thumb").nth(number).click()
    scales = []
    for k, (colour, place, zoom) in enumerate(zip(COLOURS, places, ZOOMS, strict=True)):
        person.page.keyboard.press("w")
        if zoom:
            whole = person.frame()[2]
            person.page.mouse.move(*person.on_screen(place))
            person.page.mouse.wheel(0, zoom * ratio)
            while person.frame()[2] == whole:
                person.page.wait_for_timeout(10)
        drawn = person.on_screen(place)
        target = person.seen(colour, near=drawn)
        assert np.abs(np.subtract(target, drawn)).max() <= 0.5
        person.page.mouse.click(*target)
        if number == 0:
            person.page.keyboard.press("Enter")  # the name that is offered
        assert np.abs(np.subtract(person.marker(k), target)).max() <= 0.5
        scales.append(person.frame()[2])
    person.page.keyboard.press("w")
    for k, place in enumerate(places):  # markers follow the photo
        assert np.abs(np.subtract(person.marker(k), person.on_screen(place))).max() <= 0.5
    return scales


def test_fingers_zoom_move_and_mark(visit: Visit, tmp_path: Path) -> None:
    photo, places = draw_targets((600, 900))
    person = visit(has_touch=True, is_mobile=True, viewport={"width": 820, "height": 1180}, device_scale_factor=2)
    person.choose("Choose a photo", save(photo, tmp_path / "targets.png"))
    before = person.frame()[2]
    x, y = person.on_screen(places[1])
    touch = person.page.context.new_cdp_session(person.page)

    def fingers(kind: str, *at: tuple[float, float]) -> None:
        points = [{"x": px, "y": py, "id": n} for n, (px, py) in enumerate(at)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    fingers("touchStart", (x - 30, y))
    fingers("touchStart", (x - 30, y), (x + 30, y))
    for spread in (40, 50, 60):
        fingers("touchMove", (x - spread, y), (x + spread, y))
    fingers("touchEnd", (x - 60, y))
    fingers("touchEnd")
    assert person.frame()[2] == pytest.approx(2 * before, rel=0.05)
    assert np.abs(np.subtract(person.on_screen(places[1]), (x, y))).max() < 3  # held between the fingers
    assert not person.saved()["names"]  # and nothing was marked
    person.page.touchscreen.tap(*person.on_screen(places[1]))
    person.page.keyboard.press("Enter")
    point = person.saved()["shots"][0]["points"][0]
    assert np.abs(np.subtract((point["x"], point["y"]), places[1])).max() * person.frame()[2] <= 0.5


def test_box(visit: Visit, tmp_path: Path) -> None:
    photo, _ = draw_targets((900, 600))
    person = visit()
    person.choose("Choose a photo", save(photo, tmp_path / "targets.png"))
    person.page.locator("#mark-stage").wait_for()
    person.page.keyboard.press("b")
    person.drag((700, 500), (100, 50))
    box = person.saved()["shots"][0]["box"]
    assert np.allclose(box, (100, 50, 600, 450), atol=0.5 / person.frame()[2])
    person.shown("box")
    person.press("Use the whole photo")
    assert person.saved()["shots"][0]["box"] is None
