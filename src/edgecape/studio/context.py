"""What the requests share: the studio they belong to, and how files come in and go out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, File, Request, UploadFile
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from edgecape.studio import models
from edgecape.studio.checks import as_label
from edgecape.studio.encoding import Encoder
from edgecape.studio.engine import Engine
from edgecape.studio.limits import Limits, RefusedError
from edgecape.studio.project import Incoming, ProjectStore
from edgecape.studio.prompts import PromptCache, load
from edgecape.types import Prompt

API = "/api/v1"


@dataclass(frozen=True)
class Studio:
    store: ProjectStore
    engine: Engine
    prompts: PromptCache
    encoder: Encoder

    @property
    def limits(self) -> Limits:
        return self.store.limits

    def prompt(self, id_: str) -> Prompt:
        """From memory, or one that came as a file and is kept in the project."""
        prompt = self.prompts.find(id_)
        if prompt is None:
            path = self.store.prompt_path(id_)
            if not path.is_file():
                raise RefusedError(404, f"there is no prompt '{id_}' any more; create it again with POST {API}/prompts")
            prompt = load(path, path.name)
            self.prompts.keep(id_, prompt)
        return prompt


def of_request(request: Request) -> Studio:
    return request.app.state.studio


Shared = Annotated[Studio, Depends(of_request)]
OneFile = Annotated[UploadFile, File()]
Answers = dict[int | str, dict[str, Any]]

PROBLEM = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
PROBLEMS: Answers = {
    "4XX": {"model": models.Problem, "description": "what was wrong"},
    "5XX": {"model": models.Problem, "description": "no model, a full disk, or a mistake of the studio's own"},
}
BINARY: Any = {
    "response_class": Response,
    "responses": {200: {"content": {"application/octet-stream": {}}, "description": "a file"}},
}


def content_of(file: UploadFile, limits: Limits) -> bytes:
    """Of a file that is too large, just enough for that to be noticed."""
    return file.file.read(limits.upload_bytes + 1)


def contents_of(files: Iterable[UploadFile], limits: Limits) -> Iterator[Incoming]:
    """One at a time."""
    for file in files:
        yield Incoming(file.filename, content_of(file, limits))


class Ending(Response):
    """Calls `end` however the answer ends, also when the client is gone."""

    end: Callable[[], None] = staticmethod(lambda: None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.end()


class Download(Ending, FileResponse):
    """A file made for this answer."""


def download(store: ProjectStore, make: Callable[[Path], Path], name: str) -> Response:
    """What `make` puts into the folder it is given; its suffix is added to the name."""
    with ExitStack() as stack:
        path = make(stack.enter_context(store.scratching()))
        answer = Download(path, media_type="application/octet-stream", filename=as_label(name + path.suffix))
        answer.end = stack.pop_all().close  # the folder is needed until then
    return answer
