"""What MP-100 is made of: its 100 categories, and what is known of its files.

MP-100 (Pose-for-Everything, ECCV 2022) hands out annotations only. An image's `file_name` starts with a folder of
MP-100; what follows is the name in the source data set, except for CarFusion, whose images were renamed (sources.py).
Traps: the folder `amur_tiger_body` holds the human faces of AFLW; the guide's "DeepFashion" is DeepFashion2, and only
its training images; names of Keypoint-5, DeepFashion2 and OneHand10K repeat from one of their folders to the next;
frames of fly and locust are numbered by MMPose's converter, which shuffles them, not by their place in the HDF5 file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kind:
    """A category of MP-100."""

    id: int
    name: str
    supercategory: str
    K: int
    source: str  # key of its Source
    folder: str  # first part of its images' file names


_TABLE = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()[1:]  # its first line: columns
KINDS = tuple(
    Kind(int(id_), name, supercategory, int(K), source, folder[0] if folder else name)
    for id_, name, supercategory, K, source, *folder in map(str.split, _TABLE)
)
BY_FOLDER = {kind.folder: kind for kind in KINDS}

# In the original files edges are counted from 1, only CarFusion's from 0; the edition re-annotated for GraphCape and
# EdgeCape counts from 0 throughout.
KNOWN_BASES = {kind.name: 0 for kind in KINDS if kind.source == "carfusion"}


def is_mp100(categories: Iterable[tuple[int, str]]) -> bool:
    """Whether a file's categories (id, name) are all MP-100's."""
    theirs = set(categories)
    return bool(theirs) and theirs <= {(kind.id, kind.name) for kind in KINDS}


def edition(proofs: Iterable[tuple[str, int | None]]) -> str | None:
    """Which edition of MP-100 a file is, if the (category name, proven edge base) of its skeletons tell."""
    bases = {base for name, base in proofs if base is not None and name not in KNOWN_BASES}
    return {frozenset({1}): "original", frozenset({0}): "re-annotated"}.get(frozenset(bases))
