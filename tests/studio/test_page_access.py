"""That everybody can use the page: names, contrast, sizes, and room on every screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser import Person, draw_beetle, save

Visit = Callable[..., Person]
SCREENS = {
    "small phone": {"width": 360, "height": 740},
    "phone": {"width": 412, "height": 915},
    "tablet": {"width": 1024, "height": 768},
    "laptop": {"width": 1440, "height": 900},
}
VIEWS = (
    "empty",
    "mark",
    "naming",
    "edges",
    "matrix",
    "find",
    "review",
    "compare",
    "objects",
    "help",
    "project",
    "export",
)

OVERFLOWS = """() => [...document.querySelectorAll("button, input, select, a, p, h2, label, summary, output")]
    .filter((element) => element.checkVisibility({ visibilityProperty: true }))
    .filter((element) => !element.closest(".sr, .skip, .shots"))
    .filter((element) => {
        const { left, right, width } = element.getBoundingClientRect();
        return width > 1 && (left < -1 || right > innerWidth + 1);
    })
    .map((element) => element.outerHTML.slice(0, 120))"""


def violations(page: Any) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [f"{rule['id']}: {node['html'][:140]} {node['target']}" for rule in found for node in rule["nodes"]]


def walk(person: Person, photos: list[Any], check: Callable[[str], None]) -> None:
    """From an empty project through every view."""
    page, (photo, places) = person.page, photos[0]
    check("empty")
    person.choose("Choose a photo", photo)
    page.locator("#mark-stage .picture").wait_for()
    person.click(places[0])
    check("naming")
    page.keyboard.type("head")
    page.keyboard.press("Enter")
    person.mark(places[1:], ("left side", "right side", "tail", "feeler"))
    page.keyboard.press("e")
    for i, j in ((0, 1), (0, 2), (1, 3)):
        person.drag(places[i], places[j])
    check("edges")
    page.keyboard.press("p")
    graph = page.locator("#mark-tools .opens-drawer").last
    if graph.is_visible():
        graph.click()
    page.locator(".graph-drawing").first.wait_for(timeout=60_000)
    check("mark")
    person.press("Matrix", "radio")
    check("matrix")
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    person.drop(*(photo for photo, _ in photos[1:]))
    person.searched(len(photos) - 1)
    check("find")
    page.locator(".card .open").first.click()
    check("review")
    page.keyboard.press("s")
    page.keyboard.press("Escape")
    person.searched()
    page.locator(".card.predicted .open").first.click()
    page.keyboard.press("c")
    check("compare")
    page.keyboard.press("c")
    page.keyboard.press("o")
    person.drag((100, 100), (300, 320))
    person.searched(len(photos))
    if page.locator("#review-tools .opens-drawer").is_visible():
        page.locator("#review-tools .opens-drawer").click()
    check("objects")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    check("help")
    page.keyboard.press("Escape")
    for menu in ("Project", "Export"):
        person.press(menu, exact=True)
        check(menu.lower())
        page.keyboard.press("Escape")


@pytest.fixture(scope="module")
def beetles(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, list[tuple[float, float]]]]:
    folder = tmp_path_factory.mktemp("beetles")
    drawn = [draw_beetle(size, seed) for seed, size in enumerate([(600, 900), (900, 600), (640, 640)])]
    return [(save(photo, folder / f"beetle {n}.png"), places) for n, (photo, places) in enumerate(drawn)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_every_view_on_every_screen(visit: Visit, beetles: Any, screen: str, scheme: str) -> None:
    """No finding of axe, nothing beside the screen, and a photo that has most of it."""
    touch = screen != "laptop"
    person = visit(viewport=SCREENS[screen], color_scheme=scheme, has_touch=touch)
    page, seen = person.page, []

    def check(view: str) -> None:
        person.shown(f"{screen}-{scheme}-{view}")
        seen.append(view)
        assert violations(page) == [], view
        assert page.evaluate(OVERFLOWS) == [], view
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        if view in ("edges", "review"):
            stage = page.locator(".stage:visible").bounding_box()
            share = stage["width"] * stage["height"] / SCREENS[screen]["width"] / SCREENS[screen]["height"]
            assert share > (0.4 if screen == "laptop" else 0.5), (view, share)

    walk(person, beetles, check)
    assert sorted(seen) == sorted(VIEWS)
