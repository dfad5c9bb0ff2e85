"""The page as a person uses it: mark, connect, find, correct, export."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import Person, draw_beetle, save

Visit = Callable[..., Person]
NAMES = ("head", "left side", "right side", "tail", "feeler")
PORTRAIT, LANDSCAPE = (600, 900), (900, 600)


@pytest.fixture(scope="module")
def beetles(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, list[tuple[float, float]]]]:
    """Photos and keypoints; the first upright and portrait, one lying on its side with EXIF data."""
    folder = tmp_path_factory.mktemp("beetles")
    sizes = (PORTRAIT, LANDSCAPE, (640, 640), PORTRAIT)
    drawn = [draw_beetle(size, seed) for seed, size in enumerate(sizes)]
    return [(save(photo, folder / f"beetle {n}.png", n == 3), places) for n, (photo, places) in enumerate(drawn)]


def marked(visit: Visit, beetles: Any, **options: Any) -> Person:
    """Five keypoints on a portrait photo, connected by four edges."""
    photo, places = beetles[0]
    person = visit(**options)
    person.choose("Choose a photo", photo)
    person.mark(places, NAMES)
    person.press("Edges", "radio")
    for i, j in ((0, 1), (0, 2), (1, 3)):
        person.drag(places[i], places[j])
    person.click(places[0])
    person.click(places[4])
    return person


def found(visit: Visit, beetles: Any, **options: Any) -> Person:
    """And three other photos searched."""
    person = marked(visit, beetles, **options)
    person.press("Find on other photos")
    person.drop(*(photo for photo, _ in beetles[1:]))
    person.page.locator(".card.predicted").nth(2).wait_for(timeout=60_000)
    return person


def positions(points: list[dict[str, float]]) -> np.ndarray:
    return np.array([(point["x"], point["y"]) for point in points])


def test_mark_connect_find_correct_and_export(visit: Visit, beetles: Any, tmp_path: Path) -> None:
    person = marked(visit, beetles)
    person.shown("mark-connected")
    project = person.saved()
    assert project["names"] == list(NAMES)
    assert project["skeleton"] == [[0, 1], [0, 2], [1, 3], [0, 4]]
    half_a_pixel = 0.5 / person.frame()[2]
    assert np.abs(positions(project["shots"][0]["points"]) - beetles[0][1]).max() <= half_a_pixel

    person.press("Find on other photos")
    person.shown("find-empty")
    person.drop(*(photo for photo, _ in beetles[1:]))
    person.page.locator(".card.predicted").nth(2).wait_for(timeout=60_000)
    person.shown("find-grid")
    project = person.saved()
    poses = predicted_by_api(person, project)
    for query, pose in zip(project["queries"], poses, strict=True):
        assert np.allclose(query["pose"]["keypoints"], pose["keypoints"], atol=1e-3)
        assert np.allclose(query["pose"]["scores"], pose["scores"], atol=1e-4)

    person.page.locator(".card .open").first.click()
    person.shown("review")
    start, end = project["queries"][0]["pose"]["keypoints"][4], beetles[1][1][4]
    assert np.abs(np.subtract(person.marker(4), person.on_screen(start))).max() <= 0.5
    person.drag(start, end)
    corrected = person.saved()["queries"][0]["pose"]
    assert np.abs(np.subtract(corrected["keypoints"][4], end)).max() <= 0.5 / person.frame()[2]
    assert corrected["moved"] == [False] * 4 + [True]
    assert corrected["keypoints"][:4] == project["queries"][0]["pose"]["keypoints"][:4]

    person.press("Use as another shot")
    person.press("All photos")
    person.page.locator(".card.accepted").wait_for()
    project = person.searched()
    person.shown("find-second-shot")
    assert np.allclose(positions(project["shots"][1]["points"]), corrected["keypoints"])
    poses = predicted_by_api(person, project)
    for query, pose in list(zip(project["queries"], poses, strict=True))[1:]:
        assert np.allclose(query["pose"]["keypoints"], pose["keypoints"], atol=1e-3)

    person.press("Export")
    person.shown("export-menu")
    with person.page.expect_download() as download:
        person.press("COCO COCO keypoints")
    download.value.save_as(tmp_path / "labels.json")
    check_export(json.loads((tmp_path / "labels.json").read_text()), project)


def predicted_by_api(person: Person, project: Any) -> list[Any]:
    """The same question, asked by a script."""
    marks = {key: project[key] for key in ("names", "skeleton", "prior", "shots")}
    prompt = person.service.ask("prompts", marks)["id"]
    photos = [{"photo": query["photo"], "box": query["box"]} for query in project["queries"]]
    return [line["pose"] for line in person.service.ask("predictions", {"prompt": prompt, "photos": photos})]


def check_export(coco: Any, project: Any) -> None:
    names = {photo["id"]: photo["name"] for photo in project["photos"].values()}
    images = {image["file_name"].split("/")[-1]: image for image in coco["images"]}
    exported = {annotation["image_id"]: annotation["keypoints"] for annotation in coco["annotations"]}
    assert coco["categories"][0]["keypoints"] == project["names"]
    expected = {names[query["photo"]]: query["pose"]["keypoints"] for query in project["queries"]}
    expected |= {names[shot["photo"]]: positions(shot["points"]) for shot in project["shots"]}
    assert images.keys() == expected.keys()
    for name, places in expected.items():
        pixels = np.array(exported[images[name]["id"]]).reshape(-1, 3)
        assert np.allclose(pixels[:, :2], places, atol=0.01)
        assert (images[name]["width"], images[name]["height"]) in (PORTRAIT, LANDSCAPE, (640, 640))


def test_undo_and_redo_every_step_and_keep_what_was_found(visit: Visit, beetles: Any) -> None:
    person = found(visit, beetles)
    after = person.saved()
    undo = person.page.locator("#undo")
    steps = 0
    while undo.is_enabled():
        undo.click()
        steps += 1
    empty = person.saved()
    assert steps == 11  # photo, five keypoints with their names, four edges, three photos
    assert (empty["names"], empty["skeleton"], empty["shots"], empty["queries"]) == ([], [], [], [])
    person.page.locator("#tab-mark").click()
    for _ in range(steps):
        person.page.keyboard.press("Control+Shift+Z")
    again = person.saved()
    for key in ("names", "skeleton", "shots", "queries"):
        assert again[key] == after[key]
    person.page.locator("[data-point='2']").first.focus()
    for _ in range(3):
        person.page.keyboard.press("Shift+ArrowRight")
    moved = person.saved()["shots"][0]["points"][2]["x"]
    assert moved == pytest.approx(after["shots"][0]["points"][2]["x"] + 30)
    person.page.keyboard.press("Control+z")  # a run of arrow keys is one step
    assert person.saved()["shots"] == after["shots"]


def test_a_reload_restores_everything(visit: Visit, beetles: Any) -> None:
    person = found(visit, beetles)
    person.page.locator("#project-name").fill("beetle")
    person.page.keyboard.press("Enter")
    person.page.locator(".card .accept").first.click()
    before = person.saved()
    person.page.reload()
    person.page.locator("#mark-stage [data-point='4']").wait_for()
    assert person.page.locator("#mark-stage .edge").count() == 4
    assert person.page.locator("#project-name").input_value() == "beetle"
    person.press("Find", "tab")
    person.page.locator(".card.accepted").wait_for()
    person.page.get_by_label("Fade below").fill("0")
    queries = person.saved()["queries"]
    drawn = [person.drawn(n, query) for n, query in enumerate(queries)]
    assert all(all(dots.values()) for dots in drawn) and sum(map(len, drawn)) >= 6
    before["settings"]["scoreThreshold"], before["revision"] = 0, before["revision"] + 1
    assert person.saved() == before


def test_a_file_that_is_no_photo_is_named(visit: Visit, beetles: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a photo")
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff nothing")
    person = visit(expected=("415", "422"))
    person.drop(tmp_path / "notes.txt")
    person.page.get_by_role("alert").filter(has_text="notes.txt").wait_for()
    person.drop(tmp_path / "broken.jpg", beetles[0][0])  # the good one is taken
    person.page.get_by_role("alert").filter(has_text="broken.jpg").wait_for()
    person.page.locator("#mark-stage .picture").wait_for()
    person.shown("not-a-photo")
    assert len(person.saved()["shots"]) == 1


def test_marking_by_keyboard_alone(visit: Visit, beetles: Any) -> None:
    person = visit()
    person.choose("Choose a photo", beetles[0][0])
    keys = person.page.keyboard
    person.page.locator("#mark-stage").wait_for()
    for _ in range(40):  # from the top of the page to the photo
        keys.press("Tab")
        if person.page.evaluate("document.activeElement.id") == "mark-stage":
            break
    scale = person.frame()[2]
    for name, moves in (("head", ["ArrowUp"] * 3), ("tail", ["Shift+ArrowDown"] * 2 + ["ArrowLeft"])):
        for key in moves:
            keys.press(key)
        keys.press("Enter")
        keys.type(name)
        keys.press("Enter")
    points = positions(person.saved()["shots"][0]["points"])
    assert np.allclose(points[1] - points[0], np.array([-8, 80]) / scale, atol=0.02)
    keys.press("e")
    keys.press("Tab")  # to the chosen keypoint
    keys.press(",")
    assert "head" in person.page.evaluate("document.activeElement.getAttribute('aria-label')")
    keys.press("Enter")
    keys.press(".")
    keys.press("Enter")
    assert person.saved()["skeleton"] == [[0, 1]]
    person.shown("keyboard")
    keys.press("ArrowRight")
    keys.press("Shift+ArrowDown")
    moved = positions(person.saved()["shots"][0]["points"])
    assert np.allclose(moved - points, [(0, 0), (1, 10)], atol=0.001)
    label = person.page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert label.startswith(f"tail, x {moved[1][0]:.1f}, y {moved[1][1]:.1f}")
    keys.press("Delete")
    project = person.saved()
    assert (project["names"], project["skeleton"]) == (["head"], [])
    keys.press("Control+z")
    assert person.saved()["names"] == ["head", "tail"]
    keys.press("?")
    person.page.get_by_role("dialog").get_by_text("Ctrl+Z", exact=True).wait_for()
    person.shown("help")
