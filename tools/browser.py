"""A browser for the tests of pages: Chrome, Chromium or Edge if there is one.

python tools/browser.py   # gets Chromium if there is none: from playwright's servers, or from Debian as root
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

COMMANDS = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge",
    "microsoft-edge-stable", "msedge",
)  # fmt: skip
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
DEBIAN = ("apt-get", "install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core")


def find() -> str | None:
    """The program, or None."""
    return next((path for path in _places() if path is not None and Path(path).is_file()), None)


def _places() -> Iterator[str | None]:
    yield from map(shutil.which, COMMANDS)
    yield from PLACES
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return
    with sync_playwright() as playwright:
        yield playwright.chromium.executable_path  # where it would be if it had been fetched


def get() -> None:
    """Try to; what the programs say goes to the terminal."""
    subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)
    if find() is None and shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(["apt-get", "update"], check=False)
        subprocess.run(DEBIAN, check=False, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def main() -> int:
    if find() is None:
        get()
    found = find()
    print(f"browser: {found or 'none; install Chrome, Chromium or Edge'}")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
