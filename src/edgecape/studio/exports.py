"""The project's labels in the formats of other tools."""

from __future__ import annotations

import importlib.util
import shutil
import unicodedata
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from edgecape import formats
from edgecape.errors import AnnotationError
from edgecape.formats import LabelledImage, LabelledObject, LabelSet
from edgecape.io.images import SUFFIXES as IMAGE_SUFFIXES
from edgecape.io.video import frame_name
from edgecape.studio.models import Format, Photo, Project, Query, Shot
from edgecape.studio.project import ProjectStore, storing

LONGEST_NAME = 150  # bytes of a file name


def available() -> list[Format]:
    return [
        Format(name=name, title=kind.title, about=kind.about, suffix=".zip" if kind.several else kind.suffix)
        for name, kind in formats.FORMATS.items()
        if kind.writer and (kind.needs is None or importlib.util.find_spec(kind.needs))
    ]


def export(store: ProjectStore, format: str, with_photos: bool, folder: Path) -> Path:
    """A file in that folder: of the format, or a zip if it takes several."""
    with storing():
        return _export(store, format, with_photos, folder)


def _export(store: ProjectStore, format: str, with_photos: bool, folder: Path) -> Path:
    kind = formats.known(format, "writer")
    project = store.read()
    content = folder / "content"
    target = content / f"labels{kind.suffix}" if kind.suffix else content
    content.mkdir()
    names = file_names(project.photos.values(), as_frames=kind.frames and not with_photos)
    labels = label_set(project, names, root=content)
    if with_photos:
        place = content if kind.beside else content / "images"
        place.mkdir(exist_ok=True)
        for id_ in dict.fromkeys(item.photo for item in labelled(project)):
            shutil.copyfile(store.path(id_), place / names[id_])
    formats.write(target, labels, format)
    if not kind.several and not with_photos:
        return target
    packed = folder / "labels.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(content.rglob("*")):
            if path.is_file():
                file.write(path, path.relative_to(content).as_posix())
    return packed


def labelled(project: Project) -> list[Shot | Query]:
    """Shots and found poses; a photo that became a shot counts as that, not as the prediction it came from."""
    shots = [shot for shot in project.shots if any(shot.points)]
    taken = [(shot.photo, shot.box) for shot in shots]
    found = [query for query in project.queries if query.pose and any(query.pose.keypoints)]
    return [*shots, *(query for query in found if (query.photo, query.box) not in taken)]


def label_set(project: Project, names: Mapping[str, str], root: Path) -> LabelSet:
    """Photos in the order in which they came, so that frames of a video follow each other."""
    objects: dict[str, list[LabelledObject]] = {id_: [] for id_ in project.photos}
    for item in labelled(project):
        objects[item.photo].append(_marked(item) if isinstance(item, Shot) else _found(item))
    if not any(objects.values()):
        raise AnnotationError("there is nothing to export yet; mark a photo or predict on one")
    images = [
        LabelledImage(names[id_], project.photos[id_].width, project.photos[id_].height, tuple(things))
        for id_, things in objects.items()
        if things
    ]
    return LabelSet(project.names, project.skeleton, project.name.strip() or "object", images, root)


def _marked(shot: Shot) -> LabelledObject:
    return LabelledObject(
        [(point.x, point.y) if point else (0, 0) for point in shot.points],
        visible=[point is not None for point in shot.points],
        occluded=[point is not None and point.hidden for point in shot.points],
        box=shot.box,
    )


def _found(query: Query) -> LabelledObject:
    """What a person moved is certain."""
    assert query.pose is not None
    points = [place or (0, 0) for place in query.pose.keypoints]
    visible = [place is not None for place in query.pose.keypoints]
    scores = np.where(query.pose.moved, 1.0, query.pose.scores)
    return LabelledObject(points, visible, scores=scores, box=query.box, score=float(scores[visible].mean()))


def file_names(photos: Iterable[Photo], as_frames: bool = False) -> Mapping[str, str]:
    """A file name for each photo: its label where that will do, and no two alike before the suffix.

    as_frames: frames of videos go by their number in it, as "clip.mp4#12".
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for photo in photos:
        if photo.clip is not None and photo.frame is not None:
            if as_frames:
                names[photo.id] = frame_name(photo.clip, photo.frame)
                continue
            photo = photo.model_copy(update={"name": f"{Path(photo.clip).stem}-{photo.frame:06d}.jpg"})
        text = "".join("_" if letter in '<>:"|?*' else letter for letter in photo.name).strip(" .")
        stem, suffix = Path(text).stem, Path(text).suffix
        if suffix.lower() not in IMAGE_SUFFIXES:
            stem, suffix = text, ".jpg"
        stem = unicodedata.normalize("NFC", stem).encode()[:LONGEST_NAME].decode(errors="ignore")
        if not stem or stem.casefold() in taken:
            stem = f"{stem}-{photo.id}".strip("-")
        taken.add(stem.casefold())
        names[photo.id] = stem + suffix
    return names
