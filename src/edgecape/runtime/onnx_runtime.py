"""An exported model in onnxruntime: the same prompts and predictions, without torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgecape.errors import WeightsError, require
from edgecape.io.files import read_json
from edgecape.runtime.base import Floats, Frames, Graph, Located, Runtime, Views, flip_index_of
from edgecape.types import Prompt

FACTS, FORMAT = "edgecape-onnx.json", 2
FRAMES = 16  # that pass the backbone at once
Precision = Literal["fp32", "fp16", "int8"]


class Facts(NamedTuple):
    """Of an exported model; as in `Runtime`."""

    size: tuple[int, int]
    fingerprint: str
    training: dict[str, Any]
    scales: tuple[float, ...]
    views: tuple[int, ...]
    query_views: tuple[int, ...]
    precision: str


def is_exported(folder: str | os.PathLike[str]) -> bool:
    return (Path(folder) / FACTS).is_file()


class OnnxRuntime(Runtime[Floats]):
    def __init__(self, folder: str | os.PathLike[str]):
        super().__init__()
        self.folder = Path(folder)
        facts = _read_facts(self.folder)
        self.size, self.scales = facts.size, facts.scales
        self.fingerprint, self.training = facts.fingerprint, facts.training
        self.views, self.query_views = facts.views, facts.query_views
        self._sessions: dict[str, Any] = {}

    def _run(self, name: str, **inputs: NDArray[Any]) -> list[Any]:
        """A graph, loaded when it is first needed."""
        if name not in self._sessions:
            self._sessions[name] = _session(self.folder / f"{name}.onnx")
        return list(self._sessions[name].run(None, inputs))

    def features(self, frames: Frames) -> Floats:
        parts = [
            self._run("features", frames=np.ascontiguousarray(frames[start : start + FRAMES]))[0]
            for start in range(0, len(frames), FRAMES)
        ]
        return np.concatenate(parts)

    def stack(self, features: Sequence[Floats], dim: int) -> Floats:
        return np.stack(list(features), axis=dim)

    def grid(self, features: Sequence[Floats], shape: tuple[int, ...]) -> Floats:
        return np.stack(list(features)).reshape(*shape, *features[0].shape)

    def take(self, features: Floats, row: Any) -> Floats:
        found: Floats = features[row]
        return found

    def encode_views(
        self, features: Floats, places: Floats, seen: NDArray[np.bool_], prior: Floats
    ) -> tuple[Views, Graph]:
        encoded = [
            self._run("encode", features=of_view, places=where, seen=seen, prior=prior)
            for of_view, where in zip(features, places, strict=True)
        ]
        tokens, means = (np.stack(parts, axis=1) for parts in zip(*(view[:2] for view in encoded), strict=True))
        return Views(tokens, means), Graph(*encoded[0][2:])

    def compare(
        self, features: Floats, support: Views, prompt: Prompt, fast: bool
    ) -> tuple[Located, NDArray[np.bool_]]:
        coordinates, scores, proposals, clear = self._run(
            "fast" if fast else "best",
            features=features,
            tokens=support.tokens,
            places=support.places,
            usable=prompt.usable,
            prior=prompt.prior,
            weights=prompt.weights,
            graph=prompt.graph,
            flip_index=flip_index_of(prompt),
        )
        return Located(coordinates, scores, proposals, np.full(len(features), not fast)), clear


def _session(path: Path) -> Any:
    require("onnx", "an exported model", "onnxruntime")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    if threads := os.environ.get("OMP_NUM_THREADS", "").split(",")[0]:  # as torch would
        options.intra_op_num_threads = int(threads)
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has many kinds
        raise WeightsError(f"{path} is missing or damaged; export the model again: {error}") from error


def _read_facts(folder: Path) -> Facts:
    path = folder / FACTS
    if not path.is_file():
        raise WeightsError(f"{folder} is no exported model: it has no {FACTS}; make one with edgecape export")
    content = read_json(path)
    try:
        if content.pop("format") != FORMAT:
            raise WeightsError(f"{folder} was exported by another version of edgecape; export the model again")
        facts: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in content.items()
        }
        return Facts(**facts)
    except (KeyError, TypeError, AttributeError) as error:
        raise WeightsError(f"{path} is damaged: {error}; export the model again") from error
