"""From marks to prompts, and the few prompts that are kept."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from edgecape.errors import AnnotationError, EdgeCapeError
from edgecape.formats.labels import default_names
from edgecape.studio.models import Marks, PromptFacts, id_of
from edgecape.types import Prompt, Support


class PromptCache:
    """The last prompts by id, and the marks they were made of; the one that was not used for longest goes first."""

    def __init__(self, size: int):
        self._size = size
        self._prompts: OrderedDict[str, Prompt] = OrderedDict()
        self._marks: dict[str, Marks] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._prompts)

    def find(self, id_: str) -> Prompt | None:
        with self._lock:
            if id_ in self._prompts:
                self._prompts.move_to_end(id_)
            return self._prompts.get(id_)

    def keep(self, id_: str, prompt: Prompt) -> None:
        with self._lock:
            self._prompts[id_] = prompt
            self._prompts.move_to_end(id_)
            while len(self._prompts) > self._size:
                gone, _ = self._prompts.popitem(last=False)
                self._marks.pop(gone, None)

    def marks(self, id_: str) -> Marks | None:
        """None of a prompt that came as a file."""
        return self._marks.get(id_)

    def note(self, id_: str, marks: Marks) -> None:
        with self._lock:
            if id_ in self._prompts:
                self._marks[id_] = marks


def id_of_marks(marks: Marks) -> str:
    """Photos are named by their content, so the request tells all."""
    return id_of(json.dumps(marks.model_dump(mode="json"), sort_keys=True).encode())


def as_supports(marks: Marks, path: Callable[[str], Path]) -> list[Support]:
    """A keypoint that is hidden on one photo is looked at there only if no other photo shows it; photos without any
    keypoint say nothing."""
    if not marks.names:
        raise AnnotationError("there is no keypoint; mark at least one on a photo")
    shots = [shot for shot in marks.shots if any(shot.points)]
    if not shots:
        raise AnnotationError("there is no marked photo; mark the keypoints on at least one")
    placed = np.array([[point is not None for point in shot.points] for shot in shots])
    hidden = np.array([[point is not None and point.hidden for point in shot.points] for shot in shots])
    shown = placed & ~hidden
    visible = shown | (hidden & ~shown.any(axis=0))
    skeleton = {"mine": marks.skeleton, "full": None, "none": []}[marks.prior]
    places = [[(point.x, point.y) if point else (0.0, 0.0) for point in shot.points] for shot in shots]
    return [
        Support(path(shot.photo), points, skeleton, seen, shot.box, marks.names)
        for shot, points, seen in zip(shots, places, visible, strict=True)
    ]


def without(marks: Marks, number: int) -> Marks:
    """All shots but one."""
    others = [shot for index, shot in enumerate(marks.shots) if index != number]
    return marks.model_copy(update={"shots": others})


def load(path: Path, label: str) -> Prompt:
    """Errors speak of the file as the client knows it."""
    try:
        return Prompt.load(path)
    except EdgeCapeError as error:
        raise AnnotationError(str(error).replace(str(path), f"'{label}'")) from error


def facts(id_: str, prompt: Prompt) -> PromptFacts:
    return PromptFacts(
        id=id_,
        names=list(prompt.names or default_names(len(prompt))),
        skeleton=None if prompt.skeleton is None else [list(edge) for edge in prompt.skeleton],
        prior=prompt.prior.tolist(),
        weights=prompt.weights.tolist(),
        graph=prompt.graph.tolist(),
        shots=prompt.shots,
    )
