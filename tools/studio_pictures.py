"""Makes docs/images/studio-*.png anew: the studio on the zoo of examples/, in a real Chromium.

python tools/studio_pictures.py [--chromium PATH]
"""

from __future__ import annotations

import argparse
import io
import re
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1240, "height": 690}
SCHEMES = {"mark": "light", "find": "dark", "review": "light"}


def picture(page: Any, name: str) -> None:
    page.emulate_media(color_scheme=SCHEMES[name])
    page.mouse.move(2, 2)
    page.wait_for_timeout(800)
    seen = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    seen.quantize(256, dither=Image.Dither.NONE).save(IMAGES / f"studio-{name}.png", optimize=True)
    print(IMAGES / f"studio-{name}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chromium", default=runpy.run_path(str(ROOT / "tools" / "browser.py"))["find"]())
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    zoo = ROOT / "examples" / "zoo"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        command = [sys.executable, "-m", "edgecape.cli.main", "demo", "--support", str(zoo / "horse.json")]
        command += ["--query", str(zoo), "--output", folder, "--studio", "--no-browser", "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            address = next(found[0] for line in server.stdout or () if (found := re.search(r"http://\S+", line)))
            browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE)
            page.goto(address + "#mark")
            page.locator(".graph-drawing").first.wait_for(timeout=120_000)
            picture(page, "mark")
            page.keyboard.press("f")
            page.locator(".card.predicted").nth(3).wait_for(timeout=120_000)
            page.get_by_label("Sort").select_option("score")
            for number in (5, 6):
                page.locator(".card .accept").nth(number).click()
            picture(page, "find")
            page.locator(".card .open").nth(2).click()
            page.keyboard.press("3")
            picture(page, "review")
            browser.close()
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)


if __name__ == "__main__":
    main()
