"""edgecape predict: keypoints on many photos from one or a few marked ones."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, UseAppendAction, arg

from edgecape.io.edge_base import EdgeBase
from edgecape.runtime.base import Effort

if TYPE_CHECKING:
    from edgecape.batch.run import Report, Tally
    from edgecape.types import Prompt, Support

SOME_FAILED = 1
GOES_ON = "what was found is kept; the same command goes on from there"
EVERY = 10.0  # seconds between lines of progress where no bar can be drawn
Flag = Annotated[bool, FlagCreatePairsOff]


def predict(
    queries: Positional[Annotated[tuple[str, ...], arg(metavar="PHOTO|FOLDER|GLOB|LIST.txt|VIDEO|URI")]],
    support: UseAppendAction[tuple[Path, ...]] = (),
    points: UseAppendAction[tuple[str, ...]] = (),
    edges: str | None = None,
    support_format: str | None = None,
    support_images: Path | None = None,
    support_category: str | None = None,
    edge_base: EdgeBase = "auto",
    output: Annotated[str, arg(aliases=("-o",))] = "edgecape-output",
    format: str = "csv",
    category: str = "object",
    image_ids: Path | None = None,
    draw: Flag = False,
    names: Flag = False,
    boxes: Path | None = None,
    propagate: int = 0,
    overwrite: Flag = False,
    smooth: Flag = False,
    save_prompt: Path | None = None,
    model: str | None = None,
    runtime: Literal["torch", "onnx"] | None = None,
    effort: Effort = "auto",
    batch_size: int | None = None,
    shard: str | None = None,
    shard_size: int | None = None,
    engine: Literal["local", "ray"] = "local",
    workers: int | None = None,
    quiet: Flag = False,
    as_json: Annotated[bool, FlagCreatePairsOff, arg(name="json")] = False,
) -> int:
    """Find the keypoints of one or a few marked photos on other photos of that kind of object, or on videos.

    Example: edgecape predict photos/ --support cow.json -o out --format coco --draw

    Example: edgecape predict b.jpg c.jpg --support a.jpg --points "120,80 64,200 30,90" --edges "0-1 1-2"

    Example: edgecape predict clip.mp4 --support cow.json -o out --smooth --draw

    Example: edgecape predict s3://bucket/photos/ --support cow.json -o s3://bucket/out --engine ray

    What is done is kept in the output, in parts. After a crash or Ctrl-C the same command goes on from there; after a
    finished run it does what is new, has changed or failed, or writes another format. edgecape status OUT tells how
    far it is.

    Exit code: 0 all was done, 1 some photos could not be done (they are named), 2 bad input.

    Args:
        queries: Photos, folders of photos, patterns, text files with a photo per line, videos (mp4, avi, mov, mkv,
            webm), whose frames are called clip.mp4#0, clip.mp4#1, …, or places in an object store (s3://bucket/photos/).
        support: A marked photo: our small JSON, COCO, LabelMe or another label file, a saved .prompt, or a photo with
            --points; repeat it for several shots.
        points: Keypoints "x,y x,y …" of a support given as a photo; once for each such photo, in order.
        edges: Skeleton "0-1 1-2 …" of supports given as photos; all connected if not given.
        support_format: Of label files given as support, where it cannot be told: coco, csv, deeplabcut, labelme, …
        support_images: Folder with the photos of label files given as support, if not beside them.
        support_category: Which keypoint definition of a label file with several is meant.
        edge_base: What label files given as support count the keypoints of their edges from; auto decides, and says
            when it cannot.
        output: Folder for the results, or a place in an object store.
        format: Of the results: csv, coco, coco-results, cvat, deeplabcut, labelme, labelstudio, sleap, yolo.
        category: What the results call the kind of object.
        image_ids: COCO file whose ids of photos and category the format coco-results takes.
        draw: Also draw the keypoints on every photo and video, in the folder "drawn" of the output.
        names: Draw the names of the keypoints too; photos that were drawn before stay as they are.
        boxes: Label file (COCO, also of boxes only, or another format) with the objects to look at, by photo; the
            whole photo is looked at if not given.
        propagate: Take so many poses that the model is surest of, on up to 64 of the photos, for further supports: they
            show the object from more sides than the marked photos do. 8 is a good number; where the model is sure of
            most poses already, none is taken.
        overwrite: Start over: forget what an earlier run with this output found.
        smooth: Steady the keypoints in videos (One-Euro filter); they trail by 2 % of the box side at most.
        save_prompt: Also save what was learned of the support, to be used as --support FILE.prompt without the photos.
        model: A model folder, hub id or official checkpoint, or what edgecape export wrote; the default model if not
            given.
        runtime: What the model must run in; it follows from the model if not given.
        effort: fast looks at a photo once, best twice and from all sides, auto decides for each photo.
        batch_size: Photos per forward pass, 8 if not given; a run that goes on keeps its own.
        shard: i/n of a job array, as 1/8: this process does every n-th part; the last one to end writes the results.
        shard_size: Photos in a part; a hundredth of all if not given, 16 at least and 1000 at most.
        engine: local works in this process, ray on all nodes of a Ray cluster.
        workers: Models at work with --engine ray; one for each processor, or graphics card, if not given.
        quiet: Print errors only.
        as_json: Print a JSON object in the place of the summary.
    """
    from edgecape.batch.manifest import looked_for
    from edgecape.batch.outputs import Results, Wanted, check_wanted, least_certain
    from edgecape.batch.propagation import propagated
    from edgecape.batch.queries import find_queries, without_boxes
    from edgecape.batch.run import Settings, Task, check_output, run_all
    from edgecape.batch.supports import read_shown
    from edgecape.formats.boxes import read_boxes
    from edgecape.io.storage import open_folder
    from edgecape.types import Prompt

    say = Speaker(quiet or as_json)
    settings = Settings(batch_size, shard_size, parse_shard(shard), engine, workers, overwrite)
    wanted = Wanted(format, category, image_ids, smooth, draw, names)
    check_runtime(runtime, model)
    place = open_folder(output)
    notes: list[str] = []
    left_out: list[str] = []
    photos = find_queries(queries, notes, left_out)
    options = {"format": support_format, "images": support_images, "category": support_category}
    shown = read_shown(support, points, edges, notes, **options, edge_base=edge_base)
    looked_at = None if boxes is None else read_boxes(boxes)
    if looked_at is not None:
        notes += [*looked_at.notes, *without_boxes(photos, looked_at)]
    check_wanted(wanted, photos, shown)
    check_propagate(propagate, shown)
    check_output(place)
    for note in notes:
        say(f"note: {note}")

    say("loading the model …")
    from edgecape.predictor import EdgeCape

    estimator = EdgeCape.from_pretrained(model)
    prompt = shown if isinstance(shown, Prompt) else estimator.prompt(shown)

    def make_prompt() -> Prompt:
        if isinstance(shown, Prompt) or not propagate:
            return prompt
        say(f"looking for the {propagate} surest poses …")
        richer = propagated(estimator, shown, photos, looked_at, propagate, effort)
        say(f"{richer.shots - len(shown)} of them serve as further supports")
        return richer

    if save_prompt is not None and not propagate:
        prompt.save(save_prompt)
    wants = looked_for(estimator.fingerprint, shown, looked_at, effort, propagate)
    task = Task(place, wants, make_prompt, looked_at, photos, model)
    try:
        report, run = run_all(task, estimator, settings, wanted, say.watch)
    except KeyboardInterrupt:
        print(GOES_ON, file=sys.stderr)
        raise
    if save_prompt is not None and propagate:
        run.prompt().save(save_prompt)
    for note in report.notes:
        say(f"note: {note}")
    certain = None if report.results is None else least_certain(Results(run))
    if as_json:
        Speaker(False)(json.dumps({**asdict(report), "unreadable": left_out, "scores": certain and asdict(certain)}))
    else:
        say(summary(report))
        if certain is not None and certain.lowest:
            named = ", ".join(f"{file} ({score:.2f})" for score, file in certain.lowest)
            say(f"  scores   {certain.mean:.2f} on average; look first at {named}")
    for message in (*left_out, *report.failed.values()):
        print(f"failed: {message}", file=sys.stderr)
    return SOME_FAILED if left_out or report.failed else 0


def summary(report: Report) -> str:
    rate = report.done / report.seconds if report.done else 0.0
    text = f"{report.done} done ({rate:.1f} per second), {report.before} done before, {len(report.failed)} failed"
    if report.left:
        text += f"\n  left     {report.left}: the last process of the job array to end writes the results"
    if report.results is not None:
        text += f"\n  results  {report.results}"
    return text if report.drawn is None else f"{text}\n  drawn    {report.drawn}"


def check_runtime(runtime: str | None, model: str | None) -> None:
    from edgecape.errors import SettingsError
    from edgecape.runtime.onnx_runtime import is_exported

    found = "onnx" if model is not None and is_exported(model) else "torch"
    if runtime not in (None, found):
        remedy = (
            "make one with edgecape export OUT and give --model OUT" if runtime == "onnx" else "give another --model"
        )
        raise SettingsError(f"--runtime {runtime} does not go with model {model or 'default'}; {remedy}")


def check_propagate(number: int, shown: list[Support] | Prompt) -> None:
    from edgecape.errors import SettingsError
    from edgecape.types import Prompt

    if number < 0:
        raise SettingsError(f"--propagate is {number}; give a number of poses, 0 for none")
    if number and isinstance(shown, Prompt):
        raise SettingsError("--propagate adds to marked photos; give those with --support, not a .prompt")


def parse_shard(text: str | None) -> tuple[int, int] | None:
    from edgecape.errors import SettingsError

    if text is None:
        return None
    number, _, total = text.partition("/")
    if not (number.isdecimal() and total.isdecimal() and 1 <= int(number) <= int(total)):
        raise SettingsError(f"--shard is '{text}'; give i/n with i from 1 to n, as 1/8")
    return int(number), int(total)


class Speaker:
    """Prints, unless it is told to be quiet; a reader who went away (as `| head` does) does not end a run."""

    def __init__(self, quiet: bool):
        self.quiet = quiet

    def __call__(self, text: str) -> None:
        if self.quiet:
            return
        try:
            print(text, flush=True)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes when it ends
            self.quiet = True

    def watch(self, total: int, tallies: Iterable[Tally]) -> Iterator[Tally]:
        """Hands them on and shows how many have been, how fast, and how long the rest will take."""
        if not self.quiet and sys.stderr.isatty():
            yield from _bar(total, tallies)
            return
        start = said = time.monotonic()
        done = failed = 0
        for tally in tallies:
            done, failed = done + tally[0], failed + tally[1]
            now = time.monotonic()
            if now - said > EVERY:
                said, rate = now, (done + failed) / (now - start)
                minutes = max(total - done - failed, 0) / rate / 60
                self(f"{done + failed} of {total}, {rate:.1f} per second, {minutes:.0f} min left, {failed} failed")
            yield tally


def _bar(total: int, tallies: Iterable[Tally]) -> Iterator[Tally]:
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TextColumn

    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TextColumn("{task.fields[rate]:.1f} per second"))
    start, seen = time.monotonic(), 0
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("predicting", total=total, rate=0.0)
        for tally in tallies:
            seen += sum(tally)
            progress.update(task, completed=seen, rate=seen / max(time.monotonic() - start, 1e-3))
            yield tally


def main(arguments: list[str]) -> int:
    return tyro.cli(predict, prog="edgecape predict", args=arguments)
