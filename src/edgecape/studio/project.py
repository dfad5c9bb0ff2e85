"""The project: one folder with project.json and photos/, and nothing is ever written outside it.

Photos are stored under the hash of their bytes. Names that clients give are labels inside project.json, never paths.
"""

from __future__ import annotations

import logging
import re
import shutil
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from edgecape.errors import AnnotationError, DataError, EdgeCapeError, ImageError
from edgecape.io.files import atomic_write, is_temporary, read_json, settle, write_json
from edgecape.studio import pictures
from edgecape.studio.checks import as_label, check_document
from edgecape.studio.limits import FULL, Limits, RefusedError
from edgecape.studio.models import Document, Failure, Photo, Project, Stored, StoredPhoto, Uploaded, id_of

FILE, PHOTOS, PROMPTS, WORK = "project.json", "photos", "prompts", ".work"
OURS = re.compile(r"^[0-9a-f]{16}\.[a-z0-9]{2,6}$")


log = logging.getLogger("edgecape.studio")


class Incoming(NamedTuple):
    """A photo as a client sends it, or a frame of its video."""

    name: str | None
    data: bytes
    clip: str | None = None
    frame: int | None = None
    time: float | None = None  # seconds


class Arrived(NamedTuple):
    uploaded: Uploaded
    statuses: list[int]  # of those that failed
    named: dict[str, Photo]  # by what each was called this time, which may not be what the project calls it


@contextmanager
def storing() -> Iterator[None]:
    """Whatever the disk refuses inside the block is one answer, which names no place on this machine."""
    try:
        yield
    except (OSError, DataError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        log.error("%s", error)
        raise RefusedError(507, FULL.format(cause.strerror or cause)) from error


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
            with storing():
                (self.folder / PHOTOS).mkdir(parents=True, exist_ok=True)
                for photo, path in photos.values():
                    settle(path)
                    path.replace(self._photo_path(photo))
                settle(self.folder / PHOTOS)
            if prompt is not None:
                self.keep_prompt(prompt)
            self._replace(document, {id_: photo for id_, (photo, _) in photos.items()})
            self._sweep()
            return self.read()

    # --- photos ------------------------------------------------------------------------------------------

    def add_photos(self, files: Iterable[Incoming]) -> Arrived:
        """Those that are photos are stored, or known already; a disk that is full ends it."""
        added: dict[str, StoredPhoto] = {}
        named: dict[str, Photo] = {}
        failed: list[Failure] = []
        statuses: list[int] = []
        with self._adding:
            for name, data, *of_clip in files:
                label = as_label(name)
                try:
                    with self._decoding:
                        photo = pictures.examine(data, label, self.limits)
                    known = self._project.photos | added
                    if photo.id not in known:
                        if len(known) >= self.limits.photos:
                            told = f"a project may have {self.limits.photos} photos; remove some"
                            raise RefusedError(422, f"'{label}' is one too many: {told}")
                        with storing(), atomic_write(self._photo_path(photo), "wb") as file:
                            file.write(data)
                        photo = photo.model_copy(update=dict(zip(("clip", "frame", "time"), of_clip, strict=True)))
                    added[photo.id] = known.get(photo.id, photo)
                    named[label] = as_photo(added[photo.id])
                except EdgeCapeError as error:
                    status = error.status if isinstance(error, RefusedError) else 422
                    if status == 507:
                        raise
                    failed.append(Failure(name=label, error=str(error)))
                    statuses.append(status)
            if added:
                with self._lock:
                    self._write(self._project.model_copy(update={"photos": self._project.photos | added}))
        uploaded = Uploaded(photos=[as_photo(photo) for photo in added.values()], failed=failed)
        return Arrived(uploaded, statuses, named)

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
            with storing(), atomic_write(self.prompt_path(id_), "wb") as file:
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
        with storing():
            folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _load(self) -> Stored:
        path = self.folder / FILE
        if not path.exists():
            if self.folder.exists() and not (self.folder.is_dir() and _is_unborn(self.folder)):
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
            raise RefusedError(409, f"{FILE} was changed by another program; stop the studio and start it again")
        with storing():
            write_json(path, project.model_dump(mode="json", by_alias=True))
        self._stamp = _stamp(path)
        self._project = project

    def _sweep(self) -> None:
        """Remove photos and prompts that the project does not list, and files that were never finished: of a crash, or
        of the project before."""
        listed = {self._photo_path(photo) for photo in self._project.photos.values()}
        listed.add(self.prompt_path(self._project.prompt or ""))
        for folder in (self.folder, self.folder / PHOTOS, self.folder / PROMPTS):
            for name in _names(folder):
                if _is_ours(name) and folder / name not in listed:
                    with suppress(OSError):
                        (folder / name).unlink()


def as_photo(photo: StoredPhoto) -> Photo:
    return Photo(**photo.model_dump(exclude={"suffix"}))


def _is_unborn(folder: Path) -> bool:
    """Whether it is empty, but for what a studio leaves that was killed before it first wrote project.json."""
    others = [name for name in _names(folder) if name not in (PHOTOS, PROMPTS, WORK) and not is_temporary(name)]
    inside = [*_names(folder / PHOTOS), *_names(folder / PROMPTS)]
    return not others and all(map(_is_ours, inside))


def _is_ours(name: str) -> bool:
    return OURS.match(name) is not None or is_temporary(name)


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_ino, facts.st_mtime_ns
