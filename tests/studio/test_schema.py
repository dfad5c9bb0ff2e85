"""Whatever is sent to any address that openapi.json names, the answer is one that it describes and never a 5xx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from edgecape.studio.app import create_app
from edgecape.studio.context import Studio
from edgecape.studio.engine import Engine
from edgecape.studio.limits import Limits
from edgecape.studio.project import Incoming, ProjectStore

from service import FakeModel, client, encoded, lamp, marks

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    unsupported_method,
]
PATHS = create_app(ProjectStore(Path("nowhere"), Limits()), Engine(FakeModel, 1)).openapi()["paths"]
OPERATIONS = [(method.upper(), path, what) for path, item in PATHS.items() for method, what in item.items()]
GOOD = [(method, path) for method, path, _ in OPERATIONS]
BAD = [(method, path) for method, path, what in OPERATIONS if "requestBody" in what or "parameters" in what]
SETTINGS = settings(
    max_examples=15,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def prompt(tmp_path_factory):
    """Something to predict with."""
    with client(tmp_path_factory.mktemp("prompt") / "project") as http:
        photo = http.post("/api/v1/photos", files={"files": ("lamp.png", encoded(lamp()[0]))}).json()["photos"][0]["id"]
        id_ = http.post("/api/v1/prompts", json=marks(photo)).json()["id"]
        return id_, http.app.state.studio.prompt(id_)


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    http = client(tmp_path_factory.mktemp("schema") / "project")
    return schemathesis.openapi.from_asgi("/openapi.json", http.app, headers={"Host": "localhost"})


@pytest.mark.parametrize(("method", "path"), GOOD)
def test_requests_as_described(api, prompt, method, path):
    """With ids of what is there, so that they get far."""
    studio: Studio = api.app.state.studio

    @SETTINGS
    @given(case=api[path][method].as_strategy())
    def check(case):
        uploaded = studio.store.add_photos([Incoming("lamp.png", encoded(lamp()[0]))]).uploaded
        studio.prompts.keep(*prompt)
        known = {"photo": uploaded.photos[0].id, "prompt": prompt[0], "revision": studio.store.read().revision}
        case.body = at_home(case.body, known)
        if "id" in (case.path_parameters or {}):
            case.path_parameters["id"] = known["prompt" if "prompts" in path else "photo"]
        case.call_and_validate(checks=CHECKS, headers={"Host": "localhost"})

    check()


@pytest.mark.parametrize(("method", "path"), BAD)
def test_requests_that_are_wrong(api, method, path):
    @SETTINGS
    @given(case=api[path][method].as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def check(case):
        case.call_and_validate(checks=CHECKS, headers={"Host": "localhost"})

    check()


def at_home(value: Any, known: dict[str, Any]) -> Any:
    """The same with known ids in the place of made-up ones."""
    if isinstance(value, dict):
        return {key: known[key] if key in known else at_home(item, known) for key, item in value.items()}
    return [at_home(item, known) for item in value] if isinstance(value, list) else value
