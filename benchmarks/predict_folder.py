"""`edgecape predict` on a folder as people have them: real photos, and among them files that are damaged or odd.

    python benchmarks/predict_folder.py PHOTOS [--number 500] [--model MODEL] [--effort fast] [--draw]

PHOTOS is any folder of photos; `number` of them are linked into a temporary folder, over and over if there are fewer,
with three corrupt files, one photo of 1 × 1 pixel, one of 60 megapixels, one grey with 16 bits and one with EXIF
rotation. The command runs in a process of its own, whose resident memory is sampled (Linux). Its support is the first
photo with marks at random places, since nothing that is measured depends on them. Printed: time, processor time and
memory as the work proceeds, and whether all is as it should be. Processor time is what a busy machine disturbs least.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from PIL import Image

from edgecape.io.images import SUFFIXES, image_size

ODD = ("pixel.png", "sixty megapixels.jpg", "grey16.png", "turned.jpg")
CORRUPT = ("cut.jpg", "text.jpg", "empty.png")


def mixed_folder(photos: Path, folder: Path, number: int) -> Path:
    """`number` links to photos with the odd and corrupt files spread among them; returns the first photo."""
    found = [path for path in sorted(photos.rglob("*")) if path.suffix.lower() in SUFFIXES]
    if not found:
        sys.exit(f"{photos} holds no photos")
    for n, path in enumerate(islice(cycle(found), number)):
        (folder / f"{n:06d}{path.suffix}").symlink_to(path.resolve())
    with Image.open(found[0]) as picture:
        first = picture.convert("RGB")
    place = iter(f"{round(share * number):06d} " for share in np.linspace(0.1, 0.9, len(ODD) + len(CORRUPT)))
    Image.new("RGB", (1, 1)).save(folder / (next(place) + ODD[0]))
    first.resize((10000, 6000)).save(folder / (next(place) + ODD[1]))
    Image.fromarray(np.asarray(first.convert("L")).astype(np.uint16) * 200).save(folder / (next(place) + ODD[2]))
    exif = Image.Exif()
    exif[0x0112] = 6
    first.save(folder / (next(place) + ODD[3]), exif=exif)
    whole = (folder / f"000000{found[0].suffix}").read_bytes()
    for name, content in zip(CORRUPT, (whole[: len(whole) // 2], b"no picture", b""), strict=True):
        (folder / (next(place) + name)).write_bytes(content)
    return found[0]


def write_support(photo: Path, path: Path) -> None:
    places = np.random.default_rng(0).uniform(0.2, 0.8, (17, 2)) * image_size(photo)
    skeleton = [[k, k + 1] for k in range(16)]
    path.write_text(json.dumps({"image": str(photo.resolve()), "keypoints": places.tolist(), "skeleton": skeleton}))


def memory(process: int) -> tuple[float, float]:
    """Resident memory of a process now and at its peak, in megabytes."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(lines["VmRSS"].split()[0]) / 1e3, int(lines["VmHWM"].split()[0]) / 1e3


def processor(process: int) -> float:
    """Seconds of processor time a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


Row = tuple[int, float, float, float, float]


def watch(process: subprocess.Popen[str], parts: Path, marks: list[int]) -> list[Row]:
    """(photos done, seconds, processor time, memory, its peak so far) when each mark was reached, and at the end."""
    start, rows, last = time.perf_counter(), [], (0, 0.0, 0.0, 0.0, 0.0)
    waiting, done = sorted(marks), 0
    seen: set[Path] = set()
    while process.poll() is None:
        for part in set(parts.glob("part-*.jsonl")) - seen:
            seen.add(part)
            done += part.read_bytes().count(b"\n") - 2  # heading and checksum
        try:
            last = (done, time.perf_counter() - start, processor(process.pid), *memory(process.pid))
        except (OSError, KeyError):  # it has just ended
            break
        if waiting and done >= waiting[0]:
            rows.append(last)
            waiting = [mark for mark in waiting if mark > done]
        time.sleep(0.1)
    process.wait()
    return [*rows, last]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--number", type=int, default=500)
    parser.add_argument("--model", help="a model folder, hub id or checkpoint; the default model if not given")
    parser.add_argument("--effort", choices=("fast", "auto", "best"), default="auto")
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, output, support = Path(place, "photos"), Path(place, "out"), Path(place, "support.json")
        folder.mkdir()
        write_support(mixed_folder(options.photos, folder, options.number), support)
        command = [sys.executable, "-m", "edgecape.cli.main", "predict", str(folder), "--support", str(support)]
        command += ["-o", str(output), "--format", "coco", "--effort", options.effort]
        command += ["--draw"] if options.draw else []
        command += ["--model", options.model] if options.model else []
        with open(Path(place, "said"), "w+") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, text=True)
            marks = [round(share * options.number) for share in (0.02, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)]
            rows = watch(process, output / "parts", marks)
            said.seek(0)
            print(said.read())
        print(f"{'photos':>8}{'seconds':>10}{'processor':>11}{'memory':>12}{'peak so far':>14}")
        for done, seconds, busy, now, peak in rows:
            print(f"{done:>8}{seconds:>10.1f}{busy:>9.1f} s{now:>9.0f} MB{peak:>11.0f} MB", flush=True)
        found = json.loads((output / "predictions.json").read_text())["images"]
        left = [path.name for path in output.rglob(".*")]
        expected = options.number + len(ODD)
        print(
            f"\nexit code {process.returncode} (expected 1), {len(found)} photos in the results (expected {expected}),"
        )
        print(f"half-written files: {left or 'none'}")


if __name__ == "__main__":
    main()
