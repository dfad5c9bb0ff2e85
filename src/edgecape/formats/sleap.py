"""SLEAP (.slp), through sleap-io: pip install 'edgecape[formats]'.

Units: pixels. Edges are pairs of nodes, from 0. Visibility: a node that is not visible has no place; no more is told.
An instance is a user's, without scores, or predicted, with a score for each node and one for the whole. There are no
boxes. Frames of image sequences are files; frame 12 of a video is called "clip.mp4#12".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgecape.errors import require
from edgecape.formats import hdf5, shared
from edgecape.formats.labels import LabelledImage, LabelledObject, LabelSet
from edgecape.io.files import atomic_path


def read(path: str | os.PathLike[str]) -> list[LabelSet]:
    """A label set for each skeleton. Predicted instances count only in frames where the user made none."""
    _library()
    content = hdf5.read_apart(labels_of, path, "a SLEAP file")
    with shared.reading(path):
        return [
            LabelSet(
                skeleton["names"],
                skeleton["edges"],
                skeleton["name"] or "animal",
                [_image(frame, number) for frame in content["frames"]],
                Path(path).parent,
            )
            for number, skeleton in enumerate(content["skeletons"])
        ]


def _image(frame: dict[str, Any], skeleton: int) -> LabelledImage:
    objects = (_object(**thing["facts"]) for thing in frame["objects"] if thing["skeleton"] == skeleton)
    return LabelledImage(shared.plain_path(frame["file"]), frame["width"], frame["height"], tuple(objects))


def _object(points: list[list[float]], **facts: Any) -> LabelledObject:
    return LabelledObject(points, np.isfinite(points).all(axis=1), **facts)


def labels_of(path: str) -> dict[str, Any]:
    """In a process of its own: skeletons and frames as plain values."""
    with hdf5.opened(path):
        labels = _library().load_slp(path, open_videos=False)
    skeletons = list(labels.skeletons)
    return {
        "skeletons": [{"names": s.node_names, "edges": s.edge_inds, "name": s.name} for s in skeletons],
        "frames": [_frame(frame, skeletons) for frame in labels.labeled_frames],
    }


def _frame(frame: Any, skeletons: list[Any]) -> dict[str, Any]:
    video = frame.video.source_video or frame.video
    files, number = video.filename, int(frame.frame_idx)
    shape = video.shape  # (frames, height, width, channels)
    height, width = (None, None) if shape is None else (int(shape[1]), int(shape[2]))
    instances = [i for i in frame.user_instances or frame.predicted_instances if not i.is_empty]
    return {
        "file": files[number] if isinstance(files, list) else f"{files}#{number}",
        "width": width,
        "height": height,
        "objects": [{"skeleton": skeletons.index(i.skeleton), "facts": _facts(i)} for i in instances],
    }


def _facts(instance: Any) -> dict[str, Any]:
    facts = {"points": instance.numpy().tolist()}
    if "score" in instance.points.dtype.names:
        facts |= {"scores": instance.points["score"].tolist(), "score": float(instance.score)}
    return facts


def write(path: str | os.PathLike[str], label_sets: Sequence[LabelSet]) -> None:
    """Photos of one size become one image sequence, as SLEAP expects of a video. sleap-io holds all of them at once."""
    sleap = _library()
    photos = {image.file: (image.height, image.width) for labels in label_sets for image in labels.images}
    sequences: dict[tuple[int | None, int | None], list[str]] = {}
    for file, size in photos.items():
        sequences.setdefault(size, []).append(file)
    videos = [_sequence(sleap, files, size) for size, files in sequences.items()]
    frames = {
        file: sleap.LabeledFrame(video=video, frame_idx=number)
        for video, files in zip(videos, sequences.values(), strict=True)
        for number, file in enumerate(files)
    }
    skeletons = []
    for labels in label_sets:
        edges = [(labels.names[i], labels.names[j]) for i, j in labels.skeleton or ()]
        skeletons.append(sleap.Skeleton(nodes=list(labels.names), edges=edges, name=labels.category))
        for image in labels.images:
            made = (_instance(sleap, thing, skeletons[-1]) for thing in image.objects if thing.visible.any())
            frames[image.file].instances.extend(made)
    content = sleap.Labels(labeled_frames=[frames[file] for file in photos], videos=videos, skeletons=skeletons)
    with atomic_path(path) as temporary:
        sleap.save_slp(content, os.fspath(temporary), verbose=False)


def _sequence(sleap: Any, files: list[str], size: tuple[int | None, int | None]) -> Any:
    """Described by hand, so that the photos need not be there."""
    height, width = size
    facts = {"type": "ImageVideo", "filename": files[0], "filenames": files, "grayscale": False}
    if height is not None:
        facts |= {"shape": [len(files), height, width, 3], "height_": height, "width_": width, "channels_": 3}
    return sleap.Video(filename=files, backend_metadata=facts, open_backend=False)


def _instance(sleap: Any, thing: LabelledObject, skeleton: Any) -> Any:
    points = np.where(thing.visible[:, None], thing.keypoints, np.nan).astype(np.float64)
    if thing.scores is None:
        return sleap.Instance.from_numpy(points, skeleton=skeleton)
    whole = thing.score if thing.score is not None else float(thing.scores[thing.visible].mean())
    return sleap.PredictedInstance.from_numpy(points, skeleton=skeleton, point_scores=thing.scores, score=whole)


def _library() -> Any:
    require("formats", "reading or writing .slp", "sleap_io")
    import sleap_io

    return sleap_io
