"""edgecape demo: see it work."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import FlagCreatePairsOff, arg

if TYPE_CHECKING:
    from edgecape.examples import Example
    from edgecape.predictor import EdgeCape
    from edgecape.showcase import Shown
    from edgecape.studio.project import ProjectStore

PAGE = "index.html"
Flag = Annotated[bool, FlagCreatePairsOff]


def demo(
    output: Annotated[Path, arg(aliases=("-o",))] = Path("demo-output"),
    support: Path | None = None,
    query: tuple[str, ...] = (),
    model: str | None = None,
    names: Flag = False,
    studio: Flag = False,
    port: int = 7860,
    no_browser: Flag = False,
) -> int:
    """Find keypoints on bundled pictures, or on pictures of yours, and show what happened on one page.

    Example: edgecape demo

    Example: edgecape demo --support cow.json --query cow2.jpg cow3.jpg

    Example: edgecape demo --support cow.json --query photos/ --studio

    Example: edgecape demo --support my.jpg --query photos/

    A support without keypoints, as in the last one, opens the studio on these photos, to mark them there.

    Args:
        output: Folder for the page, the pictures and the keypoints.
        support: A marked photo of yours: our small JSON, COCO, LabelMe or another label file; or a photo that is yet
            to be marked.
        query: Photos of yours to find its keypoints on: files, folders or patterns.
        model: A model folder, hub id or official checkpoint; the default model if not given.
        names: Write the names of the keypoints beside them, in larger pictures.
        studio: Open the studio on the same photos, with what was found, to correct it.
        port: Of the studio, 0 for any that is free.
        no_browser: Only print the address of the studio.
    """
    from edgecape.errors import AnnotationError
    from edgecape.examples import all_examples
    from edgecape.io.images import SUFFIXES
    from edgecape.studio.server import require_studio

    if (support is None) != (not query):
        raise AnnotationError("a demo on your own pictures needs both --support and --query")
    if support is not None and support.suffix.lower() in SUFFIXES:
        require_studio()
        print(f"{support} has no keypoints yet: mark them in the studio, then press Find")
        place = output / f"{support.stem}-to-mark"
        if not is_project(place):
            photos = photos_of(query, support)
            with new_project(place) as store:
                fill_unmarked(store, support, photos)
        return open_studio(place, model, port, no_browser)

    if studio:
        require_studio()
    examples = all_examples() if support is None else [own_example(support, query)]
    place = output / f"{examples[0].name}-studio"
    if studio and is_project(place):
        print(f"{place} is there already; it opens as it was left")
        return open_studio(place, model, port, no_browser)
    print("loading the model …", flush=True)
    from edgecape.predictor import EdgeCape

    estimator = EdgeCape.from_pretrained(model)
    shown = [found_on(estimator, example) for example in examples]
    given = [] if support is None else ["--support", str(support), "--query", *query]
    write_all(output, examples, shown, names, given)
    if studio:
        with new_project(place) as store:
            fill_found(store, examples[0].name, shown[0])
        return open_studio(place, model, port, no_browser)
    return 0


# --- looking for keypoints ---------------------------------------------------------------------------------------


def own_example(support: Path, query: Sequence[str]) -> Example:
    from edgecape.examples import Example
    from edgecape.formats.supports import read_supports
    from edgecape.showcase import counted

    (marked, *_), notes = read_supports(support)
    for note in notes:
        print(f"  {note}")
    photos = photos_of(query, marked.image)
    titles = tuple(photo.stem.replace("-", " ").replace("_", " ") for photo in photos)
    about = f"{counted(len(marked.keypoints), 'keypoint')} of {marked.image.name} on {counted(len(photos), 'photo')}"
    return Example(support.stem, about, marked, tuple(photos), titles)


def photos_of(query: Sequence[str], support: Path) -> list[Path]:
    """All but the support itself, which a folder may hold too."""
    from edgecape.batch.queries import find_queries
    from edgecape.errors import ImageError

    notes: list[str] = []
    found = [Path(listed.file) for listed in find_queries(query, notes, notes)]
    for note in notes:
        print(f"  {note}")
    others = [photo for photo in found if not support.exists() or not photo.exists() or not photo.samefile(support)]
    if not others:
        raise ImageError(f"there is no photo but {support} itself; give others with --query")
    return others


def found_on(estimator: EdgeCape, example: Example) -> Shown:
    from edgecape.showcase import Shown

    prompt = estimator.prompt(example.support)
    poses = estimator.predict(prompt, list(example.queries))
    return Shown(example.support, prompt, example.titles, example.queries, tuple(poses))


def write_all(
    output: Path, examples: Sequence[Example], shown: Sequence[Shown], names: bool, given: Sequence[str]
) -> None:
    """Pictures, keypoints, and the page."""
    from edgecape.drawing import save_picture, story
    from edgecape.io.files import atomic_write, write_json
    from edgecape.showcase import page

    for example, one in zip(examples, shown, strict=True):
        picture = output / f"{example.name}.png"
        found = list(zip(one.titles, one.queries, one.poses, strict=True))
        save_picture(picture, story(one.support, one.prompt, found, names))
        content = {"names": one.prompt.names, "skeleton": one.prompt.skeleton, "graph": one.prompt.graph.tolist()}
        content["poses"] = [pose.to_dict() for pose in one.poses]
        write_json(output / f"{example.name}.json", content, indent=1)
        print(f"  {picture}: {example.about}", flush=True)
    edgecape = program()
    command = shlex.join([edgecape, "demo", *given])
    corrected = f"{command} --studio"
    own = f"{edgecape} demo --support my.jpg --query photos/"
    steps = [
        ("Drag what is wrong in the browser, and use a corrected photo as another shot:", corrected),
        ("Mark a photo of yours in the browser, and see it found on others:", own),
        (
            "Find keypoints on many photos, and write them for another tool:",
            f"{edgecape} predict photos/ --support my.json -o out --format coco --draw",
        ),
    ]
    with atomic_write(output / PAGE) as file:
        file.write(page(shown, [command], steps))
    print(f"open this page:  {(output / PAGE).resolve()}")
    print(f"drag a point:    {corrected}")
    print(f"on your photos:  {own}")


def program() -> str:
    """What to type to run it again: its name, or its path where a shell would not find it by name."""
    running = Path(sys.argv[0])
    if running.name != "edgecape":
        return "edgecape"
    found = shutil.which(running.name)
    return running.name if found is not None and Path(found).samefile(running) else str(running)


# --- the same in the studio --------------------------------------------------------------------------------------


def is_project(folder: Path) -> bool:
    return (folder / "project.json").exists()


@contextmanager
def new_project(folder: Path) -> Iterator[ProjectStore]:
    """To be filled; if that fails there is none."""
    from edgecape.studio.limits import Limits
    from edgecape.studio.project import ProjectStore

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as temporary:
        store = ProjectStore(Path(temporary) / "project", Limits())
        store.open_folder()
        yield store
        store.close_folder()
        store.folder.replace(folder)


def fill_unmarked(store: ProjectStore, support: Path, photos: Sequence[Path]) -> None:
    from edgecape.studio.models import Document, Query, Shot

    first, *others = put_photos(store, [(photo.name, photo) for photo in (support, *photos)])
    store.save(
        Document(name=support.stem, shots=[Shot(photo=first, points=[])], queries=[Query(photo=id_) for id_ in others])
    )


def fill_found(store: ProjectStore, name: str, shown: Shown) -> None:
    from edgecape.studio.models import Document

    first, *others = put_photos(store, [(name, shown.support.image), *zip(shown.titles, shown.queries, strict=True)])
    points = [
        {"x": x, "y": y} if seen else None
        for (x, y), seen in zip(shown.support.keypoints.tolist(), shown.support.visible, strict=True)
    ]
    queries = []
    for id_, pose in zip(others, shown.poses, strict=True):
        plain = pose.to_dict()
        found = {what: plain[what] for what in ("keypoints", "scores")} | {"moved": [False] * len(points)}
        queries.append({"photo": id_, "pose": found, "state": "predicted"})
    names = shown.support.names or [str(k) for k in range(len(points))]
    document = {
        "name": name,
        "names": list(names),
        "skeleton": [list(edge) for edge in shown.support.skeleton or ()],
        "prior": "full" if shown.support.skeleton is None else "mine",
        "shots": [{"photo": first, "points": points, "box": shown.support.box}],
        "queries": queries,
    }
    store.save(Document.model_validate(document))


def put_photos(store: ProjectStore, photos: Sequence[tuple[str, Any]]) -> list[str]:
    """Their ids."""
    from edgecape.errors import ImageError
    from edgecape.studio.pictures import as_png
    from edgecape.studio.project import Incoming

    ids = []
    for title, photo in photos:
        data = photo.read_bytes() if isinstance(photo, Path) else as_png(photo)
        arrived = store.add_photos([Incoming(title, data)])
        if arrived.uploaded.failed:
            raise ImageError(arrived.uploaded.failed[0].error)
        ids.append(arrived.uploaded.photos[0].id)
    return ids


def open_studio(project: Path, model: str | None, port: int, no_browser: bool) -> int:
    from edgecape.cli.studio import studio

    return studio(project, port=port, no_browser=no_browser, model=model)


def main(arguments: list[str]) -> int:
    return tyro.cli(demo, prog="edgecape demo", args=arguments)
