"""The part of the API that does without the model: project, photos, where to begin, exports."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Query, UploadFile
from fastapi import Path as InPath
from starlette.responses import FileResponse, JSONResponse, Response

from edgecape import __version__
from edgecape.errors import AnnotationError
from edgecape.examples import all_examples
from edgecape.studio import models
from edgecape.studio.archive import open_archive, write_archive
from edgecape.studio.context import API, BINARY, PROBLEMS, OneFile, Shared, content_of, contents_of, download
from edgecape.studio.exports import available, export
from edgecape.studio.imports import import_labels
from edgecape.studio.limits import RefusedError
from edgecape.studio.pictures import as_png
from edgecape.studio.project import Incoming
from edgecape.studio.templates import TEMPLATES
from edgecape.studio.videos import add_video

router = APIRouter(prefix=API, responses=PROBLEMS)
_examples = cache(all_examples)
PhotoInPath = Annotated[models.PhotoId, InPath()]


@router.get("/status", tags=["status"], summary="Version, model, limits and how much waits")
def get_status(studio: Shared) -> models.Status:
    """The model is loaded when the studio starts; what needs it waits until its state is "ready"."""
    engine, model, error = studio.engine, studio.engine.estimator, studio.engine.error
    return models.Status(
        version=__version__,
        model=models.ModelFacts(
            state="failed" if error else "ready" if model else "loading",
            error=None if error is None else str(error),
            fingerprint=None if model is None else model.fingerprint,
            facts={} if model is None else model.facts,
        ),
        limits=studio.limits,
        queue=models.QueueFacts(waiting=engine.waiting, prompts=engine.waiting_prompts, running=engine.running),
    )


@router.get("/project", tags=["project"], summary="The project")
def get_project(studio: Shared) -> models.Project:
    """The whole document, with the photos it may refer to."""
    return studio.store.read()


@router.put("/project", tags=["project"], summary="Save the project")
def save_project(project: models.Project, studio: Shared) -> models.Revision:
    """The whole document replaces the last one, if `revision` is that of the last one; else the answer is 409."""
    return models.Revision(revision=studio.store.save(project))


@router.post("/project/reset", tags=["project"], summary="Begin a new project")
def reset_project(studio: Shared) -> models.Project:
    """Removes all marks, poses and photos of the project."""
    return studio.store.reset()


@router.get("/project/archive", tags=["project"], summary="Save the project as a file", **BINARY)
def download_archive(studio: Shared) -> Response:
    """A zip with project.json and the photos it uses, which another studio can open."""
    name = f"{studio.store.read().name or 'project'}.edgecape"
    return download(studio.store, lambda folder: write_archive(studio.store, folder / "project.zip"), name)


@router.post("/project/archive", tags=["project"], summary="Open a saved project")
def open_archive_file(file: OneFile, studio: Shared) -> models.Project:
    """Replaces the project, once the whole archive was found to be good."""
    return open_archive(studio.store, file.file)


@router.post(
    "/photos",
    tags=["photos"],
    summary="Upload photos",
    response_model=models.Uploaded,
    responses={"4XX": {"model": models.NothingUploaded | models.Problem, "description": "no file could be used"}},
)
def upload_photos(files: Annotated[list[UploadFile], File()], studio: Shared) -> Any:
    """One or many. A file that is no photo is named in `failed`; if all are, the answer is 413, 415 or 422.

    The same bytes give the same id. Names are labels: they are shown and exported, but never used as paths.
    """
    uploaded, statuses, _ = studio.store.add_photos(contents_of(files, studio.limits))
    if uploaded.photos:
        return uploaded
    status = statuses[0] if len(set(statuses)) == 1 else 422
    return JSONResponse({"error": uploaded.failed[0].error, **uploaded.model_dump()}, status_code=status)


@router.post("/videos", tags=["photos"], summary="Upload a video")
def upload_video(
    file: OneFile,
    studio: Shared,
    every: Annotated[int | None, Form(ge=1, le=10**6, description="take each n-th frame")] = None,
    frames: Annotated[int, Form(ge=1, le=10**6, description="take at most that many, spread evenly")] = 100,
) -> models.Uploaded:
    """Frames of it become photos, which tell their clip, frame and time; `every` counts more than `frames`."""
    return add_video(studio.store, file.filename, file.file, every, frames)


@router.get(
    "/photos/{id}",
    tags=["photos"],
    summary="A photo, upright",
    response_class=Response,
    responses={200: {"content": {"image/*": {}}, "description": "the picture"}},
)
def get_photo(
    id: PhotoInPath,
    studio: Shared,
    thumb: Annotated[bool, Query(description="at most 320 pixels wide and high, as JPEG")] = False,
) -> Response:
    """As a browser can show it: the uploaded file if it is an upright JPEG, PNG or WebP, else converted."""
    headers = {"Cache-Control": "private, max-age=31536000, immutable"}
    if thumb:
        return Response(studio.store.thumbnail(id), media_type="image/jpeg", headers=headers)
    picture, media_type = studio.store.picture(id)
    if isinstance(picture, Path):
        return FileResponse(picture, media_type=media_type, headers=headers)
    return Response(picture, media_type=media_type, headers=headers)


@router.delete("/photos/{id}", tags=["photos"], summary="Remove a photo", status_code=204)
def delete_photo(id: PhotoInPath, studio: Shared) -> None:
    """409 while a shot or query of the saved project uses it."""
    studio.store.delete_photo(id)


@router.post("/import", tags=["begin"], summary="Marks from a label file")
def import_label_file(
    file: Annotated[UploadFile, File(description="COCO, LabelMe, Label Studio, CSV, DeepLabCut CSV or small JSON")],
    studio: Shared,
    photos: Annotated[list[UploadFile] | None, File(description="that it names, unless the project has them")] = None,
) -> models.Imported:
    """Photos are found by file name. They are stored; the project's document stays as it is."""
    content = content_of(file, studio.limits)
    return import_labels(studio.store, file.filename, content, contents_of(photos or (), studio.limits))


@router.get("/examples", tags=["begin"], summary="Bundled examples")
def list_examples() -> list[models.About]:
    """A marked picture each, and others to find its keypoints on."""
    return [models.About(name=example.name, about=example.about) for example in _examples()]


@router.post("/examples/{name}", tags=["begin"], summary="Begin with an example")
def use_example(name: Annotated[str, InPath(pattern="^[a-z]{1,50}$")], studio: Shared) -> models.Example:
    """Its pictures are stored; the project's document stays as it is."""
    known = {example.name: example for example in _examples()}
    if name not in known:
        raise RefusedError(404, f"there is no example '{name}'; there are {', '.join(known)}")
    example = known[name]
    names = [f"{name}.png", *(f"{name} {number}.png" for number in range(2, len(example.queries) + 2))]
    files = map(Incoming, names, map(as_png, (example.support.image, *example.queries)))
    uploaded = studio.store.add_photos(files).uploaded
    if uploaded.failed:
        raise AnnotationError(uploaded.failed[0].error)
    first, *others = uploaded.photos
    points: list[models.Point | None] = [models.Point(x=x, y=y) for x, y in example.support.keypoints.tolist()]
    return models.Example(
        names=list(example.support.names or ()),
        skeleton=[list(edge) for edge in example.support.skeleton or ()],
        shots=[models.Shot(photo=first.id, points=points)],
        queries=[models.Query(photo=photo.id) for photo in others],
        photos=uploaded.photos,
    )


@router.get("/templates", tags=["begin"], summary="Skeletons to begin with")
def list_templates() -> list[models.Template]:
    """Keypoints and edges of common kinds of object, with places to drop them at and move from there."""
    return list(TEMPLATES)


@router.get("/formats", tags=["export"], summary="Formats to export to")
def list_formats() -> list[models.Format]:
    """Those whose suffix is .zip take several files."""
    return available()


@router.post("/export", tags=["export"], summary="Export labels", **BINARY)
def export_labels(wanted: models.ExportRequest, studio: Shared) -> Response:
    """Marked photos and found poses of the saved project. Keypoints that a person moved get score 1."""
    name = f"{studio.store.read().name or 'labels'}-{wanted.format}"
    return download(studio.store, lambda folder: export(studio.store, wanted.format, wanted.photos, folder), name)
