"""What somebody at the studio's page waits for, in a real Chromium before the default model.

    python benchmarks/studio_page.py [marking] [first-pose] [many] [--chromium PATH] [--photos 500] [--points 20]

marking: 12 keypoints and 12 edges at ten a second; how long after the last one the graph is up to date, in times of one
prompt (of a photo that was never seen), and the most prompts that ever waited. first-pose: photos are dropped; how long
until the first pose can be seen, beside one prediction. many: a gallery of 500 photos with 20 keypoints each, while
sliders are moved and the gallery is scrolled: script time in each frame, from the browser's own trace, beside the time
that all work of a frame takes on a page that has a slider and a long list and nothing else.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import runpy
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

POINTS, EDGES, PACE = 12, 12, 0.1  # seconds from one action to the next
SCRIPT = {"EventDispatch", "FireAnimationFrame", "FunctionCall", "TimerFire", "RunMicrotasks", "EvaluateScript"}
WORK = SCRIPT | {"UpdateLayoutTree", "Layout", "PrePaint", "Paint", "Layerize", "HitTest", "ParseHTML", "Commit"}
EMPTY = """<!doctype html><title>empty</title><body style="margin: 0">
<input type="range" id="slider" style="width: 300px">
<div id="list" style="height: 600px; overflow: auto"><div style="height: 30000px"></div></div>"""


# --- the service ---------------------------------------------------------------------------------------------


class Studio:
    def __init__(self, address: str):
        self.address = address

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}api/v1/{path}", data, {"Content-Type": kind}, method=method)
        with urllib.request.urlopen(request, timeout=600) as answer:
            text = answer.read().decode()
        return (
            [json.loads(line) for line in text.splitlines()]
            if "ndjson" in answer.headers["Content-Type"]
            else json.loads(text)
        )

    def upload(self, pictures: list[tuple[str, bytes]]) -> list[str]:
        edge = uuid.uuid4().hex
        parts = [
            f'--{edge}\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'.encode()
            + data
            + b"\r\n"
            for name, data in pictures
        ]
        body = b"".join(parts) + f"--{edge}--\r\n".encode()
        return [
            photo["id"] for photo in self.ask("POST", "photos", body, f"multipart/form-data; boundary={edge}")["photos"]
        ]


@contextmanager
def studio() -> Iterator[Studio]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "edgecape.cli.main", "studio", folder, "--port", "0", "--no-browser"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            found = Studio(re.search(r"http://\S+", server.stdout.readline())[0])  # type: ignore[index, union-attr]
            while found.ask("GET", "status")["model"]["state"] == "loading":
                time.sleep(0.2)
            yield found
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)


def picture(seed: int, size: tuple[int, int] = (640, 480)) -> bytes:
    """Different for every seed; what it shows does not matter to the time."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8))
    file = io.BytesIO()
    coarse.resize(size, Image.Resampling.BICUBIC).save(file, "JPEG", quality=85)
    return file.getvalue()


def marks(photo: str, points: int = POINTS, shift: float = 0.0) -> dict[str, Any]:
    places = [{"x": 60 + 40 * (k % 12) + shift, "y": 60 + 30 * (k % 11)} for k in range(points)]
    edges = [[k, k + 1] for k in range(points - 1)]
    return {"names": [f"p{k}" for k in range(points)], "skeleton": edges, "shots": [{"photo": photo, "points": places}]}


def timed(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


# --- what is measured ----------------------------------------------------------------------------------------


def open_page(page: Any, service: Studio, place: str = "") -> None:
    page.goto(service.address + place)
    page.locator("body.ready").wait_for()


def until(page: Any, condition: str) -> None:
    """The page's policy lets nobody evaluate text inside it, so it is asked from outside."""
    for _ in range(2400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise TimeoutError(condition)


def marking(page: Any, service: Studio) -> None:
    service.ask("POST", "prompts", marks(service.upload([("warm.jpg", picture(1))])[0]))  # the first costs more
    fresh = [service.upload([(f"{n}.jpg", picture(10 + n))])[0] for n in range(3)]
    prompt = statistics.median(timed(lambda id_=id_: service.ask("POST", "prompts", marks(id_))) for id_ in fresh)
    open_page(page, service)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a photo").click()
    chooser.value.set_files({"name": "marked.jpg", "mimeType": "image/jpeg", "buffer": picture(2)})
    page.locator("#mark-stage .picture").wait_for()
    page.locator("#mark-stage .picture").evaluate("(image) => image.decode()")
    page.wait_for_timeout(500)
    frame = page.locator("#mark-stage .picture").bounding_box()
    places = [
        (
            frame["x"] + frame["width"] * (0.15 + 0.7 * (k % 4) / 3),
            frame["y"] + frame["height"] * (0.2 + 0.3 * (k // 4)),
        )
        for k in range(POINTS)
    ]
    waiting, over = [0], threading.Event()

    def watch() -> None:
        while not over.is_set():
            waiting.append(service.ask("GET", "status")["queue"]["prompts"])
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    page.evaluate(
        """() => {
            window.upToDate = null;
            const panel = document.getElementById("graph");
            new MutationObserver(() => {
                const drawn = panel.querySelectorAll("[data-graph=given] line").length;
                const busy = panel.classList.contains("thinking");
                if (!busy && drawn === 12) window.upToDate ??= performance.timeOrigin + performance.now();
                else window.upToDate = null;
            }).observe(panel, { subtree: true, childList: true, attributes: true });
        }"""
    )
    pairs = [(k, k + 1) for k in range(POINTS - 1)] + [(0, POINTS - 1)]
    begun = time.time()
    for number in range(POINTS + EDGES):
        time.sleep(max(0.0, begun + number * PACE - time.time()))
        if number < POINTS:
            page.mouse.click(*places[number])
            page.keyboard.press("Enter")  # the name that is offered
            continue
        if number == POINTS:
            page.keyboard.press("e")
        i, j = pairs[number - POINTS]
        page.mouse.move(*places[i])
        page.mouse.down()
        page.mouse.move(*places[j])
        page.mouse.up()
    last = time.time()
    until(page, "window.upToDate")
    after = page.evaluate("window.upToDate") / 1000 - last
    over.set()
    watcher.join()
    pace = (last - begun) / (POINTS + EDGES - 1)
    print(f"marking      {POINTS} keypoints and {EDGES} edges, one each {pace:.2f} s")
    print(f"  prompt of a new photo   {prompt:.2f} s")
    print(f"  graph up to date        {after:.2f} s after the last action: {after / prompt:.2f} prompts")
    print(f"  prompts that waited     {max(waiting)} at most, of {len(waiting)} looks")


def first_pose(page: Any, service: Studio, photos: int = 20) -> None:
    shot, query = service.upload([("shot.jpg", picture(100)), ("query.jpg", picture(101))])
    id_ = service.ask("POST", "prompts", marks(shot))["id"]
    wanted = {"prompt": id_, "photos": [{"photo": query}]}
    one = statistics.median([timed(lambda: service.ask("POST", "predictions", wanted)) for _ in range(4)][1:])
    revision = service.ask("GET", "project")["revision"]
    service.ask("PUT", "project", marks(shot) | {"revision": revision})
    open_page(page, service, "#find")
    page.wait_for_timeout(2000)  # the prompt of the marks is there by then
    files = [(f"{n}.jpg", list(picture(200 + n, (2000, 1500)))) for n in range(photos)]
    page.evaluate(
        """(files) => {
            const transfer = new DataTransfer();
            for (const [name, bytes] of files) transfer.items.add(new File([new Uint8Array(bytes)], name));
            window.seen = null;
            const cards = document.getElementById("cards");
            new MutationObserver(() => {
                if (cards.querySelector(".card.predicted"))
                    requestAnimationFrame(() => (window.seen ??= performance.now()));
            }).observe(cards, { subtree: true, childList: true, attributes: true });
            window.dropped = performance.now();
            const how = { dataTransfer: transfer, bubbles: true, cancelable: true };
            document.body.dispatchEvent(new DragEvent("drop", how));
        }""",
        files,
    )
    until(page, "window.seen")
    took = page.evaluate("window.seen - window.dropped") / 1000
    print(f"first pose   {photos} photos of 3 megapixels dropped")
    print(f"  one prediction          {one:.2f} s")
    print(f"  first pose is seen      {took:.2f} s after: one prediction + {took - one:.2f} s")


def many(browser: Any, page: Any, service: Studio, photos: int, points: int) -> None:
    ids: list[str] = []
    for start in range(0, photos, 50):
        some = range(start, min(start + 50, photos))
        ids += service.upload([(f"photo {n}.jpg", picture(1000 + n, (320, 240))) for n in some])
    rng = np.random.default_rng(0)
    shot, *others = ids
    queries = [
        {
            "photo": id_,
            "state": "predicted",
            "pose": {
                "keypoints": rng.uniform((10, 10), (310, 230), (points, 2)).round(2).tolist(),
                "scores": rng.uniform(0, 1, points).round(3).tolist(),
                "moved": [False] * points,
            },
        }
        for id_ in others
    ]
    project = marks(shot, points) | {"queries": queries, "revision": service.ask("GET", "project")["revision"]}
    for point in project["shots"][0]["points"]:
        point["x"], point["y"] = point["x"] / 2, point["y"] / 2
    service.ask("PUT", "project", project)

    page.set_content(EMPTY)
    empty = frames_of(traced(browser, page, lambda: (slide(page, "#slider"), scroll(page, "#list"))))
    usual = statistics.mean(work for _, work in empty)
    print(f"many         {photos} photos with {points} keypoints")
    print(f"  an empty page           {usual:.2f} ms of work in a frame")
    open_page(page, service, "#find")
    page.locator(".card.predicted").first.wait_for()
    page.wait_for_timeout(3000)
    nodes = page.evaluate("document.querySelectorAll('*').length")
    print(f"  elements on the page    {nodes}")
    show("fade slider", frames_of(traced(browser, page, lambda: slide(page, "#score-threshold"))), usual)
    show("scrolling the gallery", frames_of(traced(browser, page, lambda: scroll(page, "#cards"))), usual)
    sort = page.get_by_label("Sort")
    show("sorting", frames_of(traced(browser, page, lambda: sort.select_option("score"))), usual)
    page.locator(".card .open").first.click()
    page.locator("#review-stage .picture").wait_for()

    def leaf() -> None:
        for _ in range(10):
            page.keyboard.press("]")
            page.wait_for_timeout(50)

    def drag() -> None:
        box = page.locator("#review-stage [data-point='3']").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        for step in range(30):
            page.mouse.move(box["x"] + 5 * step, box["y"] + 20)
            page.wait_for_timeout(16)
        page.mouse.up()

    show("from photo to photo", frames_of(traced(browser, page, leaf)), usual)
    show("dragging a keypoint", frames_of(traced(browser, page, drag)), usual)
    page.keyboard.press("m")
    page.get_by_label("Hide edges below").wait_for(timeout=60_000)
    slider = "#graph-threshold, #graph input[type=range]"
    show("graph slider", frames_of(traced(browser, page, lambda: slide(page, slider))), usual)


def slide(page: Any, slider: str) -> None:
    box = page.locator(slider).first.bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + box["height"] / 2)
    page.mouse.down()
    for step in range(40):
        page.mouse.move(box["x"] + box["width"] * step / 40, box["y"] + box["height"] / 2)
        page.wait_for_timeout(16)
    page.mouse.up()
    page.wait_for_timeout(700)  # what is put off until it is let go, saving too


def scroll(page: Any, where: str) -> None:
    box = page.locator(where).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    for step in range(60):
        page.mouse.wheel(0, 400 if step < 40 else -700)
        page.wait_for_timeout(16)
    page.wait_for_timeout(300)


# --- the browser's trace -------------------------------------------------------------------------------------


def traced(browser: Any, page: Any, act: Callable[[], Any]) -> list[dict[str, Any]]:
    browser.start_tracing(page=page, categories=["devtools.timeline", "blink.user_timing"])
    act()
    return json.loads(browser.stop_tracing())["traceEvents"]


def frames_of(events: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Milliseconds of scripts, and of all work on the page's own thread, in each frame that was made. Styles that a
    script asks for before the frame count as the script's."""
    threads = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    ours = [event for event in events if (event["pid"], event["tid"]) in threads and "ts" in event]
    busiest = statistics.mode([(event["pid"], event["tid"]) for event in ours])
    ours = [event for event in ours if (event["pid"], event["tid"]) == busiest]
    ends = sorted(event["ts"] for event in ours if event["name"] == "AnimationFrame::Render" and event["ph"] == "e")
    spans = sorted(
        (event["ts"], event["ts"] + event["dur"], event["name"])
        for event in ours
        if event.get("ph") == "X" and event["name"] in WORK
    )
    found = np.zeros((len(ends) + 1, 2))
    end = 0.0
    for start, stop, name in spans:
        if start < end:
            continue  # inside another one
        end = stop
        frame = np.searchsorted(ends, start, side="right")
        found[frame] += np.array([name in SCRIPT, True]) * (stop - start) / 1000
    return [(float(script), float(work)) for script, work in found if work > 0]


def show(what: str, frames: list[tuple[float, float]], usual: float) -> None:
    script, work = (np.array(values) for values in zip(*frames, strict=True))
    told = f"script {script.mean():.1f} ms, worst {script.max():.1f} ({script.max() / usual:.0f} of the empty page's)"
    print(f"  {what:23} {len(frames)} frames: {told}; all work {work.mean():.1f}, worst {work.max():.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["marking", "first-pose", "many"])
    parser.add_argument("--chromium")
    parser.add_argument("--photos", type=int, default=500)
    parser.add_argument("--points", type=int, default=20)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    tool = Path(__file__).parents[1] / "tools" / "browser.py"
    chromium = options.chromium or runpy.run_path(str(tool))["find"]()
    with studio() as service, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        parts: dict[str, Callable[[Any], None]] = {
            "marking": lambda page: marking(page, service),
            "first-pose": lambda page: first_pose(page, service),
            "many": lambda page: many(browser, page, service, options.photos, options.points),
        }
        for what in options.what:
            page = browser.new_page(viewport={"width": 1366, "height": 768})
            parts[what](page)
            page.close()
            service.ask("POST", "project/reset")
        browser.close()


if __name__ == "__main__":
    main()
