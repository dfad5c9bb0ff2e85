"""edgecape predict: keypoints on many photos from one or a few marked ones."""

from __future__ import annotations

import glob
import sys
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional, UseAppendAction, arg

SOME_FAILED = 1


def predict(
    queries: Positional[Annotated[tuple[str, ...], arg(metavar="PHOTO|FOLDER|GLOB|LIST.txt")]],
    support: UseAppendAction[tuple[Path, ...]] = (),
    points: str | None = None,
    edges: str | None = None,
    output: Annotated[Path, arg(aliases=("-o",))] = Path("edgecape-output"),
    format: str = "csv",
    draw: bool = False,
    model: str | None = None,
    batch: int = 8,
) -> int:
    """Find the keypoints of one or a few marked photos on other photos of that kind of object.

    Example: edgecape predict photos/ --support cow.json -o out --format coco --draw
    Example: edgecape predict b.jpg c.jpg --support a.jpg --points "120,80 64,200 30,90" --edges "0-1 1-2"

    Exit code: 0 all photos were done, 1 some could not be read (they are named), 2 bad input.

    Args:
        queries: Photos, folders, patterns, or a text file with a photo per line.
        support: A marked photo: our small JSON, COCO, LabelMe or another label file, a saved .prompt, or a photo with
            --points; repeat it for several shots.
        points: Keypoints "x,y x,y …" of a support given as a photo.
        edges: Skeleton "0-1 1-2 …" of a support given as a photo; all connected if not given.
        output: Folder for the results.
        format: Of the results: csv, coco, coco-results, cvat, deeplabcut, labelme, labelstudio, sleap, yolo.
        draw: Also write every photo with its keypoints drawn on it.
        model: A model folder, hub id or official checkpoint; the default model if not given.
        batch: Photos per forward pass.
    """
    from rich.progress import Progress

    from edgecape import formats
    from edgecape.drawing import draw_pose, save_picture
    from edgecape.errors import AnnotationError, EdgeCapeError
    from edgecape.images import image_size
    from edgecape.predictor import EdgeCape
    from edgecape.types import Prompt

    if format not in formats.WRITERS:
        raise AnnotationError(f"there is no format '{format}'; there are {', '.join(formats.WRITERS)}")
    photos = find_photos(queries)
    if not support:
        raise AnnotationError("no support is given; show the model a marked photo with --support")
    estimator = EdgeCape.from_pretrained(model)
    if len(support) == 1 and support[0].suffix == ".prompt":
        prompt = Prompt.load(support[0])
    else:
        prompt = estimator.prompt([shot for path in support for shot in _supports(path, points, edges)])
    done, failed = [], []
    with Progress(transient=True) as progress:
        task = progress.add_task("predicting", total=len(photos))
        found = estimator.predict(prompt, iter(photos), batch=batch, errors="return")
        for number, (photo, pose) in enumerate(zip(photos, found, strict=True)):
            if isinstance(pose, EdgeCapeError):
                failed.append(str(pose))
            else:
                done.append((photo, pose))
                if draw:
                    picture = draw_pose(photo, pose)
                    save_picture(output / "drawn" / f"{number:06d}_{photo.stem}.jpg", picture)
            progress.advance(task)
    if done:
        files = [str(photo) for photo, _ in done]
        sizes = [image_size(photo) for photo, _ in done]
        labels = formats.from_poses([pose for _, pose in done], files, sizes)
        target = output / f"predictions{_suffix(format)}"
        formats.write(target, labels, format)
        mean = sum(float(pose.scores.mean()) for _, pose in done) / len(done)
        print(f"{len(done)} of {len(photos)} photos done, mean score {mean:.2f}: {target}")
    for message in failed:
        print(f"skipped: {message}", file=sys.stderr)
    return SOME_FAILED if failed else 0


def find_photos(queries: tuple[str, ...]) -> list[Path]:
    """Photos named by files, folders, patterns and lists, in that order, each once."""
    from edgecape.errors import ImageError
    from edgecape.images import SUFFIXES

    found: list[Path] = []
    for query in queries:
        path = Path(query)
        if path.is_dir():
            members = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
        elif path.suffix == ".txt" and path.is_file():
            lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
            members = [path.parent / line for line in lines if line]
        elif path.exists():
            members = [path]
        else:
            members = [Path(match) for match in sorted(glob.glob(query, recursive=True))]
        if not members:
            raise ImageError(f"'{query}' names no photo; give files, folders, patterns or a .txt list")
        found += members
    return list(dict.fromkeys(found))


def _supports(path: Path, points: str | None, edges: str | None) -> list:
    from edgecape.errors import AnnotationError
    from edgecape.images import SUFFIXES
    from edgecape.supports import read_supports
    from edgecape.types import Support

    if path.suffix.lower() not in SUFFIXES:
        return read_supports(path)
    if points is None:
        raise AnnotationError(f'{path} is a photo without marks; add --points "x,y x,y …" or give a label file')
    try:
        keypoints = [tuple(float(value) for value in point.split(",")) for point in points.split()]
        skeleton = None if edges is None else [tuple(int(k) for k in edge.split("-")) for edge in edges.split()]
    except ValueError:
        raise AnnotationError(f'points are "x,y x,y …" and edges "0-1 1-2 …", got {points!r} and {edges!r}') from None
    return [Support(path, keypoints, skeleton)]


def _suffix(format: str) -> str:
    """Of a results file; formats that write a folder have none."""
    suffixes = {"csv": ".csv", "deeplabcut": ".csv", "labelme": "", "yolo": "", "sleap": ".slp"}
    return suffixes.get(format, ".json")


def main(arguments: list[str]) -> int:
    return tyro.cli(predict, prog="edgecape predict", args=arguments)
