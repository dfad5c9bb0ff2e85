"""Skeletons to begin with: keypoints and edges of common kinds of object, and where to drop them.

Left and right are those of the animal or person, who look at us; quadrupeds look to the left of the picture, birds and
insects are seen from above.
"""

from __future__ import annotations

from itertools import pairwise

from edgecape.skeleton import flip_pairs
from edgecape.studio.models import Template

Places = dict[str, tuple[float, float]]  # x, y in [0, 1] of the box


def _template(name: str, about: str, places: Places, chains: list[str]) -> Template:
    """chains: keypoints that follow each other, with > between them."""
    names = list(places)
    steps = [chain.split(" > ") for chain in chains]
    return Template(
        name=name,
        about=about,
        names=names,
        skeleton=[[names.index(a), names.index(b)] for chain in steps for a, b in pairwise(chain)],
        symmetry=[list(pair) for pair in flip_pairs(names)],
        places=[list(place) for place in places.values()],
    )


def _both(name: str, left: tuple[float, float], right: tuple[float, float] | None = None) -> Places:
    """Left and right; without a place for the right one, it is the mirror image."""
    return {f"left {name}": left, f"right {name}": right or (round(1 - left[0], 3), left[1])}


def _sides(*chains: str) -> list[str]:
    """The same chains for both sides."""
    return [chain.replace("~", side) for side in ("left", "right") for chain in chains]


FINGERS = {
    "thumb": ((0.30, 0.82), (0.17, 0.68), (0.08, 0.56), (0.02, 0.46)),
    "index finger": ((0.32, 0.48), (0.28, 0.30), (0.26, 0.18), (0.24, 0.08)),
    "middle finger": ((0.50, 0.45), (0.50, 0.25), (0.50, 0.12), (0.50, 0.01)),
    "ring finger": ((0.67, 0.48), (0.71, 0.30), (0.73, 0.18), (0.75, 0.08)),
    "little finger": ((0.82, 0.56), (0.89, 0.43), (0.93, 0.34), (0.97, 0.26)),
}
JOINTS = ("base", "middle", "upper", "tip")

TEMPLATES = (
    _template(
        "quadruped",
        "Dogs, cats, cows, horses: 17 keypoints, seen from the side",
        {
            "nose": (0.02, 0.30),
            **_both("eye", (0.09, 0.20), (0.13, 0.19)),
            **_both("ear", (0.17, 0.08), (0.22, 0.09)),
            "neck": (0.28, 0.28),
            "root of tail": (0.92, 0.32),
            **_both("elbow", (0.30, 0.58), (0.36, 0.58)),
            **_both("front knee", (0.29, 0.76), (0.37, 0.76)),
            **_both("front paw", (0.28, 0.97), (0.37, 0.97)),
            **_both("knee", (0.78, 0.60), (0.85, 0.60)),
            **_both("hind paw", (0.80, 0.97), (0.89, 0.97)),
        },
        [
            *_sides("nose > ~ eye > ~ ear > neck", "neck > ~ elbow > ~ front knee > ~ front paw"),
            *_sides("root of tail > ~ knee > ~ hind paw"),
            "neck > root of tail",
        ],
    ),
    _template(
        "bird",
        "Birds: 11 keypoints, seen from above with wings spread",
        {
            "beak": (0.50, 0.02),
            **_both("eye", (0.45, 0.10)),
            "neck": (0.50, 0.22),
            **_both("shoulder", (0.38, 0.32)),
            **_both("wing joint", (0.20, 0.26)),
            **_both("wing tip", (0.02, 0.48)),
            "tail": (0.50, 0.97),
        },
        [*_sides("beak > ~ eye > neck > ~ shoulder > ~ wing joint > ~ wing tip"), "neck > tail"],
    ),
    _template(
        "person",
        "People: the 17 keypoints of COCO",
        {
            "nose": (0.50, 0.07),
            **_both("eye", (0.54, 0.05)),
            **_both("ear", (0.58, 0.06)),
            **_both("shoulder", (0.68, 0.20)),
            **_both("elbow", (0.82, 0.35)),
            **_both("wrist", (0.90, 0.48)),
            **_both("hip", (0.61, 0.52)),
            **_both("knee", (0.63, 0.74)),
            **_both("ankle", (0.64, 0.96)),
        },
        [
            *_sides("nose > ~ eye > ~ ear", "nose > ~ shoulder > ~ elbow > ~ wrist"),
            *_sides("~ shoulder > ~ hip > ~ knee > ~ ankle"),
            "left shoulder > right shoulder",
            "left hip > right hip",
        ],
    ),
    _template(
        "hand",
        "Hands: the wrist and four keypoints of each finger",
        {"wrist": (0.50, 0.97)}
        | {
            f"{finger} {joint}": place
            for finger, places in FINGERS.items()
            for joint, place in zip(JOINTS, places, strict=True)
        },
        [" > ".join(["wrist", *(f"{finger} {joint}" for joint in JOINTS)]) for finger in FINGERS],
    ),
    _template(
        "insect",
        "Flies, beetles, bees: 13 keypoints, seen from above",
        {
            "head": (0.50, 0.12),
            **_both("antenna", (0.36, 0.02)),
            "thorax": (0.50, 0.32),
            "end of abdomen": (0.50, 0.90),
            **_both("front foot", (0.16, 0.14)),
            **_both("middle foot", (0.04, 0.46)),
            **_both("hind foot", (0.14, 0.86)),
            **_both("wing tip", (0.30, 0.98)),
        },
        [
            "head > thorax > end of abdomen",
            *_sides("head > ~ antenna", "thorax > ~ front foot", "thorax > ~ middle foot", "thorax > ~ hind foot"),
            *_sides("thorax > ~ wing tip"),
        ],
    ),
    _template(
        "face",
        "Faces: 16 keypoints, seen from the front",
        {
            **_both("end of eyebrow", (0.88, 0.24)),
            **_both("start of eyebrow", (0.60, 0.22)),
            **_both("outer corner of eye", (0.82, 0.36)),
            **_both("inner corner of eye", (0.61, 0.37)),
            "tip of nose": (0.50, 0.60),
            **_both("nostril", (0.58, 0.64)),
            **_both("corner of mouth", (0.68, 0.79)),
            "upper lip": (0.50, 0.76),
            "lower lip": (0.50, 0.84),
            "chin": (0.50, 0.99),
        },
        [
            *_sides("~ end of eyebrow > ~ start of eyebrow > ~ inner corner of eye > ~ outer corner of eye"),
            *_sides("~ inner corner of eye > tip of nose > ~ nostril"),
            *_sides("upper lip > ~ corner of mouth > lower lip"),
            "tip of nose > upper lip",
            "lower lip > chin",
        ],
    ),
)
