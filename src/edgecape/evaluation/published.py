"""Published results on MP-100, to be shown beside ours."""

from __future__ import annotations

import re
from typing import NamedTuple

NOTE = "published rows are averages over the five MP-100 test splits"
TEST_SPLITS = tuple(f"mp100_split{number}_test" for number in range(1, 6))


class Published(NamedTuple):
    """Per cent; {shots: value}."""

    method: str
    pck: dict[int, float]  # PCK@0.2
    mpck: dict[int, float]  # mPCK@5


PUBLISHED = (
    Published("POMNet", {1: 79.70, 5: 80.71}, {}),
    Published("ESCAPE", {1: 82.74, 5: 87.63}, {}),
    Published("MetaPoint+", {1: 86.17, 5: 90.02}, {}),
    Published("X-Pose", {1: 86.14}, {}),
    Published("SDPNet", {1: 87.36, 5: 90.42}, {}),
    Published("FMMP (no identifiers)", {1: 85.30, 5: 89.31}, {}),
    Published("SCAPE (no identifiers)", {1: 87.80, 5: 91.37}, {}),
    Published("CapeFormer (DINOv2-S)", {1: 87.27, 5: 91.20}, {1: 74.45, 5: 79.63}),
    Published("GraphCape (DINOv2-S)", {1: 88.50, 5: 91.50}, {1: 75.73, 5: 80.16}),
    Published("EdgeCape (DINOv2-S)", {1: 89.42, 5: 91.87}, {1: 77.72, 5: 81.07}),
)


def published_metrics(dataset_name: str, shots: int) -> dict[str, dict[str, float]]:
    """Method → metrics (as shares) to show beside results on this data set; empty if nothing was published on it."""
    if not re.fullmatch(r"mp100_split[1-5]_(test|val)", dataset_name):
        return {}
    rows: dict[str, dict[str, float]] = {}
    for row in PUBLISHED:
        if shots in row.pck:
            rows[row.method] = {"PCK@0.2": row.pck[shots] / 100}
        if shots in row.mpck:
            rows[row.method]["mPCK@5"] = row.mpck[shots] / 100
    return rows
