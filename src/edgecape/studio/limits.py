"""What the studio refuses: how much is too much, and the error that says so."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from edgecape.errors import EdgeCapeError

MIB = 2**20
FULL = "the project folder cannot be written: {}; is the disk full?"


class Limits(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    upload_bytes: int = 50 * MIB  # of one photo or label file
    video_bytes: int = 1024 * MIB  # of one video
    request_bytes: int = 2048 * MIB  # of one upload with all its files, and of what an archive unpacks to
    json_bytes: int = 16 * MIB  # of a request without files
    patience: int = 30  # seconds that a request may take to arrive, and besides
    slowest: int = 20_000  # bytes a second that it must come with
    pixels: int = 64_000_000  # of one photo
    keypoints: int = 150
    shots: int = 50  # marked photos of one prompt, which are encoded together
    photos: int = 1000  # of a project
    objects: int = 2000  # to find keypoints on, of a project and of one request
    queue: int = 4000  # of them that wait for the model, of all clients together
    prompts: int = 32  # kept in memory


class RefusedError(EdgeCapeError):
    """A request that is answered with this status and nothing else."""

    def __init__(self, status: int, message: str, retry_after: int | None = None):
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after  # seconds
