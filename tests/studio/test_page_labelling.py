"""What somebody who labels all day relies on: messages, order, many photos, objects, shots, searches that go on."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from browser import Person, draw_beetle, save

Visit = Callable[..., Person]
NAMES = ("head", "left side", "right side", "tail", "feeler")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, list[tuple[float, float]]]]:
    folder = tmp_path_factory.mktemp("beetles")
    drawn = [draw_beetle((900, 600), seed) for seed in range(4)]
    return [(save(photo, folder / f"beetle {n}.png"), places) for n, (photo, places) in enumerate(drawn)]


def marked(visit: Visit, photos: Any, **options: Any) -> Person:
    person = visit(**options)
    person.choose("Choose a photo", photos[0][0])
    person.mark(photos[0][1], NAMES)
    return person


def found(visit: Visit, photos: Any, **options: Any) -> Person:
    person = marked(visit, photos, **options)
    person.page.keyboard.press("f")
    person.drop(*(photo for photo, _ in photos[1:]))
    person.searched(3)
    return person


def poses_of(person: Person, keypoints: Any, scores: Any = None, wait: Callable[[], None] = lambda: None) -> None:
    """From now on the studio says the same of every photo."""

    def same(route: Any) -> None:
        wait()
        pose = {"keypoints": keypoints, "scores": scores or [0.5] * len(keypoints), "effort": "fast"}
        wanted = route.request.post_data_json["photos"]
        lines = [json.dumps({"photo": one["photo"], "index": n, "pose": pose}) for n, one in enumerate(wanted)]
        route.fulfill(status=200, content_type="application/x-ndjson", body="\n".join(lines))

    person.page.route("**/api/v1/predictions", same)


# --- messages ------------------------------------------------------------------------------------------------


def test_messages_are_a_list_that_covers_nothing(visit: Visit, photos: Any, tmp_path: Path) -> None:
    """One line for each file with the reason; it can be folded, and no control is below it."""
    person = marked(visit, photos, expected=("415", "422"))
    page = person.page
    bad = [tmp_path / f"bad {n}.jpg" for n in range(4)]
    for path in bad:
        path.write_bytes(b"\xff\xd8\xff nothing")
    person.drop(*bad)
    page.get_by_text("4 problems").wait_for()
    lines = page.locator("#notice-list li p").all_inner_texts()
    assert [any(f"bad {n}.jpg" in line for line in lines) for n in range(4)] == [True] * 4
    covered = """() => [...document.querySelectorAll("button, input, .stage")]
        .filter((one) => one.checkVisibility() && !one.closest("#notices, .sr, .shots, .panel"))
        .filter((one) => {
            const { left, top, width, height } = one.getBoundingClientRect();
            const above = document.elementFromPoint(left + width / 2, top + height / 2);
            return !above || !(one.contains(above) || above.contains(one));
        }).map((one) => one.outerHTML.slice(0, 100))"""
    assert page.evaluate(covered) == []
    person.shown("messages")
    tall = page.locator(".stage:visible").bounding_box()["height"]
    page.locator("#notices summary").click()  # folded: the photo has its room again
    assert page.locator(".stage:visible").bounding_box()["height"] > tall + 50
    page.locator("#notices summary").click()
    person.press("Dismiss all")
    page.locator("#notices").wait_for(state="hidden")


# --- which photo next ----------------------------------------------------------------------------------------


def test_photos_are_sorted_and_chosen(visit: Visit, photos: Any) -> None:
    person = found(visit, photos)
    page = person.page
    shown = lambda: page.locator(".card .name").all_inner_texts()  # noqa: E731
    score = {
        person.service.project["photos"][query["photo"]]["name"]: np.mean(query["pose"]["scores"])
        for query in person.saved()["queries"]
    }
    page.get_by_label("Sort").select_option("score")
    assert shown() == sorted(score, key=score.__getitem__)
    page.locator(".card .accept").first.click()
    worst, *others = shown()
    page.get_by_label("Show", exact=True).select_option("unreviewed")
    assert shown() == others
    page.get_by_label("Show", exact=True).select_option("accepted")
    assert shown() == [worst]
    page.get_by_label("Show", exact=True).select_option("all")
    person.press("Export", exact=True)
    with page.expect_download():
        person.press("COCO COCO")
    page.keyboard.press("n")
    page.keyboard.press("1")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    page.get_by_label("Show", exact=True).select_option("since")
    assert len(shown()) == 1


def test_of_many_photos_those_that_are_seen_exist(visit: Visit, photos: Any) -> None:
    """And scrolling shows all of them."""
    person = marked(visit, photos)
    project, page = person.saved(), person.page
    ids = []
    for start in range(0, 300, 100):
        files = [("files", (f"{n:03d}.png", small(n))) for n in range(start, start + 100)]
        ids += upload(person, files)
    pose = {"keypoints": [[10 + k, 20] for k in range(5)], "scores": [0.9] * 5, "moved": [False] * 5}
    queries = [{"photo": id_, "pose": pose, "state": "predicted"} for id_ in ids]
    person.service.ask("project", {**project, "queries": queries}, "PUT")
    assert len(ids) == 300
    page.reload()
    page.locator("body.ready").wait_for()
    page.keyboard.press("f")
    page.locator(".card").first.wait_for()
    assert page.locator(".card").count() < 60 and page.evaluate("document.querySelectorAll('*').length") < 3000
    seen = set()
    for _ in range(60):
        seen |= set(page.locator(".card .name").all_inner_texts())
        page.locator("#cards").evaluate("(host) => host.scrollBy(0, 400)")
        page.wait_for_timeout(30)
    assert len(seen) == 300


def small(number: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (40, 30), (number % 256, number // 256, 90)).save(file, "PNG")
    return file.getvalue()


def upload(person: Person, files: Any) -> list[str]:
    import httpx

    answer = httpx.post(person.service.address + "api/v1/photos", files=files, timeout=60)
    return [photo["id"] for photo in answer.json()["photos"]]


# --- searches ------------------------------------------------------------------------------------------------


def test_what_a_person_moved_stays_and_a_closer_look_can_be_asked_for(visit: Visit, photos: Any) -> None:
    """The effort is chosen for all, told with each pose, and raised for one."""
    person = found(visit, photos)
    page, asked = person.page, []
    page.on("request", lambda request: asked.append(request) if request.url.endswith("/predictions") else None)
    page.get_by_label("Effort").select_option("fast")
    person.press("Find again")
    queries = person.searched()["queries"]
    assert asked[-1].post_data_json["effort"] == "fast"
    assert [query["pose"]["effort"] for query in queries] == ["fast"] * 3
    page.locator(".card .open").first.click()
    page.get_by_text("Found at a first look (effort: fast).").wait_for()
    page.keyboard.press("1")
    page.keyboard.press("ArrowUp")
    moved = person.saved()["queries"][0]["pose"]["keypoints"][0]
    person.press("Look harder")
    page.get_by_text("Found by looking in every way (effort: best).").wait_for()
    pose = person.saved()["queries"][0]["pose"]
    assert asked[-1].post_data_json["effort"] == "best" and len(asked[-1].post_data_json["photos"]) == 1
    assert pose["effort"] == "best" and pose["keypoints"][0] == moved
    assert not page.get_by_role("button", name="Look harder").is_visible()  # nothing is left to try
    assert page.get_by_role("button", name="Forget my corrections").is_visible()


def test_a_keypoint_that_no_shot_shows_does_not_hold_up_the_search(visit: Visit, photos: Any) -> None:
    person = found(visit, photos)
    page = person.page
    page.locator(".card .open").first.click()
    page.keyboard.press("5")
    page.keyboard.press("h")  # no feeler here
    page.keyboard.press("s")
    page.keyboard.press("m")
    page.locator(".thumb").nth(1).click()
    page.get_by_text("Not on this photo yet: feeler.").wait_for()
    person.press("Remove beetle 0.png")  # the one shot that showed it
    page.get_by_text("Not looked for, because no photo shows it: feeler.").wait_for()
    page.keyboard.press("f")
    person.press("Find again")
    queries = person.searched()["queries"]
    places = queries[1]["pose"]["keypoints"]
    assert places[4] is None and all(places[:4])
    page.locator(".card .open").nth(1).click()
    page.get_by_text("Not looked for, because no shot shows it: feeler.").wait_for()


def test_a_search_goes_on_when_the_studio_is_back(visit: Visit, photos: Any) -> None:
    """Nobody has to press anything."""
    person = marked(visit, photos, expected=("ERR_FAILED",))
    page = person.page
    page.locator(".graph-drawing").first.wait_for(timeout=60_000)
    page.keyboard.press("f")
    failing = [True]
    page.route("**/api/v1/predictions", lambda route: route.abort() if failing else route.continue_())
    person.drop(*(photo for photo, _ in photos[1:]))
    page.get_by_role("alert").filter(has_text="does not answer").wait_for()
    failing.clear()
    assert all(query["pose"] for query in person.searched(3)["queries"])
    page.get_by_role("alert").wait_for(state="detached")


# --- shots and objects ---------------------------------------------------------------------------------------


def test_a_shot_that_disagrees_is_told(visit: Visit, photos: Any) -> None:
    person = found(visit, photos)
    page = person.page
    page.locator(".card .open").first.click()
    photo = person.saved()["queries"][0]["photo"]
    line = json.dumps({"photo": photo, "index": 1, "distance": 0.4, "worst": [3]})
    page.route("**/check", lambda route: route.fulfill(status=200, content_type="application/x-ndjson", body=line))
    page.keyboard.press("s")
    told = "beetle 1.png disagrees with the other shots. The other shots put its keypoints 40 % of the object away"
    page.get_by_role("alert").filter(has_text=told).wait_for(timeout=60_000)
    page.keyboard.press("m")
    assert page.locator(".thumb .badge").all_inner_texts() == ["5/5", "!"]


def test_what_another_shot_changed_is_told_and_seen(visit: Visit, photos: Any) -> None:
    """How far keypoints moved, which fell onto each other, both poses side by side, and the way back."""
    person = visit()
    page = person.page
    poses_of(person, [[100, 100], [300, 100], [100, 400], [300, 400], [700, 300]])
    person.choose("Choose a photo", photos[0][0])
    person.mark(photos[0][1], NAMES)
    page.keyboard.press("f")
    person.drop(*(photo for photo, _ in photos[1:]))
    before = person.searched(3)["queries"]
    page.unroute("**/api/v1/predictions")
    poses_of(person, [[100, 100], [300, 100], [100, 400], [105, 405], [700, 300]])
    page.locator(".card .open").first.click()
    page.keyboard.press("s")
    page.keyboard.press("Escape")
    person.searched()
    page.get_by_text("With beetle 1.png as a shot, keypoints of 2 poses moved, by 6.5 % of the object").wait_for()
    page.get_by_text("On 2 photos, keypoints fell onto each other.").wait_for()
    page.locator(".card .open").nth(1).click()
    page.get_by_text("Since the last search at one place: right side and tail.").wait_for()
    page.keyboard.press("c")
    page.wait_for_timeout(300)
    left, right = (page.locator(where).bounding_box() for where in ("#review-before", "#review-stage"))
    assert left["x"] + left["width"] <= right["x"] and left["width"] == pytest.approx(right["width"], abs=3)
    person.shown("before-and-after")
    page.keyboard.press("Escape")
    person.press("Take the shot back")
    assert [query["pose"] for query in person.saved()["queries"]][1:] == [query["pose"] for query in before][1:]


def test_boxes_are_copied_from_photo_to_photo(visit: Visit, photos: Any) -> None:
    person = found(visit, photos)
    page = person.page
    page.locator(".card .open").first.click()
    for start, end in (((100, 100), (400, 500)), ((500, 100), (800, 500))):
        page.keyboard.press("o")
        person.drag(start, end)
        person.searched()
    page.keyboard.press("]")
    person.press("Boxes of the photo before")
    queries = person.searched(6)["queries"]
    boxes = {}
    for query in queries:
        boxes.setdefault(query["photo"], []).append(query["box"])
    one, two, three = boxes.values()
    assert [box for box in one if box] == two and len(two) == 2 and three == [None]
    assert all(query["pose"] for query in queries)


def test_a_template_is_put_on_the_photo_and_few_tab_stops_come_before_it(visit: Visit, photos: Any) -> None:
    person = visit()
    page = person.page
    person.choose("Choose a photo", photos[0][0])
    person.press("Template")
    person.press("Person")
    project = person.saved()
    assert len(project["names"]) == len(project["shots"][0]["points"]) >= 12
    assert all(0 < point["x"] < 900 and 0 < point["y"] < 600 for point in project["shots"][0]["points"])
    page.reload()
    page.locator("#mark-stage [data-point='0']").wait_for()
    page.evaluate("document.activeElement.blur()")
    stops = 0
    while page.evaluate("document.activeElement.id") != "mark-stage":
        page.keyboard.press("Tab")
        stops += 1
        assert stops < 20  # there were 73 with twelve keypoints
    person.shown("template")


def test_names_do_not_overlap(visit: Visit, photos: Any) -> None:
    """Twenty keypoints near each other: what is written can be read, and the chosen one is always written."""
    person = visit()
    page = person.page
    person.choose("Choose a photo", photos[0][0])
    for k in range(20):
        person.click((300 + 35 * (k % 5), 200 + 30 * (k // 5)))
        page.keyboard.type(f"a long name {k}")
        page.keyboard.press("Enter")
    page.keyboard.press("3")
    boxes = page.locator("#mark-stage .labels text").evaluate_all(
        """(all) => all.filter((text) => text.checkVisibility()).map((text) => {
            const { left, right, top, bottom } = text.getBBox ? text.getBoundingClientRect() : {};
            return [left, right, top, bottom];
        })"""
    )
    assert 3 <= len(boxes) < 20
    clash = [
        (a, b)
        for n, a in enumerate(boxes)
        for b in boxes[n + 1 :]
        if min(a[1], b[1]) - max(a[0], b[0]) > 2 and min(a[3], b[3]) - max(a[2], b[2]) > 4
    ]
    assert clash == []
    assert page.locator("#mark-stage .labels text", has_text="a long name 2").first.is_visible()
    person.shown("labels")
