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
TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # make a name look like another one


def is_plain(letter: str) -> bool:
    """No control character, half a character, end of a line, or order to read on in the other direction."""
    return unicodedata.category(letter) not in ("Cc", "Cs", "Zl", "Zp") and letter not in TURNING


def one_line(text: str) -> str:
    """As label files need it."""
    if not all(map(is_plain, text)):
        raise ValueError(f"{text!a} is not one line of plain text")
    return text


def each_once(edges: list[list[int]]) -> list[list[int]]:
    """An edge that is given again, either way round, says nothing new."""
    first: dict[tuple[int, int], list[int]] = {}
    for edge in edges:
        first.setdefault((min(edge), max(edge)), edge)
    return list(first.values())


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
Skeleton = Annotated[list[Edge], AfterValidator(each_once), Field(description="of an edge given again, one is kept")]
Instant = Annotated[int, Field(ge=0, le=2**53, description="milliseconds since 1970")]
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
    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True)


class Problem(Model):
    """The body of every 4xx and 5xx answer."""

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
    effort: Literal["fast", "best"] | None = Field(default=None, description="how it was looked for, where known")


class Corrected(Found):
    moved: list[bool] = Field(description="by a person; one per keypoint")


class Query(Wanted):
    """An object to find the keypoints on. A photo may have several, each with a box of its own."""

    pose: Corrected | None = Field(default=None, description="stays, and is exported, until another takes its place")
    state: Literal["waiting", "predicted", "accepted", "failed"] = "waiting"
    error: Annotated[str, Field(max_length=2000)] | None = None
    found_with: PromptId | None = Field(default=None, description="the prompt that the pose was found with")
    earlier: Corrected | None = Field(default=None, description="the pose before the last shot")
    changed: Instant | None = Field(default=None, description="when a person last changed it, told by the page")


class Marks(Model):
    """A keypoint definition, and photos that show it."""

    names: list[Name] = Field(default=[], description="of the K keypoints, each once")
    skeleton: Skeleton = []
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
    clip: str | None = Field(default=None, description="the video it is a frame of")
    frame: int | None = Field(default=None, description="its number there, from 0")
    time: float | None = Field(default=None, description="its seconds there")


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
    """Keypoints and skeleton of a common kind of object."""

    names: list[Name]
    skeleton: list[Edge]
    symmetry: list[Edge] = Field(description="which keypoints are left and right of each other")
    places: list[Annotated[list[Share], Field(min_length=2, max_length=2)]] = Field(
        description="x, y of each keypoint, in [0, 1] of the object's box"
    )


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


class ShotCheck(Model):
    """One line of the answer: what the other shots make of this one."""

    photo: PhotoId
    index: int = Field(description="in the prompt's shots")
    distance: float | None = Field(
        default=None, description="mean distance of found from marked points, as a share of the box's longer side"
    )
    worst: list[Index] = Field(default=[], description="keypoints that are off by more than 0.1 of it, worst first")
    error: str | None = None


class SuggestionRequest(Model):
    prompt: PromptId
    photos: list[PhotoId] = Field(min_length=1, description="to choose from")


class Suggestion(Model):
    photo: PhotoId
    gain: float = Field(description="how much nearer all photos would be to a shot, in the mean; 0 without a pose")


class PredictionRequest(Model):
    prompt: PromptId
    photos: list[Wanted] = Field(min_length=1)
    effort: Literal["fast", "auto", "best"] = Field(
        default="auto", description='"fast" and "best" look one way, "auto" decides for each photo'
    )


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
    format: str = Field(description="a name from GET /api/v1/formats")
    photos: bool = Field(default=False, description="put the photos beside the labels, in a zip")


class ModelFacts(Model):
    state: Literal["loading", "ready", "failed"]
    error: str | None
    fingerprint: str | None
    facts: dict[str, Any] = Field(description="what the model's folder tells of it")


class QueueFacts(Model):
    waiting: int = Field(description="photos and prompts, of all clients")
    prompts: int = Field(description="of them, the prompts")
    running: int


class Status(Model):
    version: str
    model: ModelFacts
    limits: Limits
    queue: QueueFacts
