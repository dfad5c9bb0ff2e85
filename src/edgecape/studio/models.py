"""The JSON that page, scripts and service exchange. Coordinates are pixels of the upright photo, edges count from 0."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from edgecape.errors import DataError
from edgecape.studio.limits import Limits

FAR = 1e6  # pixels: no photo is that large, and float32 still counts single ones


def one_line(text: str) -> str:
    """As label files need it."""
    if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in text):
        raise ValueError(f"{text!r} is not one line of text")
    return text


def with_area(box: list[float]) -> list[float]:
    if min(box[2:]) < 1:
        raise ValueError(f"{box} has no area; width and height must be at least 1")
    return box


def id_of(content: bytes) -> str:
    """Photos and prompts go by their content."""
    return hashlib.sha256(content).hexdigest()[:16]


Coordinate = Annotated[float, Field(ge=-FAR, le=FAR, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Place = Annotated[list[Coordinate], Field(min_length=2, max_length=2, description="x, y")]
Box = Annotated[
    list[Coordinate],
    Field(min_length=4, max_length=4, description="x, y, width, height; no side below 1"),
    AfterValidator(with_area),
]
Index = Annotated[int, Field(ge=0, le=10_000)]
Edge = Annotated[list[Index], Field(min_length=2, max_length=2, description="two keypoints")]
PhotoId = Annotated[str, Field(pattern="^[0-9a-f]{16}$", description="the first 16 hex digits of the file's sha256")]
PromptId = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Name = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(one_line)]
Title = Annotated[str, Field(max_length=100), AfterValidator(one_line)]
Prior = Annotated[
    Literal["mine", "full", "none"],
    Field(description="the graph the model starts from: the skeleton, all connected, or nothing connected"),
]
Matrix = Annotated[list[list[float]], Field(description="K rows of K numbers")]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Problem(Model):
    """The body of every 4xx answer."""

    error: str = Field(description="one sentence: what was wrong, the value, what to do")


class Point(Model):
    x: Coordinate
    y: Coordinate
    hidden: bool = Field(
        default=False, description="something is in front of it; the model looks at it only if no other shot shows it"
    )


class Wanted(Model):
    photo: PhotoId
    box: Box | None = Field(default=None, description="the object; the whole photo if null")


class Shot(Wanted):
    """A marked photo."""

    points: list[Point | None] = Field(description="one per keypoint; null where it is not placed on this photo")


class Found(Model):
    keypoints: list[Place | None] = Field(description="null where it was not found")
    scores: list[Share] = Field(description="probability that the keypoint is within 10 % of the box's longer side")


class Corrected(Found):
    moved: list[bool] = Field(description="by a person; one per keypoint")


class Query(Wanted):
    """A photo to find the keypoints on."""

    pose: Corrected | None = None
    state: Literal["waiting", "predicted", "accepted", "failed"] = "waiting"
    error: Annotated[str, Field(max_length=2000)] | None = None
    found_with: PromptId | None = None
    earlier: Corrected | None = None
    changed: int | None = None


class Marks(Model):
    """A keypoint definition, and photos that show it."""

    names: list[Name] = Field(default=[], description="of the K keypoints, each once")
    skeleton: list[Edge] = []
    prior: Prior = "mine"
    shots: list[Shot] = []


class Display(Model):
    score_threshold: Share = 0.3
    graph_threshold: Share = 0.1
    show_names: bool = True


class Photo(Model):
    id: PhotoId
    name: str = Field(description="what the client called the file; a label only")
    width: int
    height: int
    clip: str | None = None
    frame: int | None = None
    time: float | None = None


class Document(Marks):
    revision: int = Field(default=0, ge=0, le=2**53, description="the one this is based on; every save counts one up")
    name: Title = Field(default="", description="of the kind of object; the category in exports")
    queries: list[Query] = []
    prompt: PromptId | None = Field(default=None, description="a saved prompt that is used while there are no shots")
    settings: Display = Display()

    def used(self) -> list[str]:
        """Ids of its photos, each once."""
        return list(dict.fromkeys([shot.photo for shot in self.shots] + [query.photo for query in self.queries]))

    def fields(self) -> dict[str, Any]:
        """Without what Project and Stored add."""
        return {name: getattr(self, name) for name in Document.model_fields}


class Project(Document):
    photos: dict[str, Photo] = Field(default={}, description="by id; told by the service and passed over when saving")


class StoredPhoto(Photo):
    suffix: str = Field(pattern=r"^\.[a-z0-9]{2,4}$")


class Stored(Document):
    """What project.json holds."""

    format: str = "edgecape project 1"
    photos: dict[str, StoredPhoto] = Field(default={})

    @classmethod
    def of(cls, content: Any, where: str) -> Stored:
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise DataError(f"{where} is not a project of this studio: {sentence(error.errors())}") from None


def sentence(errors: Sequence[Any]) -> str:
    """Of what pydantic found, the first: where, and what."""
    first = errors[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{place}: {first['msg']}{more}".removeprefix(": ")


class Revision(Model):
    revision: int


class Failure(Model):
    name: str
    error: str


class Uploaded(Model):
    photos: list[Photo]
    failed: list[Failure]


class NothingUploaded(Uploaded, Problem):
    """No file of the upload could be used."""


class Imported(Model):
    names: list[str]
    skeleton: list[Edge]
    shots: list[Shot]
    photos: list[Photo]
    failed: list[Failure] = Field(description="photos that could not be used")
    missing: list[str] = Field(description="names of labelled photos that were neither sent nor are in the project")
    notes: list[str] = Field(description="what was assumed about the file")


class About(Model):
    name: str
    about: str


class Template(About):
    names: list[str]
    skeleton: list[Edge]
    places: list[Place]


class Example(Model):
    names: list[str]
    skeleton: list[Edge]
    shots: list[Shot]
    queries: list[Query]
    photos: list[Photo]


class PromptFacts(Model):
    id: PromptId = Field(description="the same for the same request")
    names: list[str]
    skeleton: list[Edge] | None = Field(description="null if all were connected")
    prior: Matrix
    weights: Matrix = Field(description="the predicted graph before normalisation")
    graph: Matrix = Field(description="the predicted graph Ã, rows sum to 1 or 0")
    shots: int


class PredictionRequest(Model):
    prompt: PromptId
    photos: list[Wanted] = Field(min_length=1)
    effort: Literal["fast", "auto", "best"] = "auto"


class Prediction(Model):
    """One line of the answer; exactly one of pose and error is there."""

    photo: PhotoId
    index: int = Field(description="in the request's photos")
    pose: Found | None = None
    error: str | None = None


class Format(About):
    title: str
    suffix: str


class ExportRequest(Model):
    format: str = Field(description="a name from GET /api/formats")
    photos: bool = Field(default=False, description="put the photos beside the labels, in a zip")


class ModelFacts(Model):
    state: Literal["loading", "ready", "failed"]
    error: str | None
    fingerprint: str | None
    facts: dict[str, Any] = Field(description="what the model's folder tells of it")


class QueueFacts(Model):
    waiting: int
    running: int


class Status(Model):
    version: str
    model: ModelFacts
    limits: Limits
    queue: QueueFacts
