"""The parts of the page one by one: keypoint list, graph, cards, files, trouble, and that everybody can use it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser import Person, draw_targets, save

Visit = Callable[..., Person]


def example(visit: Visit, name: str = "Cat", **options: Any) -> Person:
    person = visit(**options)
    person.press(name)
    person.page.locator("#mark-stage [data-point='0']").wait_for()
    return person


def with_graph(visit: Visit, **options: Any) -> Person:
    person = example(visit, **options)
    person.page.locator(".graph-drawing").first.wait_for(timeout=60_000)
    return person


def searched(visit: Visit) -> Person:
    """The example with its two other photos searched, and before them."""
    person = with_graph(visit)
    person.page.keyboard.press("f")
    person.page.locator(".card.predicted").nth(1).wait_for(timeout=60_000)
    return person


# --- keypoints -----------------------------------------------------------------------------------------------


def test_keypoints_are_renamed_reordered_hidden_and_deleted(visit: Visit) -> None:
    person = example(visit)
    before = person.saved()
    name = person.page.get_by_label("Name of keypoint 3")
    name.fill("snout")
    name.press("Enter")
    person.press("Move snout up")
    person.page.keyboard.press("ArrowUp")
    person.press("mouth is hidden")
    project = person.saved()
    assert project["names"] == ["left eye", "snout", "right eye", "mouth", "forehead"]
    assert sorted(map(tuple, project["skeleton"])) == [(0, 1), (0, 2), (0, 4), (1, 2), (1, 3), (2, 4)]
    assert project["shots"][0]["points"][1] == before["shots"][0]["points"][2]
    assert [point["hidden"] for point in project["shots"][0]["points"]] == [False, False, False, True, False]
    person.press("Delete snout")
    project = person.saved()
    assert project["names"] == ["left eye", "right eye", "mouth", "forehead"]
    assert sorted(map(tuple, project["skeleton"])) == [(0, 1), (0, 3), (1, 3)]
    name = person.page.get_by_label("Name of keypoint 1")
    name.fill("mouth")
    name.press("Enter")
    person.page.get_by_role("alert").filter(has_text="already a keypoint called “mouth”").wait_for()
    assert person.saved()["names"][0] == "left eye"


def test_a_second_photo_says_what_is_still_to_be_placed(visit: Visit, tmp_path: Path) -> None:
    person = example(visit)
    photo, places = draw_targets((500, 400))
    person.choose("Another photo", save(photo, tmp_path / "second.png"))
    hint = person.page.locator("#keypoint-hint")
    hint.get_by_text("Not on this photo yet: left eye, right eye, nose, mouth, forehead.").wait_for()
    person.click(places[0])
    person.press("Place mouth next")
    person.click(places[1])
    hint.get_by_text("Not on this photo yet: right eye, nose, forehead.").wait_for()
    person.shown("second-photo")
    project = person.saved()
    assert [point is not None for point in project["shots"][1]["points"]] == [True, False, False, True, False]
    person.page.locator("#mark-stage [data-point='3']").focus()
    person.page.keyboard.press("Delete")  # off this photo only
    project = person.saved()
    assert len(project["names"]) == 5
    assert project["shots"][0]["points"][3] is not None and project["shots"][1]["points"][3] is None


def test_edges_are_cut_by_a_click(visit: Visit) -> None:
    person = example(visit)
    (a, b) = (person.saved()["shots"][0]["points"][k] for k in (0, 4))
    person.press("Edges", "radio")
    person.click(((a["x"] + b["x"]) / 2, (a["y"] + b["y"]) / 2))
    assert [0, 4] not in person.saved()["skeleton"]


# --- graph ---------------------------------------------------------------------------------------------------


def test_graph_as_drawings_matrix_and_overlay(visit: Visit) -> None:
    person = with_graph(visit)
    page = person.page
    project = person.saved()
    given = page.locator("[data-graph=given] line")
    assert given.count() == len(project["skeleton"]) == 6
    person.shown("graph-drawing")
    person.press("Matrix", "radio")
    cell = page.locator("[data-cell='0-2']")
    cell.hover()
    readout = page.locator(".readout")
    assert readout.inner_text().startswith("left eye – nose: ")
    cell.focus()
    page.keyboard.press("ArrowRight")
    assert readout.inner_text().startswith("left eye – mouth: ")
    person.shown("graph-matrix")
    person.press("Show on the photo")
    page.locator("#mark-stage .edge:not(.skeleton)").first.wait_for()
    person.shown("graph-overlay")
    person.press("All", "radio", exact=True)
    person.press("Drawing", "radio")
    given.nth(9).wait_for(state="attached", timeout=60_000)
    person.press("None", "radio")
    given.first.wait_for(state="detached", timeout=60_000)
    assert person.saved()["prior"] == "none"
    page.get_by_label("Hide edges below").fill("0.5")
    assert person.saved()["settings"]["graphThreshold"] == 0.5


def test_kept_new_and_weakened_edges(visit: Visit) -> None:
    """Weights relative to the strongest, against the threshold and the skeleton that was drawn."""
    person = visit()
    edges = person.page.evaluate(
        """async () => {
            const { compareGraphs } = await import("./compare.js");
            const weights = [[0, 2, 0.1, 0.9], [2, 0, 0.7, 0], [0.1, 0.7, 0, 0.3], [0.9, 0, 0.3, 0]];
            return compareGraphs(weights, [[0, 1], [0, 2], [2, 3]], 0.3);
        }"""
    )
    assert {(edge["i"], edge["j"]): edge["kind"] for edge in edges} == {
        (0, 1): "kept",
        (0, 2): "weakened",
        (0, 3): "new",
        (1, 2): "new",
        (2, 3): "weakened",
    }
    assert max(edge["weight"] for edge in edges) == 1


def answering(person: Person, **answer: Any) -> None:
    """Find again, with a studio that says the same of every photo."""

    def same(route: Any) -> None:
        photos = route.request.post_data_json["photos"]
        lines = [json.dumps({"photo": photo["photo"], "index": n, **answer}) for n, photo in enumerate(photos)]
        route.fulfill(status=200, content_type="application/x-ndjson", body="\n".join(lines))

    person.page.route("**/api/v1/predictions", same)
    person.press("Find again")


# --- found photos --------------------------------------------------------------------------------------------


def test_review_accept_and_fade(visit: Visit) -> None:
    person = searched(visit)
    page = person.page
    queries = person.saved()["queries"]
    for threshold in (1, 0):
        page.get_by_label("Fade below").fill(str(threshold))
        page.wait_for_timeout(200)
        clear = [clear for n, query in enumerate(queries) for clear in person.drawn(n, query).values()]
        assert len(clear) >= 3 and set(clear) == {threshold == 0}
    page.locator(".card .open").first.click()
    page.locator(".scores li").nth(4).wait_for()
    page.keyboard.press("a")
    page.keyboard.press("]")
    page.get_by_text("2 of 2", exact=True).wait_for()
    page.keyboard.press("Escape")
    page.locator(".card.accepted").wait_for()
    assert [query["state"] for query in person.saved()["queries"]] == ["accepted", "predicted"]


def test_a_keypoint_added_later_leaves_what_was_accepted(visit: Visit) -> None:
    """One click in Mark un-accepted every pose; the new keypoint is one that they do not have yet."""
    person = searched(visit)
    page = person.page
    page.locator(".card .accept").first.click()
    before = person.saved()["queries"]
    page.keyboard.press("m")
    person.click((100, 250))
    page.keyboard.type("cheek")
    page.keyboard.press("Enter")
    page.keyboard.press("f")
    queries = person.saved()["queries"]
    assert [query["state"] for query in queries] == ["accepted", "predicted"]
    assert [query["pose"]["keypoints"] for query in queries] == [
        query["pose"]["keypoints"] + [None] for query in before
    ]
    page.get_by_text("2 found with other marks").wait_for()
    person.press("Find again")
    after = person.searched()["queries"]
    assert [query["state"] for query in after] == ["accepted", "predicted"]
    assert after[0]["pose"]["keypoints"][:5] == before[0]["pose"]["keypoints"]
    assert after[0]["pose"]["keypoints"][5] is not None  # what was lacking is filled in


def test_a_keypoint_that_was_not_found_can_be_placed(visit: Visit) -> None:
    """It is drawn nowhere and does not count in the score; a person chooses it in the list and clicks where it is."""
    person = searched(visit)
    page = person.page

    pose = {"keypoints": [[60, 60], [120, 60], None, None, [90, 30]], "scores": [0.5, 0.7, 0, 0, 0.6]}
    answering(person, pose=pose)
    page.locator(".card .score", has_text="0.60").nth(1).wait_for()
    saved = person.saved()
    for n, query in enumerate(saved["queries"]):
        assert person.drawn(n, query) == {0: True, 1: True, 4: True}
    assert saved["queries"][0]["pose"]["keypoints"][2:4] == [None, None]

    page.locator(".card .open").first.click()
    page.get_by_text("Not found: nose, mouth. Choose one below to place it.").wait_for()
    assert page.locator(".stage:visible [data-point]:visible").count() == 3
    assert page.locator(".scores .value").all_inner_texts() == ["0.50", "0.70", "not found", "not found", "0.60"]
    person.click((90, 150))  # nothing is chosen, so nothing is placed
    assert person.saved()["queries"] == saved["queries"]
    person.shown("not-found")
    person.press("nose, not found")
    page.get_by_text("Click where nose is.").wait_for()
    person.click((90, 100))
    pose = person.saved()["queries"][0]["pose"]
    assert pose["keypoints"][2] == pytest.approx([90, 100], abs=1) and pose["moved"] == [k == 2 for k in range(5)]
    assert page.locator(".stage:visible [data-point]:visible").count() == 4
    page.get_by_text("Not found: mouth.").wait_for()
    person.press("mouth, not found")  # and by keyboard
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert person.saved()["queries"][0]["pose"]["keypoints"][3] is not None
    page.keyboard.press("Control+z")
    assert person.saved()["queries"][0]["pose"] == pose
    person.press("Use as another shot")
    points = person.saved()["shots"][1]["points"]
    assert points[3] is None and points[2]["x"] == pytest.approx(90, abs=1)


def test_a_photo_that_fails_says_so_on_its_card(visit: Visit) -> None:
    person = searched(visit)
    page = person.page
    answering(person, error="'x.png' cannot be read")
    page.locator(".card.failed").nth(1).get_by_text("cannot be read").wait_for()
    person.shown("failed")
    page.unroute("**/api/v1/predictions")
    person.press("Try again")
    page.locator(".card.predicted").wait_for(timeout=60_000)
    assert sorted(query["state"] for query in person.saved()["queries"]) == ["failed", "predicted"]


# --- files ---------------------------------------------------------------------------------------------------


def test_projects_prompts_and_labels_come_back(visit: Visit, tmp_path: Path) -> None:
    person = searched(visit)
    page = person.page
    before = person.saved()
    files = {}
    for name, steps in {
        "project.zip": [("Project", "Save a copy")],
        "labels.zip": [("Export", "LabelMe")],
        "labels.json": [("Export", "COCO COCO")],
    }.items():
        with page.expect_download() as download:
            for menu, item in steps:
                person.press(menu, exact=True)
                person.press(item)
        download.value.save_as(tmp_path / name)
        files[name] = tmp_path / name
    page.keyboard.press("m")
    with page.expect_download() as download:
        person.press("Save as prompt")
    download.value.save_as(tmp_path / "cat.prompt")

    person = visit(expected=("404",))
    person.drop(tmp_path / "cat.prompt")
    person.page.get_by_text("cat.prompt is ready").wait_for()
    photo, _ = draw_targets((400, 300))
    person.drop(save(photo, tmp_path / "query.png"))
    person.page.locator(".card.predicted").wait_for(timeout=60_000)
    assert person.saved()["names"] == before["names"]

    person = visit(expected=("422",))  # the small model puts keypoints beside the photo
    person.drop(files["project.zip"])
    person.page.locator("#mark-stage [data-point='0']").wait_for()
    after = person.saved()
    for key in ("names", "skeleton", "shots", "queries", "photos"):
        assert after[key] == before[key]

    person.drop(files["labels.json"])  # the photos are in the project
    person.page.locator(".thumb").nth(2).wait_for()
    project = person.saved()
    assert project["names"] == before["names"] and len(project["shots"]) == 3


def test_a_new_project_is_asked_for_twice(visit: Visit) -> None:
    person = example(visit)
    person.saved()
    person.press("Project", exact=True)
    person.shown("project-menu")
    person.press("New, empty project")
    person.shown("new-project")
    person.press("Cancel")
    assert person.saved()["names"]
    person.press("Project", exact=True)
    person.press("New, empty project")
    person.press("Start empty", exact=True)
    person.page.get_by_text("Start with one photo").wait_for()
    assert not person.saved()["names"]


# --- trouble -------------------------------------------------------------------------------------------------


def test_nothing_is_lost_while_the_studio_does_not_answer(visit: Visit) -> None:
    person = example(visit, expected=("ERR_INTERNET_DISCONNECTED",))
    person.searched()
    page = person.page
    page.context.set_offline(True)
    person.page.get_by_label("Name of keypoint 1").fill("eye")
    person.page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="does not answer").wait_for()
    page.locator("#saving", has_text="Not saved").wait_for()
    person.shown("not-saved")
    page.context.set_offline(False)
    assert person.saved()["names"][0] == "eye"
    page.get_by_role("alert").wait_for(state="detached")


@pytest.mark.parametrize(("answer", "name"), [("Keep mine", "mine"), ("Show the other version", "theirs")])
def test_two_windows_do_not_overwrite_each_other(visit: Visit, answer: str, name: str) -> None:
    person = example(visit, expected=("409",))
    person.searched()
    other = visit(fresh=False)
    other.page.get_by_label("Name of keypoint 1").fill("theirs")
    other.page.keyboard.press("Enter")
    other.saved()
    person.page.get_by_label("Name of keypoint 1").fill("mine")
    person.page.keyboard.press("Enter")
    person.page.get_by_role("alert").filter(has_text="changed in another window").wait_for()
    person.press(answer)
    assert person.saved()["names"][0] == name
    assert person.page.get_by_label("Name of keypoint 1").input_value() == name


def test_a_busy_studio_is_waited_for(visit: Visit) -> None:
    person = visit(expected=("429",))
    page = person.page
    refused = []

    def busy(route: Any) -> None:
        if refused:
            return route.continue_()
        refused.append(True)
        return route.fulfill(status=429, headers={"Retry-After": "1"}, json={"error": "the queue is full"})

    page.route("**/api/v1/prompts", busy)
    person.press("Cat")
    page.get_by_text("The studio is busy").wait_for()
    page.locator(".graph-drawing").first.wait_for(timeout=60_000)
    assert refused
