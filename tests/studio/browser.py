"""A person at the studio's page: photos to work on, and what eyes and hands do, in real Chromium."""

from __future__ import annotations

import base64
import io
import json
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from edgecape.drawing import palette

COLOURS = ((255, 0, 255), (0, 255, 255), (255, 255, 0))  # of the targets; nothing else on a photo is so strong
Place = tuple[float, float]


# --- photos --------------------------------------------------------------------------------------------------


def ground(size: tuple[int, int], seed: int) -> Image.Image:
    """A dull texture that is like none of its mirror images."""
    width, height = size
    rng = np.random.default_rng(seed)
    coarse = rng.integers(90, 160, (height // 24 + 2, width // 24 + 2), dtype=np.uint8)
    grey = np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC), dtype=np.float64)
    grey = grey + np.linspace(-30, 30, width)[None] + np.linspace(20, -20, height)[:, None]
    return Image.fromarray(np.clip(np.stack([grey, grey * 0.97, grey * 0.93], axis=2), 0, 255).astype(np.uint8))


def draw_beetle(size: tuple[int, int], seed: int) -> tuple[Image.Image, list[Place]]:
    """A beetle somewhere on the photo: head, left and right side, tail, and the end of one feeler."""
    rng = np.random.default_rng(seed)
    shape = np.array([(0, -0.30), (-0.16, 0.02), (0.16, 0.02), (0, 0.34), (0.17, -0.42)])
    angle, scale = rng.uniform(-0.5, 0.5), 0.8 * min(size) * rng.uniform(0.85, 1.0)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    points = (shape @ turn.T * scale + np.array(size) * rng.uniform(0.47, 0.53, 2)).round(1)
    head, left, right, tail, feeler = (tuple(point) for point in points.tolist())
    photo = ground(size, seed)
    pen = ImageDraw.Draw(photo)
    pen.line([head, feeler], fill=(40, 30, 30), width=max(2, round(scale / 60)))
    pen.polygon([head, left, tail, right], fill=(170, 60 + 10 * (seed % 5), 40), outline=(60, 20, 20))
    pen.line([head, tail], fill=(60, 20, 20), width=max(2, round(scale / 80)))
    for (x, y), radius in ((head, scale / 14), (tail, scale / 30)):
        pen.ellipse([x - radius, y - radius, x + radius, y + radius], fill=(35, 35, 45))
    return photo, [head, left, right, tail, feeler]


def draw_targets(size: tuple[int, int], seed: int = 0) -> tuple[Image.Image, list[Place]]:
    """A photo with a square of each colour and where their centres are."""
    photo = ground(size, seed)
    side = round(min(size) / 24) * 2
    places = []
    for colour, (across, down) in zip(COLOURS, ((0.2, 0.15), (0.83, 0.4), (0.35, 0.88)), strict=True):
        left, top = round(across * size[0]), round(down * size[1])
        photo.paste(colour, (left, top, left + side, top + side))
        places.append((left + side / 2, top + side / 2))
    return photo, places


def save(photo: Image.Image, path: Path, turned: bool = False) -> Path:
    """As PNG; turned: lying on its side, with EXIF data that say so."""
    if not turned:
        photo.save(path)
        return path
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90° clockwise
    photo.transpose(Image.Transpose.ROTATE_90).save(path.with_suffix(".jpg"), quality=95, subsampling=0, exif=exif)
    return path.with_suffix(".jpg")


# --- the service, without the page ---------------------------------------------------------------------------


class Service:
    def __init__(self, address: str):
        self.address = address

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + "api/v1/" + path, data, method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
        if answer.headers["Content-Type"].startswith("application/x-ndjson"):
            return [json.loads(line) for line in text.splitlines()]
        return json.loads(text) if text else None

    def reset(self) -> None:
        self.ask("project/reset", method="POST")

    @property
    def project(self) -> Any:
        return self.ask("project")


# --- the page ------------------------------------------------------------------------------------------------


class Person:
    """Someone with a mouse before a page."""

    def __init__(self, page: Any, service: Service, screenshots: Path):
        self.page, self.service, self.screenshots = page, service, screenshots

    def open(self) -> Person:
        self.page.goto(self.service.address)
        self.page.locator("body.ready").wait_for()
        return self

    def press(self, name: str, role: str = "button", exact: bool = False) -> None:
        self.page.get_by_role(role, name=name, exact=exact).first.click()

    def choose(self, button: str, *files: Path) -> None:
        with self.page.expect_file_chooser() as chooser:
            self.press(button)
        chooser.value.set_files([str(file) for file in files])

    def drop(self, *files: Path) -> None:
        """From the desktop onto the page."""
        content = [(file.name, base64.b64encode(file.read_bytes()).decode()) for file in files]
        self.page.evaluate(
            """(files) => {
                const transfer = new DataTransfer();
                for (const [name, text] of files) {
                    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
                    transfer.items.add(new File([bytes], name));
                }
                const how = { dataTransfer: transfer, bubbles: true, cancelable: true };
                document.body.dispatchEvent(new DragEvent("drop", how));
            }""",
            content,
        )

    def searched(self, queries: int = 0) -> Any:
        """The project once it has so many queries and nothing is searched any more."""
        for _ in range(600):
            busy = self.page.evaluate("document.querySelector('#find-bar progress')?.checkVisibility() ?? false")
            project = self.saved()
            there = len(project["queries"]) >= queries
            if there and not busy and all(query["state"] != "waiting" for query in project["queries"]):
                return project
            self.page.wait_for_timeout(100)
        raise AssertionError("photos are still waiting")

    def saved(self) -> Any:
        """The project as the service has it, once the page says that it is saved."""
        self.page.wait_for_timeout(50)
        self.page.locator("#saving[data-state=saved]").wait_for(state="attached")
        return self.service.project

    def shown(self, name: str) -> None:
        self.page.wait_for_timeout(150)
        self.page.screenshot(path=self.screenshots / f"{name}.png")

    def drawn(self, card: int, query: Any) -> dict[int, bool]:
        """Of the keypoints that a card should show: is there a clear dot in its colour, or a faded one or none?

        Looked up in a picture of the card; places beside the photo and below another dot are left out.
        """
        place = self.page.locator(".card .open").nth(card)
        photo = self.service.project["photos"][query["photo"]]
        seen = np.asarray(Image.open(io.BytesIO(place.screenshot())).convert("RGB"), dtype=np.float64)
        height, width = seen.shape[:2]
        scale = min(width / photo["width"], height / photo["height"])
        left, top = (width - scale * photo["width"]) / 2, (height - scale * photo["height"]) / 2
        places = {
            k: np.array([left + scale * at[0], top + scale * at[1]])
            for k, at in enumerate(query["pose"]["keypoints"])
            if at and 8 < at[0] * scale < photo["width"] * scale - 8 and 8 < at[1] * scale < photo["height"] * scale - 8
        }
        colours = np.array(palette(len(query["pose"]["keypoints"])), dtype=np.float64)
        found = {}
        for k, (x, y) in places.items():
            if any(other > k and np.hypot(*(places[other] - (x, y))) < 10 for other in places):
                continue
            dot = seen[round(y) - 1 : round(y) + 2, round(x) - 1 : round(x) + 2].reshape(-1, 3)
            found[k] = bool(np.abs(np.median(dot, axis=0) - colours[k]).max() < 50)
        return found

    # --- the photo on the stage, measured without the page's own maths ---

    def frame(self) -> tuple[float, float, float]:
        """Left and top of the photo on the screen, and screen pixels per photo pixel."""
        left, top, scale = self.page.locator(".stage:visible .picture").evaluate(
            """async (image) => {
                await image.decode();
                const frame = image.getBoundingClientRect();
                return [frame.left, frame.top, frame.width / image.naturalWidth];
            }"""
        )
        return left, top, scale

    def on_screen(self, place: Place) -> Place:
        left, top, scale = self.frame()
        return left + place[0] * scale, top + place[1] * scale

    def click(self, place: Place) -> None:
        self.page.mouse.click(*self.on_screen(place))

    def drag(self, start: Place, end: Place) -> None:
        (x, y), (to_x, to_y) = self.on_screen(start), self.on_screen(end)
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move((x + to_x) / 2, (y + to_y) / 2)
        self.page.mouse.move(to_x, to_y, steps=3)
        self.page.mouse.up()

    def mark(self, places: Sequence[Place], names: Sequence[str]) -> None:
        for place, name in zip(places, names, strict=True):
            self.click(place)
            self.page.keyboard.type(name)
            self.page.keyboard.press("Enter")

    def marker(self, k: int) -> Place:
        """Centre of a drawn keypoint on the screen."""
        box = self.page.locator(f".stage:visible [data-point='{k}'] .rim").bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def seen(self, colour: tuple[int, int, int], near: Place, reach: float = 80) -> Place:
        """Where the middle of that colour is on the screen, in CSS pixels, looked up in a picture of it."""
        stage = self.page.locator(".stage:visible").bounding_box()
        left, top = max(near[0] - reach, stage["x"]), max(near[1] - reach, stage["y"])
        right = min(near[0] + reach, stage["x"] + stage["width"])
        bottom = min(near[1] + reach, stage["y"] + stage["height"])
        x, y, width, height = (2 * round(value / 2) for value in (left, top, right - left, bottom - top))
        clip = {"x": x, "y": y, "width": width, "height": height}  # even numbers are whole pixels on a 1.5 screen too
        pixels = np.asarray(Image.open(io.BytesIO(self.page.screenshot(clip=clip))).convert("RGB"), dtype=np.float64)
        share = np.clip(1 - np.abs(pixels - colour).sum(axis=2) / 200, 0, 1)
        assert share.sum() > 20, "the colour is not on the screen"
        rows, columns = np.indices(share.shape) + 0.5
        ratio = pixels.shape[1] / clip["width"]
        across, down = ((at * share).sum() / share.sum() / ratio for at in (columns, rows))
        return x + across, y + down
