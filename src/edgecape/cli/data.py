"""edgecape data check | assemble | split | pick | draw: is a data set in order, build MP-100's images, hold out a
super-category, take some categories, draw kinds of objects that nobody photographed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from tyro.conf import Positional, UseAppendAction, arg

from edgecape.cli.printing import FOR_PEOPLE, Output, print_notes
from edgecape.io.edge_base import EdgeBase
from edgecape.io.paths import find_annotations
from edgecape.solids.settings import Drawing

if TYPE_CHECKING:
    from edgecape.data.assemble import AssemblyReport
    from edgecape.data.check import FileReport

DEFAULT = Drawing()
EXAMPLES = 5  # of each problem that are printed; --json has them all


def check(
    data: Positional[Annotated[Path, arg(metavar="DATA")]],
    images: Positional[Annotated[Path | None, arg(metavar="[IMAGES]")]] = None,
    /,
    edge_base: EdgeBase = "auto",
    sample: int = 10,
    output: Output = FOR_PEOPLE,
) -> int:
    """Say per category what a data set has, what is missing and what is odd.

    Example: edgecape data check annotations/train.json images

    Exit code: 0 all is in order, 1 something is missing or odd, 2 it cannot be read.

    Args:
        data: Annotation file, or folder with annotations/ and images/.
        images: Folder that the file names are relative to; found by itself in such a folder.
        edge_base: What edges are counted from; auto decides from the edges and says when it cannot.
        sample: Images per category that are opened to compare their size with the file.
    """
    from edgecape.data.check import check_file

    console = output.console()
    files, root = find_annotations(data, images)
    reports = []
    for path in files:
        with console.status(f"looking at {path.name}"):
            reports.append(check_file(path, root, edge_base, sample))
        _print_check(reports[-1], console)
    output.print_results([report.to_dict() for report in reports])
    return 0 if all(report.clean for report in reports) else 1


def assemble(
    annotations: Annotated[tuple[Path, ...], arg(metavar="FILE|FOLDER")],
    out: Path,
    source: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="NAME=FOLDER")]] = (),
    copy: bool = False,
    output: Output = FOR_PEOPLE,
) -> int:
    """Build MP-100's image tree from the folders of the data sets it is made of.

    Example: edgecape data assemble --annotations mp100/annotations --out mp100/images --source coco=/data/coco

    Run it without a source to see what is needed and where it is obtained, and again whenever another source has come
    in: what is there is kept, and nothing is ever overwritten. Sources: coco, 300w, aflw, onehand10k, deepfashion2,
    ap10k, macaquepose, fly, locust, cub200, carfusion, animalweb, keypoint5.

    Exit code: 0 complete, 1 something is missing, 2 bad input.

    Args:
        annotations: MP-100's annotation files, or the folder they are in.
        out: Folder to build: an image goes to OUT/<file name in the annotations>.
        source: A source and the folder it was unpacked to, laid out in any way, such as coco=/data/coco; repeat it for
            each source.
        copy: Copy images instead of linking to them.
    """
    from rich.progress import Progress

    from edgecape.data.assemble import assemble as build
    from edgecape.data.assemble import parse_sources

    console = output.console()
    folders = parse_sources(source)
    files = [file for path in annotations for file in find_annotations(path)[0]]
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("reading")

        def advance(done: int, total: int) -> None:
            progress.update(task, description="images", completed=done, total=total)

        report = build(files, folders, out, copy, advance)
    _print_assembly(report, set(folders), console)
    output.print_results(report.to_dict())
    return 0 if report.complete else 1


def split(
    files: Positional[Annotated[tuple[Path, ...], arg(metavar="FILE …")]],
    /,
    hold_out: str,
    out: Annotated[Path, arg(aliases=["-o"])],
    edge_base: EdgeBase = "auto",
    output: Output = FOR_PEOPLE,
) -> int:
    """Write two COCO files: one super-category, and all others.

    Example: edgecape data split train.json val.json test.json --hold-out vehicle -o held-out

    Args:
        files: COCO-keypoints file, or several that go together (train, val and test of an MP-100 split).
        hold_out: Super-category, as the file calls it; for MP-100 body, face, hand, animal_body, animal_face, clothes,
            furniture or vehicle.
        out: Folder for the two files.
        edge_base: What edges are counted from; the files written count from 0 and say so.
    """
    from edgecape.data.splits import write_hold_out

    console, paths = output.console(), write_hold_out(files, hold_out, out, edge_base)
    parts = zip(("train", "test"), paths, strict=True)
    output.print_results({purpose: _printed(path, f"{purpose}: ", console) for purpose, path in parts})
    return 0


def pick(
    files: Positional[Annotated[tuple[Path, ...], arg(metavar="FILE …")]],
    /,
    categories: tuple[str, ...],
    out: Annotated[Path, arg(aliases=["-o"])],
    edge_base: EdgeBase = "auto",
    output: Output = FOR_PEOPLE,
) -> int:
    """Write a COCO file of some categories, such as those whose terms allow a use.

    Example: edgecape data pick train.json --categories horse cow -o hoofed.json

    Args:
        files: COCO-keypoints file, or several that go together.
        categories: Their names, as the file has them.
        out: COCO file to write.
        edge_base: What edges are counted from; the file written counts from 0 and says so.
    """
    from edgecape.data.splits import write_categories

    output.print_results(_printed(write_categories(files, categories, out, edge_base), "", output.console()))
    return 0


def _printed(path: Path, purpose: str, console: Console) -> dict[str, object]:
    """What is in a file that was written."""
    from edgecape.data.objects import read_coco

    part = read_coco(path, path.parent)
    categories, objects = len(part.categories), len(part.instances)
    console.print(f"{purpose}{path}, {categories} categories, {objects} objects", soft_wrap=True)
    return {"file": str(path), "categories": categories, "objects": objects}


def draw(
    out: Positional[Annotated[Path, arg(metavar="OUT")]],
    /,
    drawing: Annotated[Drawing, arg(name="")] = DEFAULT,
    name: str = "train",
    backgrounds: Path | None = None,
    output: Output = FOR_PEOPLE,
) -> int:
    """Draw kinds of objects that nobody photographed, with exact keypoints, to train on beside real ones.

    Example: edgecape data draw solids --kinds 100 --backgrounds photos

    Each kind is a body with jointed parts, most of them left and right, seen from any side. The same options draw the
    same pictures.

    Args:
        out: Folder for annotations/, images/ and a picture that shows some of them.
        drawing: How many, how large, and which.
        name: Of the annotation file, and of a folder in images/.
        backgrounds: Folder of photos to put behind some of them; without, only plain colours and patterns are.
    """
    from rich.progress import Progress

    from edgecape.solids.dataset import draw_dataset, photos_in

    console = output.console()
    photos = photos_in(backgrounds) if backgrounds else []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("kinds")
        path = draw_dataset(
            out, drawing, photos, name, lambda done, total: progress.update(task, completed=done, total=total)
        )
    say = partial(console.print, markup=False, soft_wrap=True)
    say(f"{path}: {drawing.kinds} kinds, {drawing.objects} objects of each")
    say(f"{out / name}.jpg: some of them")
    output.print_results({"annotations": str(path), "kinds": drawing.kinds, "objects": drawing.kinds * drawing.objects})
    return 0


def _print_check(report: FileReport, console: Console) -> None:
    from rich.table import Table

    say = partial(console.print, markup=False, soft_wrap=True)
    table = Table(title=report.annotations, title_justify="left", title_style="bold")
    table.add_column("category", overflow="fold")
    for heading in ("objects", "images", "missing", "keypoints", "edges", "base", "odd"):
        table.add_column(heading, justify="right")
    for row in report.categories:
        left_out = row.annotations - row.objects
        table.add_row(
            row.name,
            f"{row.objects} (+{left_out})" if left_out else str(row.objects),
            str(row.images),
            _alarm(row.missing),
            str(row.keypoints),
            str(row.edges or "–"),
            "–" if row.edge_base is None else str(row.edge_base),
            _alarm(row.odd),
        )
    console.print(table)
    print_notes(report.notes, console)
    for kind, count in report.kinds().most_common():
        console.print(f"  {count} × {kind}", style="yellow", markup=False)
        for finding in [finding for finding in report.findings if finding.kind == kind][:EXAMPLES]:
            who = "" if finding.annotation is None else f"annotation {finding.annotation}, "
            say(f"      {who}{finding.image}: {finding.detail}")
    if report.missing:
        found = report.images_total - len(report.missing)
        images = f"{found} of {report.images_total} images found below {report.images}"
        say(f"  {images}, missing for example {', '.join(report.missing[:3])}", style="red")
    if report.clean:
        console.print("  all in order", style="green")


def _print_assembly(report: AssemblyReport, given: set[str], console: Console) -> None:
    from rich.table import Table

    from edgecape.data.sources import SOURCES

    table = Table(title=f"MP-100 in {report.out}", title_justify="left", title_style="bold")
    table.add_column("source")
    headings = ("images", "there", "placed", "missing", "ambiguous", "conflict", "other size")
    for heading in headings:
        table.add_column(heading, justify="right")
    sources = report.sources()
    for key, counts in sources.items():
        total = counts.total() - counts["other size"]
        fine = [str(counts[name] or "–") for name in ("there", "placed")]
        table.add_row(key, str(total), *fine, *(_alarm(counts[name]) for name in headings[3:]))
    console.print(table)
    say = partial(console.print, markup=False, soft_wrap=True)
    for key, counts in sources.items():
        if counts["missing"]:
            source = SOURCES[key]
            console.print(f"{source.title}: {counts['missing']} missing", style="bold", markup=False)
            say(f"  get it: {source.url} ({source.terms})")
            say(f"  needed: {source.wanted}; then --source {key}=FOLDER")
            missing = [item for item in report.problems if item.source == key and item.status == "missing"]
            for item in missing[:2] if key in given else []:
                say(f"  {item.file_name}: {item.detail}", style="dim")
    for item in [item for item in report.problems if item.status in ("ambiguous", "conflict")][:EXAMPLES]:
        say(f"{item.status}: {item.file_name}: {item.detail}", style="yellow")
    console.print("complete" if report.complete else "not complete", style="green" if report.complete else "red")


def _alarm(number: int) -> str:
    return f"[red]{number}[/red]" if number else "–"


SUBCOMMANDS: dict[str, Callable[..., int]] = {
    "check": check,
    "assemble": assemble,
    "split": split,
    "pick": pick,
    "draw": draw,
}


def main(arguments: list[str]) -> int:
    return tyro.extras.subcommand_cli_from_dict(SUBCOMMANDS, prog="edgecape data", args=arguments)
