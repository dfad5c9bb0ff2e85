"""The project: one folder with project.json and photos/, and nothing is ever written outside it.

Photos are stored under the hash of their bytes. Names that clients give are labels inside project.json, never paths.
"""

from __future__ import annotations

import re
import shutil
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from edgecape.errors import AnnotationError, DataError, EdgeCapeError, ImageError
from edgecape.io.files import atomic_write, read_json, write_json
from edgecape.studio import pictures
from edgecape.studio.limits import Limits, RefusedError
from edgecape.studio.models import (
    Document,
    Failure,
    Marks,
    Photo,
    Project,
    Stored,
    StoredPhoto,
    Uploaded,
    id_of,
    is_plain,
)
from edgecape.types import as_edges

FILE, PHOTOS, PROMPTS, WORK = "project.json", "photos", "prompts", ".work"
OURS = re.compile(r"^[0-9a-f]{16}\.[a-z0-9]{2,6}$")
LONGEST_LABEL = 200


class ProjectStore:
    """One project and its folder; safe to use from several threads."""

    def __init__(self, folder: Path, limits: Limits):
        self.folder = folder
        self.limits = limits
        self._lock = threading.RLock()
        self._adding = threading.Lock()  # photos are stored before project.json lists them: no sweep in between
        self._decoding = threading.BoundedSemaphore(2)  # decoded photos are large
        self._stamp: tuple[int, int] | None = None  # of project.json as last read or written
        self._project = self._load()

    # --- the document ------------------------------------------------------------------------------------

    def read(self) -> Project:
        with self._lock:
            photos = {id_: as_photo(photo) for id_, photo in self._project.photos.items()}
            return Project(**self._project.fields(), photos=photos)

    def save(self, document: Document) -> int:
        """The new revision; refused if the document is not based on the last one."""
        with self._lock:
            if document.revision != self._project.revision:
                told = f"at revision {self._project.revision}, not {document.revision}: another window changed it"
                raise RefusedError(409, f"the project is {told}; load it again")
            check_document(document, self._project.photos, self.limits)
            if document.prompt is not None and not self.prompt_path(document.prompt).is_file():
                raise AnnotationError(f"there is no prompt '{document.prompt}' in the project; open its file first")
            return self._replace(document, self._project.photos)

    def reset(self) -> Project:
        with self._adding, self._lock:
            self._replace(Document(), {})
            self._sweep()
            return self.read()

    def replace(
        self, document: Document, photos: dict[str, tuple[StoredPhoto, Path]], prompt: bytes | None = None
    ) -> Project:
        """By another, whose photos are files that may be moved away."""
        check_document(document, photos, self.limits)
        with self._adding, self._lock:
            (self.folder / PHOTOS).mkdir(parents=True, exist_ok=True)
            for photo, path in photos.values():
                path.replace(self._photo_path(photo))
            if prompt is not None:
                self.keep_prompt(prompt)
            self._replace(document, {id_: photo for id_, (photo, _) in photos.items()})
            self._sweep()
            return self.read()

    # --- photos ------------------------------------------------------------------------------------------

    def add_photos(self, files: Iterable[tuple[str | None, bytes]]) -> tuple[Uploaded, list[int]]:
        """Files as (name, bytes): those that are photos are stored; and the statuses of those that are not."""
        added: dict[str, StoredPhoto] = {}
        failed: list[Failure] = []
        statuses: list[int] = []
        with self._adding:
            for name, data in files:
                label = as_label(name)
                try:
                    with self._decoding:
                        photo = pictures.examine(data, label, self.limits)
                    known = self._project.photos | added
                    if photo.id not in known:
                        if len(known) >= self.limits.photos:
                            told = f"a project may have {self.limits.photos} photos; remove some"
                            raise RefusedError(422, f"'{label}' is one too many: {told}")
                        with atomic_write(self._photo_path(photo), "wb") as file:
                            file.write(data)
                    added[photo.id] = known.get(photo.id, photo)
                except EdgeCapeError as error:
                    failed.append(Failure(name=label, error=str(error)))
                    statuses.append(error.status if isinstance(error, RefusedError) else 422)
            if added:
                with self._lock:
                    self._write(self._project.model_copy(update={"photos": self._project.photos | added}))
        return Uploaded(photos=[as_photo(photo) for photo in added.values()], failed=failed), statuses

    def delete_photo(self, id_: str) -> None:
        with self._adding, self._lock:
            photo = self.photo(id_)
            if id_ in self._project.used():
                raise RefusedError(409, f"photo '{photo.name}' is used in the project; remove it there first")
            left = {key: value for key, value in self._project.photos.items() if key != id_}
            self._write(self._project.model_copy(update={"photos": left}))
            self._photo_path(photo).unlink(missing_ok=True)

    def photo(self, id_: str) -> StoredPhoto:
        try:
            return self._project.photos[id_]
        except KeyError:
            raise RefusedError(404, f"there is no photo '{id_}' in the project; upload it again") from None

    def path(self, id_: str) -> Path:
        return self._photo_path(self.photo(id_))

    def picture(self, id_: str) -> tuple[Path, str] | tuple[bytes, str]:
        """The upright photo for a browser: its file if that will do, else converted, with the media type."""
        with self._looking_at(id_) as path:
            media_type = pictures.browser_type(path)
            return (path, media_type) if media_type else pictures.upright(path)

    def thumbnail(self, id_: str) -> bytes:
        with self._looking_at(id_) as path:
            return pictures.thumbnail(path)

    @contextmanager
    def _looking_at(self, id_: str) -> Iterator[Path]:
        photo = self.photo(id_)
        try:
            with self._decoding:
                yield self._photo_path(photo)
        except (OSError, ImageError):  # it was good when it came
            raise RefusedError(404, f"photo '{photo.name}' cannot be read any more; upload it again") from None

    def _photo_path(self, photo: StoredPhoto) -> Path:
        return self.folder / PHOTOS / f"{photo.id}{photo.suffix}"

    # --- saved prompts -----------------------------------------------------------------------------------

    def prompt_path(self, id_: str) -> Path:
        return self.folder / PROMPTS / f"{id_}.prompt"

    def keep_prompt(self, content: bytes) -> str:
        """Its id; the oldest that the project does not use goes if there are too many."""
        id_ = id_of(content)
        with self._lock:
            with atomic_write(self.prompt_path(id_), "wb") as file:
                file.write(content)
            newest_first = sorted(self.prompt_path(id_).parent.iterdir(), key=lambda path: -path.stat().st_mtime_ns)
            others = [path for path in newest_first if path.stem not in (id_, self._project.prompt)]
            for path in others[self.limits.prompts - 1 :]:
                path.unlink(missing_ok=True)
        return id_

    # --- the folder --------------------------------------------------------------------------------------

    @property
    def work(self) -> Path:
        """For what is on its way in or out; empty when nobody asks for anything."""
        return self.folder / WORK

    def open_folder(self) -> None:
        """Make it, so that what cannot be written is found out at once; sweep what a crash left behind."""
        try:
            shutil.rmtree(self.work, ignore_errors=True)
            self.work.mkdir(parents=True)
        except OSError as error:
            told = f"{error.strerror}; choose another folder"
            raise DataError(f"nothing can be written to {self.folder}: {told}") from None
        self._sweep()

    def close_folder(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        with suppress(OSError):
            self.folder.rmdir()  # if it is still empty

    @contextmanager
    def scratching(self) -> Iterator[Path]:
        """A new folder inside the project."""
        folder = self.work / uuid.uuid4().hex
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _load(self) -> Stored:
        path = self.folder / FILE
        if not path.exists():
            if self.folder.exists() and (not self.folder.is_dir() or set(_names(self.folder)) - {WORK}):
                raise DataError(f"{self.folder} holds other things; give a new or empty folder for the project")
            return Stored()
        project = Stored.of(read_json(path), str(path))
        check_document(project, project.photos, self.limits)
        if project.prompt is not None and not self.prompt_path(project.prompt).is_file():
            raise DataError(f"prompt {self.prompt_path(project.prompt)} of {path} is missing; put it back")
        missing = next((photo for photo in project.photos.values() if not self._photo_path(photo).is_file()), None)
        if missing is not None:
            raise DataError(f"photo {self._photo_path(missing)} ('{missing.name}') of {path} is missing; put it back")
        self._stamp = _stamp(path)
        return project

    def _replace(self, document: Document, photos: dict[str, StoredPhoto]) -> int:
        revision = self._project.revision + 1
        self._write(Stored(**document.fields() | {"revision": revision}, photos=photos))
        return revision

    def _write(self, project: Stored) -> None:
        """First the file, whole or not at all, then memory."""
        path = self.folder / FILE
        if _stamp(path) != self._stamp:
            raise RefusedError(409, f"{path} was changed by another program; stop the studio and start it again")
        write_json(path, project.model_dump(mode="json", by_alias=True))
        self._stamp = _stamp(path)
        self._project = project

    def _sweep(self) -> None:
        """Remove photos and prompts that the project does not list: of a crash, or of the project before."""
        listed = {self._photo_path(photo) for photo in self._project.photos.values()}
        listed.add(self.prompt_path(self._project.prompt or ""))
        for folder in (self.folder / PHOTOS, self.folder / PROMPTS):
            for name in _names(folder):
                if OURS.match(name) and folder / name not in listed:
                    with suppress(OSError):
                        (folder / name).unlink()


def as_photo(photo: StoredPhoto) -> Photo:
    return Photo(**photo.model_dump(exclude={"suffix"}))


def as_label(name: str | None) -> str:
    """What a client calls a file, as one line of text of bearable length; its folders are cut off."""
    text = (name or "").encode("utf-8", "replace").decode("utf-8").replace("\\", "/").rsplit("/", 1)[-1]
    text = "".join(filter(is_plain, text)).strip()
    stem, dot, suffix = text.rpartition(".")
    if len(text) > LONGEST_LABEL:
        text = stem[: LONGEST_LABEL - 10] + dot + suffix[:9] if dot else text[:LONGEST_LABEL]
    return text or "photo"


def check_document(document: Document, photos: Any, limits: Limits) -> None:
    """That all its parts fit together and to the photos."""
    check_marks(document, limits)
    K = len(document.names)
    if len(document.queries) > limits.objects:
        raise AnnotationError(f"{len(document.queries)} queries are too many; a project may have {limits.objects}")
    seen: dict[tuple[Any, ...], int] = {}
    for number, query in enumerate(document.queries):
        for pose in (query.pose, query.earlier):
            if pose is not None and {len(pose.keypoints), len(pose.scores), len(pose.moved)} != {K}:
                raise AnnotationError(f"the pose of query {number} does not fit {K} keypoints; predict it again")
        other = seen.setdefault((query.photo, *(query.box or ())), number)
        if other != number:
            raise AnnotationError(f"queries {other} and {number} are the same photo and box; give each object its box")
    unknown = next((id_ for id_ in document.used() if id_ not in photos), None)
    if unknown is not None:
        raise AnnotationError(f"there is no photo '{unknown}' in the project; upload it first")


def check_marks(marks: Marks, limits: Limits) -> None:
    K = len(marks.names)
    if limits.keypoints < K:
        raise AnnotationError(f"{K} keypoints are too many; a project may have {limits.keypoints}")
    if len(set(marks.names)) < K:
        twice = next(name for name in marks.names if marks.names.count(name) > 1)
        raise AnnotationError(f"two keypoints are named '{twice}'; names must differ")
    if len(marks.shots) > limits.shots:
        raise AnnotationError(f"{len(marks.shots)} marked photos are too many; a project may have {limits.shots}")
    as_edges(marks.skeleton, K)
    for number, shot in enumerate(marks.shots):
        if len(shot.points) != K:
            raise AnnotationError(f"shot {number} has {len(shot.points)} points for {K} keypoints; give one each")


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_ino, facts.st_mtime_ns
