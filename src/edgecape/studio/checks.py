"""What clients send, against what a project can hold: names of files, documents, marks."""

from __future__ import annotations

from typing import Any

from edgecape.errors import AnnotationError
from edgecape.studio.limits import Limits
from edgecape.studio.models import Document, Marks, is_plain
from edgecape.types import as_edges

LONGEST_LABEL = 200


def as_label(name: str | None) -> str:
    """What a client calls a file, as one line of text of bearable length; its folders are cut off."""
    text = (name or "").encode("utf-8", "replace").decode("utf-8").replace("\\", "/").rsplit("/", 1)[-1]
    text = "".join(filter(is_plain, text)).strip()
    stem, dot, suffix = text.rpartition(".")
    if len(text) > LONGEST_LABEL:
        text = stem[: LONGEST_LABEL - 10] + dot + suffix[:9] if dot else text[:LONGEST_LABEL]
    return text or "photo"


def check_document(document: Document, photos: Any, limits: Limits) -> None:
    """That all its parts fit together and to the photos."""
    check_marks(document, limits)
    K = len(document.names)
    if len(document.queries) > limits.objects:
        raise AnnotationError(f"{len(document.queries)} queries are too many; a project may have {limits.objects}")
    seen: dict[tuple[Any, ...], int] = {}
    for number, query in enumerate(document.queries):
        for pose in (query.pose, query.earlier):
            if pose is not None and {len(pose.keypoints), len(pose.scores), len(pose.moved)} != {K}:
                raise AnnotationError(f"the pose of query {number} does not fit {K} keypoints; predict it again")
        other = seen.setdefault((query.photo, *(query.box or ())), number)
        if other != number:
            raise AnnotationError(f"queries {other} and {number} are the same photo and box; give each object its box")
    unknown = next((id_ for id_ in document.used() if id_ not in photos), None)
    if unknown is not None:
        raise AnnotationError(f"there is no photo '{unknown}' in the project; upload it first")


def check_marks(marks: Marks, limits: Limits) -> None:
    K = len(marks.names)
    if limits.keypoints < K:
        raise AnnotationError(f"{K} keypoints are too many; a project may have {limits.keypoints}")
    if len(set(marks.names)) < K:
        twice = next(name for name in marks.names if marks.names.count(name) > 1)
        raise AnnotationError(f"two keypoints are named '{twice}'; names must differ")
    if len(marks.shots) > limits.shots:
        raise AnnotationError(f"{len(marks.shots)} marked photos are too many; a project may have {limits.shots}")
    as_edges(marks.skeleton, K)
    for number, shot in enumerate(marks.shots):
        if len(shot.points) != K:
            raise AnnotationError(f"shot {number} has {len(shot.points)} points for {K} keypoints; give one each")
