"""edgecape predict: keypoints on many photos from one or a few marked ones."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, UseAppendAction, arg

if TYPE_CHECKING:
    from rich.progress import Progress

    from edgecape.batch.parts import Journal
    from edgecape.formats.boxes import Boxes
    from edgecape.formats.labels import Entry
    from edgecape.predictor import EdgeCape
    from edgecape.types import Prompt, Support

SOME_FAILED = 1
KEPT = "what was found is kept: the same command with --skip-existing, and perhaps another --format, writes it"
Flag = Annotated[bool, FlagCreatePairsOff]


def predict(
    queries: Positional[Annotated[tuple[str, ...], arg(metavar="PHOTO|FOLDER|GLOB|LIST.txt|VIDEO")]],
    support: UseAppendAction[tuple[Path, ...]] = (),
    points: str | None = None,
    edges: str | None = None,
    output: Annotated[Path, arg(aliases=("-o",))] = Path("edgecape-output"),
    format: str = "csv",
    draw: Flag = False,
    boxes: Path | None = None,
    skip_existing: Flag = False,
    smooth: Flag = False,
    save_prompt: Path | None = None,
    model: str | None = None,
    batch_size: int = 8,
) -> int:
    """Find the keypoints of one or a few marked photos on other photos of that kind of object, or on videos.

    Example: edgecape predict photos/ --support cow.json -o out --format coco --draw

    Example: edgecape predict b.jpg c.jpg --support a.jpg --points "120,80 64,200 30,90" --edges "0-1 1-2"

    Example: edgecape predict clip.mp4 --support cow.json -o out --smooth --draw

    Every finished photo is kept at once, in journal.jsonl of the output folder. After a crash or Ctrl-C, the same
    command with --skip-existing goes on from there; after a finished run it does what is new, or writes another format.

    Exit code: 0 all was done, 1 some photos could not be done (they are named), 2 bad input.

    Args:
        queries: Photos, folders of photos, patterns, text files with a photo per line, or videos (mp4, avi, mov, mkv,
            webm), whose frames are called clip.mp4#0, clip.mp4#1, …
        support: A marked photo: our small JSON, COCO, LabelMe or another label file, a saved .prompt, or a photo with
            --points; repeat it for several shots.
        points: Keypoints "x,y x,y …" of a support given as a photo.
        edges: Skeleton "0-1 1-2 …" of a support given as a photo; all connected if not given.
        output: Folder for the results.
        format: Of the results: csv, coco, coco-results, cvat, deeplabcut, labelme, labelstudio, sleap, yolo.
        draw: Also draw the keypoints on every photo and video, in the folder "drawn" of the output folder.
        boxes: Label file (COCO, also of boxes only, or another format) with the objects to look at, by photo; the
            whole photo is looked at if not given.
        skip_existing: Keep what an earlier run with this output folder found.
        smooth: Steady the keypoints in videos (One-Euro filter); they trail by 2 % of the box side at most.
        save_prompt: Also save what was learned of the support, to be used as --support FILE.prompt without the photos.
        model: A model folder, hub id or official checkpoint; the default model if not given.
        batch_size: Photos per forward pass.
    """
    from edgecape.batch import outputs as results
    from edgecape.batch.queries import find_queries
    from edgecape.errors import AnnotationError, EdgeCapeError, SettingsError
    from edgecape.formats.boxes import read_boxes
    from edgecape.io.video import is_video

    found = find_queries(queries, output)
    results.check_format(format, found)
    check_folder(output)
    if batch_size < 1:
        raise SettingsError(f"--batch-size is {batch_size}; give 1 or more")
    if smooth and not any(is_video(path) for path in found):
        raise SettingsError("--smooth is for videos, and there is none; leave it out or name a video")
    if not support:
        raise AnnotationError("no support is given; show the model a marked photo with --support")
    saved = len(support) == 1 and support[0].suffix == ".prompt"
    shots = [] if saved else [shot for path in support for shot in read_support(path, points, edges)]
    looked_at = None if boxes is None else read_boxes(boxes)
    for note in looked_at.notes if looked_at else ():
        print(note, file=sys.stderr)

    print("loading the model …", flush=True)
    from edgecape.batch.parts import Journal
    from edgecape.predictor import EdgeCape
    from edgecape.types import Prompt

    estimator = EdgeCape.from_pretrained(model)
    prompt = Prompt.load(support[0]) if saved else estimator.prompt(shots)
    if save_prompt is not None:
        prompt.save(save_prompt)
    digest = "" if looked_at is None else looked_at.digest
    with Journal(output / "journal.jsonl", prompt, digest, resume=skip_existing) as journal:
        try:
            summary, failed = _predict_all(estimator, prompt, found, journal, looked_at, batch_size)
        except KeyboardInterrupt:
            print("what was found is kept; the same command with --skip-existing goes on from there", file=sys.stderr)
            raise
    entries = results.Steadied(journal) if smooth else journal
    try:
        target = results.write_results(output, entries, format)
    except EdgeCapeError as error:
        raise type(error)(f"{error} ({KEPT})") from error
    if target is not None:
        summary += f"\n  results  {target}"
    if draw:
        with _progress() as progress:
            done = progress.track(results.draw_all(output, entries, keep=skip_existing), description="drawing")
            failed += [str(error) for error in done if error is not None]
        summary += f"\n  drawn    {output / results.DRAWN}"
    print(summary + _doubtful(journal))
    for message in failed:
        print(f"failed: {message}", file=sys.stderr)
    return SOME_FAILED if failed else 0


def _predict_all(
    estimator: EdgeCape, prompt: Prompt, queries: list[Path], journal: Journal, boxes: Boxes | None, batch_size: int
) -> tuple[str, list[str]]:
    """A line that says what happened, and messages of what could not be done."""
    from edgecape.batch.queries import count
    from edgecape.batch.run import run
    from edgecape.errors import EdgeCapeError

    done, before, failed = 0, 0, []
    start = time.perf_counter()
    with _progress() as progress:
        task = progress.add_task("predicting", total=count(queries))
        for outcome in run(estimator, prompt, queries, journal, boxes, batch_size):
            if isinstance(outcome, EdgeCapeError):
                failed.append(str(outcome))
            elif outcome is None:
                before += 1
            else:
                done += 1
            progress.advance(task)
    rate = done / (time.perf_counter() - start)
    return f"{done} done ({rate:.1f} per second), {before} done before, {len(failed)} failed", failed


def _progress() -> Progress:
    """A bar that goes when it is done; none where nobody watches."""
    from rich.progress import MofNCompleteColumn, Progress

    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    return Progress(*columns, transient=True, disable=not sys.stdout.isatty())


def _doubtful(entries: Iterable[Entry], number: int = 3) -> str:
    """The least certain results, for a person to look at first."""
    count, total = 0, 0.0
    lowest: list[tuple[float, str]] = []
    for entry in (entry for entry in entries if entry.poses):
        score = min(pose.score for pose in entry.poses)
        count, total = count + 1, total + score
        lowest = sorted([*lowest, (score, entry.file)])[:number]
    if count <= number:
        return ""
    named = ", ".join(f"{file} ({score:.2f})" for score, file in lowest)
    return f"\n  scores   {total / count:.2f} on average; look first at {named}"


def check_folder(output: Path) -> None:
    """That results can be written there: found out before the work, and without making the folder."""
    from edgecape.errors import DataError

    there = next(path for path in (output.absolute(), *output.absolute().parents) if path.exists())
    if not there.is_dir():
        raise DataError(f"{there} is a file; give a folder for the results with -o")
    if not os.access(there, os.W_OK):
        raise DataError(f"nothing can be written to {there}; choose another folder with -o")


def read_support(path: Path, points: str | None, edges: str | None) -> list[Support]:
    from edgecape.errors import AnnotationError
    from edgecape.formats.supports import read_supports
    from edgecape.io.images import SUFFIXES
    from edgecape.types import Support

    if path.suffix.lower() not in SUFFIXES:
        supports, notes = read_supports(path)
        for note in notes:
            print(note, file=sys.stderr)
        return supports
    if points is None:
        raise AnnotationError(f'{path} is a photo without marks; add --points "x,y x,y …" or give a label file')
    try:
        keypoints = [tuple(float(value) for value in point.split(",")) for point in points.split()]
        skeleton = None if edges is None else [tuple(int(k) for k in edge.split("-")) for edge in edges.split()]
    except ValueError:
        raise AnnotationError(f'points are "x,y x,y …" and edges "0-1 1-2 …", got {points!r} and {edges!r}') from None
    return [Support(path, keypoints, skeleton)]


def main(arguments: list[str]) -> int:
    return tyro.cli(predict, prog="edgecape predict", args=arguments)
