"""Other skeletons than the one that was drawn: wrong edges added, edges dropped, all, or none."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from edgecape.model import graph
from edgecape.skeleton import fully_connected

Change = Callable[[Tensor, torch.Generator], Tensor]
"""Adjacency (K, K) of the keypoints that can be used → what the network is told instead."""

WRONG = (1, 2, 4, 8, 16)  # edges added
DROPPED = (0.3, 0.6)  # share of edges removed
AS_GIVEN, SELF_LOOPS, FULL = "as given", "self-loops", "fully connected"


def wrong_name(number: int) -> str:
    """Of the skeleton with this many wrong edges."""
    return f"{number} wrong edge{'s' if number > 1 else ''}" if number else AS_GIVEN


def dropped_name(share: float) -> str:
    return f"{100 * share:.0f} % dropped"


def changes() -> dict[str, Change]:
    """What is done to a skeleton, by name. Fewer wrong edges are a part of more wrong edges; so are dropped ones."""
    return {
        AS_GIVEN: lambda A, generator: A,
        **{wrong_name(n): partial(graph.add_random_edges, n=n) for n in WRONG},
        **{dropped_name(share): partial(graph.drop_random_edges, share=share) for share in DROPPED},
        SELF_LOOPS: lambda A, generator: torch.eye(len(A)),
        FULL: lambda A, generator: torch.from_numpy(fully_connected(len(A))),  # as for a user who gives no skeleton
    }


def changed(prior: Tensor, change: Change, coordinates: Tensor, visible: Tensor) -> Tensor:
    """The prior (K, K) with a change among the visible keypoints; edges of the others reach nobody.

    Chance is seeded with the marked places (S, K, 2): the same supports get the same wrong edges whatever the model,
    the order of episodes and the number of processes, and are resampled with them for the intervals.
    """
    places = (coordinates * 1000).round().to(torch.int32).numpy()
    generator = torch.Generator().manual_seed(zlib.crc32(places.tobytes()))
    shown = visible.nonzero()[:, 0]
    part = (shown[:, None], shown)
    out = prior.clone()
    out[part] = change(prior[part], generator)
    return out
