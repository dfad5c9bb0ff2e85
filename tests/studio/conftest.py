"""A running studio with a small model, and Chromium in front of it."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import Person, Service
from service import client, serving

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LAPTOP = {"width": 1366, "height": 768}


def _need(there: bool, what: str) -> None:
    """Without a browser there is nothing to test; where the tests must not be left out, that is a failure."""
    if there:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing, which the tests of the page need")
    pytest.skip(f"{what} is missing")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _need(False, "playwright")
    tool = Path(__file__).parents[2] / "tools/browser.py"
    chromium = runpy.run_path(str(tool))["find"]()
    _need(chromium is not None, "a browser (python tools/browser.py gets one)")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """With a small model: the page is the same before a large one."""
    with serving(client(tmp_path_factory.mktemp("studio") / "project").app) as address:
        yield Service(address)


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wanted = os.environ.get("EDGECAPE_SCREENSHOTS")
    folder = Path(wanted) if wanted else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def visit(browser: Any, service: Service, screenshots: Path) -> Iterator[Callable[..., Person]]:
    """Opens the page of an empty project, or of the one there is.

    Afterwards: nothing was asked of another server, and the console holds no error, but for the answers of the
    service that the test expects.
    """
    contexts, foreign, errors = [], [], []

    def open_page(expected: tuple[str, ...] = (), fresh: bool = True, **options: Any) -> Person:
        if fresh:
            service.reset()
        context = browser.new_context(**{"viewport": LAPTOP, "accept_downloads": True, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("request", lambda request: _is_local(request.url, service) or foreign.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))

        def on_console(message: Any) -> None:
            known = message.text.startswith("Failed to load") and any(word in message.text for word in expected)
            if message.type in ("error", "warning") and not known:
                errors.append(f"{message.text} ({message.location})")

        page.on("console", on_console)
        return Person(page, service, screenshots).open()

    yield open_page
    for context in contexts:
        context.close()
    assert not foreign
    assert not errors


def _is_local(url: str, service: Service) -> bool:
    return url.startswith((service.address, "blob:", "data:"))
