"""The web application: guard, API, description and page."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from edgecape import __version__
from edgecape.errors import EdgeCapeError
from edgecape.studio import predicting, routes
from edgecape.studio.context import API, Studio
from edgecape.studio.encoding import Encoder
from edgecape.studio.engine import Engine
from edgecape.studio.limits import FULL, RefusedError
from edgecape.studio.models import sentence
from edgecape.studio.project import ProjectStore
from edgecape.studio.prompts import PromptCache
from edgecape.studio.samples import add_samples
from edgecape.studio.security import Access, Guard, problem, schemes

HERE = Path(__file__).parent
ABOUT = """Mark keypoints on a photo, predict them on others, correct and export. All coordinates are pixels of the
upright photo, origin top left; edges count from 0. Every 4xx and 5xx answer is
{"error": "one sentence"}."""

log = logging.getLogger("edgecape.studio")


def create_app(store: ProjectStore, engine: Engine, access: Access | None = None) -> FastAPI:
    """The engine is started and stopped with the app."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        engine.stop()

    app = FastAPI(
        title="edgecape studio",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
        generate_unique_id_function=lambda route: route.name,
    )
    prompts = PromptCache(store.limits.prompts)
    app.state.studio = Studio(store, engine, prompts, Encoder(engine, prompts))
    app.include_router(routes.router)
    app.include_router(predicting.router)
    for kind in (EdgeCapeError, RequestValidationError, HTTPException, OSError, Exception):
        app.add_exception_handler(kind, _on_error)
    access = access or Access()
    app.add_middleware(Guard, access=access, limits=store.limits)

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        from edgecape.studio.reference import render

        return HTMLResponse(render(app.openapi()))

    files = StaticFiles(directory=HERE / "page", html=True)

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        """Whatever is not the API's; a mount would hide that the API knows an address, but not that method."""
        if scope["path"].startswith("/api/"):
            raise HTTPException(404, f"there is no such address; the API is at {API}")
        await files(scope, receive, send)

    app.router.default = page
    describe(app, access)
    return app


def describe(app: FastAPI, access: Access) -> None:
    """OpenAPI as FastAPI derives it, with an example for each call and how to prove who asks."""
    api = app.openapi()  # FastAPI keeps and serves this one
    api["components"]["securitySchemes"] = schemes()
    api["security"] = [*([] if access.token else [{}]), *({name: []} for name in schemes())]
    add_samples(api)


def _on_error(request: Request, error: Exception) -> Response:
    match error:
        case RefusedError(retry_after=int(seconds)):
            return problem(error.status, str(error), {"Retry-After": str(seconds)})
        case RefusedError():
            return problem(error.status, str(error))
        case EdgeCapeError():
            return problem(422, str(error))
        case RequestValidationError():
            return problem(422, sentence([{**one, "loc": one["loc"][1:] or one["loc"]} for one in error.errors()]))
        case HTTPException(__cause__=OSError() as cause):  # an upload that could not be spooled
            return _on_disk(request, cause)
        case HTTPException():
            return problem(error.status_code, f"{error.detail} ({request.method} {request.url.path})", error.headers)
        case OSError():
            return _on_disk(request, error)
    return problem(500, "something went wrong in the studio; the terminal says what")


def _on_disk(request: Request, error: OSError) -> Response:
    log.error("%s %s: %s", request.method, request.url.path, error)
    return problem(507, FULL.format(error.strerror or error))
