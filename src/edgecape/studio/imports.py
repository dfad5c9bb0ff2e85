"""Marks from the files of other tools, for photos that come with them or are in the project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from edgecape import formats
from edgecape.errors import AnnotationError, DataError, EdgeCapeError
from edgecape.formats import LabelledImage, LabelledObject, LabelSet
from edgecape.formats.labels import default_names, unique_names
from edgecape.formats.supports import is_small_json, read_small_json
from edgecape.io.files import read_json
from edgecape.studio.checks import as_label, check_marks
from edgecape.studio.exports import file_names
from edgecape.studio.limits import RefusedError
from edgecape.studio.models import Failure, Imported, Marks, Photo, Point, Shot, sentence
from edgecape.studio.project import Incoming, ProjectStore, storing
from edgecape.types import Support

M = TypeVar("M", bound=BaseModel)

READABLE = (".json", ".csv", ".slp", ".h5")  # of the formats, those whose readers open no other file and run nothing
TOLD = 20  # missing photos that are named


def import_labels(store: ProjectStore, name: str | None, data: bytes, files: Iterable[Incoming]) -> Imported:
    """The photos are stored, the project's document stays as it is."""
    label = as_label(name)
    if len(data) > store.limits.upload_bytes:
        raise RefusedError(413, f"'{label}' has more than {store.limits.upload_bytes:,} bytes; give a part of it")
    label_sets = _read(store, label, data)
    arrived = store.add_photos(files)
    known = _by_name(store.read().photos, arrived.named)
    labels = _choose(label, label_sets, known)
    failed, shots = list(arrived.uploaded.failed), []
    for image in labels.images:
        photo = known.get(_key(image.file))
        if photo is None:
            continue
        if image.width and (image.width, image.height) != (photo.width, photo.height):
            sizes = f"{image.width} × {image.height} pixels, but the photo has {photo.width} × {photo.height}"
            failed.append(Failure(name=photo.name, error=f"'{label}' says {sizes}; give the photo it was made on"))
            continue
        shots += [_shot(label, photo, thing) for thing in image.objects if thing.visible.any()]
    if not shots:
        reason = f": {failed[0].name}: {failed[0].error}" if failed else ""
        raise AnnotationError(f"'{label}' has no marked object on these photos{reason}")
    skeleton = [list(edge) for edge in labels.skeleton or ()]
    marks = _checked(label, Marks, names=list(labels.names), skeleton=skeleton, shots=shots)
    check_marks(marks, store.limits)
    used = {shot.photo for shot in shots}
    elsewhere = [image.file for image in labels.images if image.objects and _key(image.file) not in known]
    return Imported(
        **marks.model_dump(include={"names", "skeleton", "shots"}),
        photos=list({photo.id: photo for photo in known.values() if photo.id in used}.values()),
        failed=failed,
        missing=list(dict.fromkeys(map(_base, elsewhere)))[:TOLD],
        notes=list(labels.notes),
    )


def _by_name(photos: Mapping[str, Photo], named: Mapping[str, Photo]) -> dict[str, Photo]:
    """Photos by what they are called in the project, in exports of it, and in this upload, which counts most."""
    exported = file_names(photos.values())
    known = {_key(exported[id_]): photo for id_, photo in photos.items()}
    known |= {_key(photo.name): photo for photo in photos.values()}
    return known | {_key(label): photo for label, photo in named.items()}


def _read(store: ProjectStore, label: str, data: bytes) -> list[LabelSet]:
    suffix = Path(label).suffix.lower()
    if suffix not in READABLE:
        raise RefusedError(415, f"'{label}' cannot be opened here; choose a {' or '.join(READABLE)} label file")
    with store.scratching() as folder:
        path = folder / f"labels{suffix}"
        with storing():
            path.write_bytes(data)
        try:
            if suffix == ".json" and is_small_json(read_json(path)):
                return [_from_supports(read_small_json(path))]
            return formats.read(path)
        except EdgeCapeError as error:  # about the file as the client knows it
            raise DataError(str(error).replace(str(path), f"'{label}'")) from error


def _from_supports(supports: list[Support]) -> LabelSet:
    names = next((shot.names for shot in supports if shot.names), None) or default_names(len(supports[0].keypoints))
    skeleton = next((shot.skeleton for shot in supports if shot.skeleton), None)
    images = [
        LabelledImage(_base(str(shot.image)), None, None, (LabelledObject(shot.keypoints, shot.visible, box=shot.box),))
        for shot in supports
    ]
    return LabelSet(unique_names(names), skeleton, images=images)


def _choose(label: str, label_sets: list[LabelSet], known: dict[str, Photo]) -> LabelSet:
    """The one kind of object that these photos show."""
    here = [s for s in label_sets if any(image.objects and _key(image.file) in known for image in s.images)]
    if len(here) > 1:
        kinds = ", ".join(labels.category for labels in here)
        raise AnnotationError(f"'{label}' has several kinds of object on these photos ({kinds}); choose photos of one")
    if not here:
        wanted = dict.fromkeys(_base(image.file) for s in label_sets for image in s.images if image.objects)
        named = ", ".join(f"'{file}'" for file in list(wanted)[:3]) or "it marks none"
        raise AnnotationError(f"the photos that '{label}' marks are not here ({named}); choose them together with it")
    return here[0]


def _shot(label: str, photo: Photo, thing: LabelledObject) -> Shot:
    points = [
        _checked(label, Point, x=float(x), y=float(y), hidden=bool(hidden)) if visible else None
        for (x, y), visible, hidden in zip(thing.keypoints, thing.visible, thing.occluded, strict=True)
    ]
    return _checked(label, Shot, photo=photo.id, points=points, box=None if thing.box is None else list(thing.box))


def _checked(label: str, kind: type[M], **values: Any) -> M:
    try:
        return kind(**values)
    except ValidationError as error:
        raise DataError(f"'{label}' cannot be used: {sentence(error.errors())}") from None


def _base(file: str) -> str:
    return PurePosixPath(file.replace("\\", "/")).name


def _key(file: str) -> str:
    return as_label(file).casefold()
