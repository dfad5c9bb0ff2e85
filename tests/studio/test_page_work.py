"""Work on the page that must not be lost, seen or waited for in vain: names, searches, history, keys."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from browser import Person, draw_beetle, save

Visit = Callable[..., Person]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, list[tuple[float, float]]]]:
    folder = tmp_path_factory.mktemp("beetles")
    drawn = [draw_beetle((900, 600), seed) for seed in range(4)]
    return [(save(photo, folder / f"beetle {n}.png"), places) for n, (photo, places) in enumerate(drawn)]


def found(visit: Visit, photos: Any, **options: Any) -> Person:
    person = visit(**options)
    person.choose("Choose a photo", photos[0][0])
    person.mark(photos[0][1], ("head", "left side", "right side", "tail", "feeler"))
    person.page.keyboard.press("f")
    person.drop(*(photo for photo, _ in photos[1:]))
    person.searched(3)
    return person


def exported(person: Person) -> int:
    person.saved()
    return len(person.service.ask("export", {"format": "coco"})["annotations"])


def test_what_is_typed_into_a_name_can_be_seen(visit: Visit, photos: Any) -> None:
    """The field was painted under the photo: the page had it, the screen did not."""
    person = visit()
    person.choose("Choose a photo", photos[0][0])
    person.click(photos[0][1][0])
    box = person.page.locator("input.namer").bounding_box()
    looks = []
    for text in ("", "wwwwww"):
        person.page.keyboard.type(text)
        person.page.wait_for_timeout(100)
        picture = Image.open(io.BytesIO(person.page.screenshot(clip=box))).convert("L")
        looks.append(np.asarray(picture, dtype=float))
    assert (looks[0] > 230).mean() > 0.5  # a light field, not the dull photo
    assert np.abs(looks[1] - looks[0]).max() > 100  # with dark letters in it


def test_poses_stay_while_they_are_searched_again(visit: Visit, photos: Any) -> None:
    """Find again and Stop took every unaccepted pose out of the export; now they stay, and Undo brings them back."""
    person = found(visit, photos, expected=("ERR",))
    page = person.page
    before = person.saved()["queries"]
    assert exported(person) == 4
    page.route("**/api/v1/predictions", lambda route: None)  # never answers
    person.press("Find again")
    page.locator(".card.found").nth(2).wait_for()
    assert exported(person) == 4
    person.press("Stop")
    assert [query["pose"] for query in person.saved()["queries"]] == [query["pose"] for query in before]
    page.unroute("**/api/v1/predictions")
    page.locator(".card .open").first.click()
    page.keyboard.press("s")
    page.keyboard.press("Escape")
    after = person.searched()["queries"]
    assert after[1]["pose"] != before[1]["pose"] and after[1]["earlier"] == before[1]["pose"]
    person.press("Take the shot back")
    back = person.saved()
    assert len(back["shots"]) == 1 and back["queries"][1]["pose"] == before[1]["pose"]
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    assert [query["pose"] for query in person.saved()["queries"]] == [query["pose"] for query in before]


def test_one_prompt_at_a_time_however_fast_one_marks(visit: Visit, photos: Any) -> None:
    person = visit()
    page = person.page
    flying, most, sent = set(), [0], [0]

    def on_request(request: Any) -> None:
        if request.url.endswith("/prompts"):
            flying.add(request)
            sent[0] += 1
            most[0] = max(most[0], len(flying))

    page.on("request", on_request)
    for event in ("requestfinished", "requestfailed"):
        page.on(event, lambda request: flying.discard(request))
    person.choose("Choose a photo", photos[0][0])
    for n in range(12):
        person.click((80 + 60 * n, 80 + 35 * n))
        page.keyboard.press("Enter")
    page.locator(".graph-drawing").first.wait_for(timeout=60_000)
    assert most[0] == 1 and sent[0] <= 6


def test_back_stays_in_the_studio_and_links_lead_to_a_photo(visit: Visit, photos: Any) -> None:
    person = found(visit, photos)
    page = person.page
    page.locator(".card .open").nth(1).click()
    link = page.url
    assert "#photo=" in link
    page.go_back()
    page.locator(".card").first.wait_for()
    page.go_back()
    page.locator("#mark-stage [data-point='0']").wait_for()
    page.goto("about:blank")
    page.goto(link)
    page.locator("#review-stage [data-point='0']").wait_for()
    page.get_by_text("2 of 3", exact=True).wait_for()


def test_reviewing_by_keyboard_alone(visit: Visit, photos: Any) -> None:
    """Next to correct, pick, move, hide, accept and go on; then several at once with Shift."""
    person = found(visit, photos)
    page, keys = person.page, person.page.keyboard
    keys.press("n")
    page.locator("#review-stage").wait_for()
    number = int(page.locator(".position").inner_text().split()[0]) - 1
    before = person.saved()["queries"][number]["pose"]
    keys.press("2")
    keys.press("Shift+ArrowRight")
    keys.press("1")
    keys.press("h")
    pose = person.saved()["queries"][number]["pose"]
    assert pose["moved"] == [True, True, False, False, False] and pose["keypoints"][0] is None
    assert pose["keypoints"][2:] == before["keypoints"][2:]
    keys.press("Space")
    assert person.saved()["queries"][number]["state"] == "accepted"
    keys.press("f")
    page.locator(".card .accept").first.click()
    page.locator(".card .accept").nth(2).click(modifiers=["Shift"])
    states = [query["state"] for query in person.saved()["queries"]]
    assert states.count("accepted") >= 2


def test_several_objects_on_one_photo(visit: Visit, photos: Any) -> None:
    person = found(visit, photos)
    page = person.page
    page.locator(".card .open").first.click()
    page.keyboard.press("o")
    person.drag((500, 100), (800, 500))
    queries = person.searched(4)["queries"]
    assert queries[0]["photo"] == queries[1]["photo"] and queries[0]["box"] is None and queries[1]["box"]
    assert queries[1]["pose"] and exported(person) == 5
    person.press("Remove object 2")
    assert len(person.saved()["queries"]) == 3
