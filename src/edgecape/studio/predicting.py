"""The part of the API that asks the model: prompts and predictions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Header, Request
from fastapi import Path as InPath
from pydantic import ValidationError
from starlette.responses import Response, StreamingResponse

from edgecape.errors import AnnotationError, EdgeCapeError
from edgecape.studio import models, prompts, shots
from edgecape.studio.checks import as_label, check_marks
from edgecape.studio.context import (
    API,
    BINARY,
    PROBLEM,
    PROBLEMS,
    Answers,
    Ending,
    OneFile,
    Shared,
    content_of,
    download,
)
from edgecape.studio.engine import Job, Outcome
from edgecape.studio.limits import RefusedError
from edgecape.types import Pose, as_box

NO_MODEL: Answers = {503: {"description": "the model could not be loaded", "content": PROBLEM}}
IN_JSON: Answers = {
    status: {"description": str(what["description"]), "content": PROBLEM} for status, what in PROBLEMS.items()
}  # where good answers are lines

router = APIRouter(prefix=API, tags=["predict"], responses=PROBLEMS | NO_MODEL)
PromptInPath = Annotated[models.PromptId, InPath()]
Client = Annotated[
    str | None,
    Header(alias="X-EdgeCape-Client", pattern="^[A-Za-z0-9._-]{1,64}$", description="any word, the same for one page"),
]
T = TypeVar("T")


class Arrivals(asyncio.Queue[Outcome]):
    """Outcomes on their way from the worker's thread to the request that waits for them."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()

    def deliver(self, outcome: Outcome) -> None:
        self.loop.call_soon_threadsafe(self.put_nowait, outcome)


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Its outcome; when the client goes away first, the work is cancelled."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise RefusedError(408, "the client closed the connection")
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Lines(Ending, StreamingResponse):
    """One JSON object per line."""

    media_type = "application/x-ndjson"


@router.post("/prompts", summary="Create a prompt from marked photos")
async def create_prompt(
    marks: models.Marks, studio: Shared, request: Request, client: Client = None
) -> models.PromptFacts:
    """What the model makes of the marks, with the graph it predicts; use its id to predict.

    The same request gives the same id, and costs nothing as long as the prompt is kept (the last 32 are). Prompts go
    before photos in the line, one of each client: while a newer one of the same client waits, an older one that was
    not begun is answered 409. Closing the connection takes it out of the line.
    """
    check_marks(marks, studio.limits)
    id_ = prompts.id_of_marks(marks)
    prompt = studio.prompts.find(id_)
    if prompt is None:
        supports = prompts.as_supports(marks, studio.store.path)
        prompt = await unless_gone(request, studio.encoder.encode(id_, supports, client))
        studio.prompts.note(id_, marks)
    return prompts.facts(id_, prompt)


@router.post(
    "/prompts/{id}/check",
    summary="Which shots disagree with the others",
    status_code=200,
    response_class=Lines,
    response_model=models.ShotCheck,
    responses=IN_JSON,
    response_description="one JSON object per line, in the order of the shots, each as soon as it is known",
)
async def check_shots(id: PromptInPath, studio: Shared) -> Response:
    """Each shot is left out once, and the others find its keypoints: far from its marks, one of them is wrong, or the
    photo shows what no other does. Closing the connection ends it."""
    studio.prompt(id)
    marks = studio.prompts.marks(id)
    if marks is None or len(marks.shots) < 2:
        raise AnnotationError("only a prompt made here of two or more shots can be checked; mark another photo")

    async def lines() -> AsyncIterator[str]:
        for index, shot in enumerate(marks.shots):
            found = models.ShotCheck(photo=shot.photo, index=index)
            try:
                photo, others = studio.store.photo(shot.photo), prompts.without(marks, index)
                supports = prompts.as_supports(others, studio.store.path)
                prompt = await studio.encoder.encode(prompts.id_of_marks(others), supports)
                arrivals = Arrivals()
                job = Job(studio.store.path(shot.photo), as_box(shot.box) if shot.box else None)
                ticket = studio.engine.predict(prompt, [job], arrivals.deliver)
                try:
                    outcome = await arrivals.get()
                finally:
                    studio.engine.cancel(ticket)
                if isinstance(outcome, EdgeCapeError):
                    raise outcome
                assert isinstance(outcome, Pose)
                found = shots.compare(index, shot, photo, outcome)
            except EdgeCapeError as error:
                found.error = str(error)
            yield found.model_dump_json(exclude_none=True) + "\n"

    return Lines(lines())


@router.post("/suggestions", summary="Which photo to mark next")
def suggest_shots(wanted: models.SuggestionRequest, studio: Shared) -> list[models.Suggestion]:
    """By what the saved project found on them: the photo first that most others resemble more than they resemble a
    shot. Nothing is asked of the model."""
    studio.prompt(wanted.prompt)
    for photo in wanted.photos:
        studio.store.photo(photo)
    project = studio.store.read()
    return shots.suggest(wanted.photos, project.queries, project.shots)


@router.post("/prompts/file", summary="Create a prompt from a saved one")
def open_prompt(file: OneFile, studio: Shared) -> models.PromptFacts:
    """A .prompt file of this model, saved here or by `edgecape predict --save-prompt`; it is kept in the project."""
    content, label = content_of(file, studio.limits), as_label(file.filename)
    if len(content) > studio.limits.upload_bytes:
        raise RefusedError(413, f"'{label}' has more than {studio.limits.upload_bytes:,} bytes; choose a .prompt file")
    with studio.store.scratching() as folder:
        path = folder / "given.prompt"
        path.write_bytes(content)
        prompt = prompts.load(path, label)
    if len(prompt) > studio.limits.keypoints:
        raise AnnotationError(f"'{label}' has {len(prompt)} keypoints; there may be {studio.limits.keypoints}")
    model = studio.engine.estimator
    if model is None:
        raise RefusedError(409, "the model is not loaded yet; try again in a moment", retry_after=2)
    if prompt.model != model.fingerprint:
        raise AnnotationError(f"'{label}' was made by another model; create it again from marked photos")
    id_ = studio.store.keep_prompt(content)
    studio.prompts.keep(id_, prompt)
    return prompts.facts(id_, prompt)


@router.get("/prompts/{id}", summary="A prompt")
def get_prompt(id: PromptInPath, studio: Shared) -> models.PromptFacts:
    """As it was answered when it was created; 404 if it is not kept any more."""
    return prompts.facts(id, studio.prompt(id))


@router.get("/prompts/{id}/file", summary="Save a prompt", **BINARY)
def download_prompt(id: PromptInPath, studio: Shared) -> Response:
    """For `edgecape predict --support FILE.prompt`, `Prompt.load`, or to be opened here again."""
    prompt = studio.prompt(id)

    def make(folder: Path) -> Path:
        prompt.save(folder / "saved.prompt")
        return folder / "saved.prompt"

    return download(studio.store, make, studio.store.read().name or "object")


@router.post(
    "/predictions",
    summary="Find the keypoints on photos",
    status_code=200,
    response_class=Lines,
    response_model=models.Prediction,
    responses=IN_JSON,
    response_description="one JSON object per line, in the order of the request, each as soon as it is known",
)
async def find_keypoints(wanted: models.PredictionRequest, studio: Shared) -> Response:
    """Photos of all clients take turns. Closing the connection takes the rest of the request out of the line."""
    most = studio.limits.objects
    if len(wanted.photos) > most:
        raise AnnotationError(f"{len(wanted.photos)} photos are too many for one request; give at most {most}")
    prompt = studio.prompt(wanted.prompt)
    names = [studio.store.photo(item.photo).name for item in wanted.photos]
    jobs = [Job(studio.store.path(item.photo), as_box(item.box) if item.box else None) for item in wanted.photos]
    arrivals = Arrivals()
    ticket = studio.engine.predict(prompt, jobs, arrivals.deliver, wanted.effort)

    async def lines() -> AsyncIterator[str]:
        for index, (item, job, name) in enumerate(zip(wanted.photos, jobs, names, strict=True)):
            found = models.Prediction(photo=item.photo, index=index)
            try:
                found.pose = _pose(await arrivals.get())
            except EdgeCapeError as error:
                found.error = str(error).replace(str(job.image), f"'{name}'")
            yield found.model_dump_json(exclude_none=True) + "\n"

    answer = Lines(lines())
    answer.end = partial(studio.engine.cancel, ticket)  # its place in the line is freed
    return answer


def _pose(outcome: Outcome) -> models.Found:
    if not isinstance(outcome, Pose):
        assert isinstance(outcome, EdgeCapeError)
        raise outcome
    found = outcome.to_dict()
    with suppress(ValidationError):  # of places far outside the photo
        if any(found["keypoints"]):
            return models.Found(keypoints=found["keypoints"], scores=found["scores"], effort=found["effort"])
    raise EdgeCapeError("the model found nothing that is a place; look at another part of the photo")
