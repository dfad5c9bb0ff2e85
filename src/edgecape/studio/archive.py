"""A project as one zip file: project.json, photos/ and prompts/, as they lie in its folder."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import IO

from edgecape.errors import DataError
from edgecape.studio.checks import as_label
from edgecape.studio.limits import MIB, Limits
from edgecape.studio.models import Project, Stored, StoredPhoto, id_of
from edgecape.studio.pictures import examine
from edgecape.studio.project import FILE, PHOTOS, PROMPTS, ProjectStore, storing
from edgecape.studio.prompts import load

MEMBER = re.compile(rf"^(?:{PHOTOS}/([0-9a-f]{{16}})\.[a-z0-9]{{2,4}}|{PROMPTS}/([0-9a-f]{{16}})\.prompt)$")
ADVICE = "choose a .zip saved by the studio"

Photos = dict[str, tuple[StoredPhoto, Path]]


def write_archive(store: ProjectStore, target: Path) -> Path:
    """With the photos that are used; others are left behind."""
    project = store.read()
    photos = {id_: store.photo(id_) for id_ in project.used()}
    files = [*map(store.path, photos), *([store.prompt_path(project.prompt)] if project.prompt else [])]
    with storing(), zipfile.ZipFile(target, "w") as archive:  # photos are compressed already
        archive.writestr(FILE, Stored(**project.fields(), photos=photos).model_dump_json(by_alias=True))
        for path in files:
            archive.write(path, f"{path.parent.name}/{path.name}")
    return target


def open_archive(store: ProjectStore, file: IO[bytes]) -> Project:
    """Replace the project by that of the archive, after all of it was found to be good."""
    with store.scratching() as folder:
        upload = folder / "upload.zip"  # not `file` itself: Python 3.10 cannot seek in what was uploaded
        with storing(), upload.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        try:
            with zipfile.ZipFile(upload) as archive:
                ids = _check(archive.infolist(), store.limits)
                content = json.loads(_unpack(archive, FILE, store.limits.json_bytes))
                stored = Stored.of(content, FILE)
                photos = _photos(archive, ids, stored, folder, store.limits)
                prompt = _prompt(archive, stored.prompt, folder, store.limits)
        except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, OSError, ValueError) as error:
            raise DataError(f"this is not a project archive: {error}; {ADVICE}") from None
        return store.replace(stored, photos, prompt)


def _check(entries: list[zipfile.ZipInfo], limits: Limits) -> dict[str, str]:
    """Nothing but what a project has; names of photo files by id."""
    names = [entry.filename for entry in entries]
    strange = next((name for name in names if name != FILE and not MEMBER.match(name)), None)
    if strange is not None:
        raise DataError(f"the archive holds {strange[:100]!r}, which no project has; {ADVICE}")
    if len(set(names)) < len(names) or FILE not in names:
        raise DataError(f"the archive has no {FILE}, or a file twice; {ADVICE}")
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        raise DataError(f"the archive is packed in a way no project is; {ADVICE}")
    if sum(entry.file_size for entry in entries) > limits.request_bytes:
        raise DataError(f"the archive unpacks to more than {limits.request_bytes // MIB} MiB; it is refused")
    photos = {found[1]: name for name in names if (found := MEMBER.match(name)) and found[1]}
    if len(photos) > limits.photos:
        raise DataError(f"the archive has {len(photos)} photos; a project may have {limits.photos}")
    return photos


def _photos(archive: zipfile.ZipFile, names: dict[str, str], stored: Stored, folder: Path, limits: Limits) -> Photos:
    photos: Photos = {}
    for id_, name in names.items():
        if id_ not in stored.photos:
            raise DataError(f"the archive holds photo {id_}, which its {FILE} does not list; {ADVICE}")
        data = _unpack(archive, name, limits.upload_bytes)
        photo = examine(data, as_label(stored.photos[id_].name), limits)
        if photo.id != id_:
            raise DataError(f"photo '{photo.name}' in the archive is damaged: its bytes are not those of {id_}")
        told = stored.photos[id_].model_dump(include={"clip", "frame", "time"})
        photos[id_] = (photo.model_copy(update=told), folder / name.rpartition("/")[2])
        with storing():
            photos[id_][1].write_bytes(data)
    return photos


def _prompt(archive: zipfile.ZipFile, id_: str | None, folder: Path, limits: Limits) -> bytes | None:
    if id_ is None:
        return None
    name = f"{id_}.prompt"
    data = _unpack(archive, f"{PROMPTS}/{name}", limits.upload_bytes)
    if id_of(data) != id_:
        raise DataError(f"{name} in the archive is damaged: its bytes are not those of {id_}")
    with storing():
        (folder / name).write_bytes(data)
    load(folder / name, name)
    return data


def _unpack(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """However much the header promises, no more than allowed is ever unpacked."""
    with archive.open(name) as member:
        data = member.read(most + 1)
    if len(data) > most:
        raise DataError(f"{name} in the archive unpacks to more than {most:,} bytes; it is refused")
    return data
