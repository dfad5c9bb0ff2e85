"""Are the edges of a file counted from 0 or from 1?

A wrong base shifts every edge by one keypoint and nothing fails, so it is never guessed in silence. The rule of "auto",
category by category:

1. Its own edges prove it: an index 0 means counted from 0, an index K means counted from 1 (both at once, or an
   index outside 0…K, is an error).
2. Else it is known by name (MP-100's CarFusion categories, see mp100.py).
3. Else the other categories of the file, those known by name apart, all prove the same base: that one, with a note.
4. Else 0, with a warning.

A base that is given, by the caller or by the file itself, is used; edges that prove the other one are an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from edgecape.errors import DataError

EdgeBase = Literal["auto", 0, 1]


@dataclass(frozen=True)
class Skeleton:
    """The edges of a category as a file has them."""

    name: str
    K: int
    edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Decision:
    base: int
    why: str
    proven: bool  # by the edges themselves or by someone who said so


def proven_base(skeleton: Skeleton, where: str) -> int | None:
    """The base the edges themselves prove, or None."""
    K = skeleton.K
    for edge in skeleton.edges:
        if not all(0 <= index <= K for index in edge):
            raise DataError(f"{where}: edge {edge} of category {skeleton.name!r} does not fit its {K} keypoints")
    zero, last = _edge_with(skeleton, 0), _edge_with(skeleton, K)
    if zero and last:
        raise DataError(
            f"{where}: category {skeleton.name!r} has edge {zero}, so its edges are counted from 0, and edge {last}, "
            f"which does not fit its {K} keypoints then; correct one of them"
        )
    return 0 if zero else 1 if last else None


def decide(
    skeletons: Sequence[Skeleton], edge_base: EdgeBase, where: str, known: Mapping[str, int] | None = None
) -> list[Decision]:
    """A decision for each skeleton, by the rule above; `known` has the bases of categories known by name."""
    known = known or {}
    proofs = [proven_base(skeleton, where) if skeleton.edges else None for skeleton in skeletons]
    if edge_base != "auto":
        for skeleton, proof in zip(skeletons, proofs, strict=True):
            if proof not in (None, edge_base):
                edge = _edge_with(skeleton, 0 if proof == 0 else skeleton.K)
                raise DataError(
                    f"{where}: edges are said to be counted from {edge_base}, but category {skeleton.name!r} "
                    f"({skeleton.K} keypoints) has edge {edge}, so it counts from {proof}; use --edge-base auto"
                )
        return [Decision(edge_base, "given", True)] * len(skeletons)
    others = {proof for s, proof in zip(skeletons, proofs, strict=True) if proof is not None and s.name not in known}
    decisions = []
    for skeleton, proof in zip(skeletons, proofs, strict=True):
        if proof is not None:
            decisions.append(Decision(proof, "proven by its edges", True))
        elif skeleton.name in known:
            decisions.append(Decision(known[skeleton.name], "known by name", True))
        elif len(others) == 1:
            decisions.append(Decision(next(iter(others)), "as proven by the file's other categories", False))
        else:
            decisions.append(Decision(0, "nothing proves either base", False))
    return decisions


def _edge_with(skeleton: Skeleton, index: int) -> tuple[int, int] | None:
    return next((edge for edge in skeleton.edges if index in edge), None)
