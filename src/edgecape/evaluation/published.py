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


# --- the paper's other tables, in per cent --------------------------------------------------------------------

SPLIT_1 = "MP-100, split 1, 1 shot"
COMPONENTS = {"fixed": 79.87, "fixed + bias": 80.78, "predicted": 80.76, "predicted + bias": 81.96}  # mPCK
BACKBONES = {  # backbone → arm → PCK@0.1, mPCK
    "SwinV2-T": {"none": (74.05, 77.77), "fixed": (76.44, 79.80), "predicted + bias": (77.66, 80.63)},
    "DINOv2-S": {"none": (74.48, 78.44), "fixed": (76.17, 79.87), "predicted + bias": (79.29, 81.96)},
}
AP10K = {  # arm → PCK@0.1, AUC, NME (not in per cent)
    "none": (69.70, 86.41, 0.094),
    "fixed": (72.01, 87.22, 0.086),
    "predicted + bias": (72.48, 87.29, 0.085),
}
SUPER_CATEGORIES = {  # PCK@0.2 by arm
    "body": {"none": 83.44, "fixed": 88.38, "predicted + bias": 91.38},
    "face": {"none": 80.96, "fixed": 83.28, "predicted + bias": 87.61},
    "vehicle": {"none": 45.40, "fixed": 44.06, "predicted + bias": 44.12},
    "furniture": {"none": 52.49, "fixed": 45.56, "predicted + bias": 54.03},
}
SUPERVISION = {"through the decoder": 93.57, "auxiliary GCN": 92.88}  # PCK@0.2
PREDICTOR_WITHOUT_IMAGE = -0.24  # mPCK, difference
SHORTEST_PATH_BIAS = 0.5  # mPCK, about, difference to no bias
FULLY_CONNECTED = 1.29  # mPCK, difference to no graph
COST = "about +2.5 M parameters, +2 GFLOP, +2 ms; measured on the released code: 8.2 M, +2.9 GFLOP"
