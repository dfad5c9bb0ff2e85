"""Kinds of objects that nobody photographed: a body, parts on it and on each other, left and right, markings, and what
of all that is a keypoint."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass

import numpy as np

from edgecape.solids.shapes import Shape, Vectors, surface, unit

MIRROR = np.array((1.0, -1.0, 1.0))  # left is +y, right is −y; x is ahead, z is up
SHAPES: tuple[Shape, ...] = ("ball", "box", "rod", "ball", "ball", "cone")
KEYPOINTS = (6, 24)  # of a kind
APART = 0.09  # of its size: least distance of two keypoints
SIDES = {0: "", 1: "left ", -1: "right "}


@dataclass(frozen=True, eq=False)
class Spot:
    at: Vectors  # direction from the middle of its part
    radius: float
    colour: int


@dataclass(frozen=True, eq=False)
class Part:
    name: str
    shape: Shape
    size: Vectors  # (3,) half sizes: along it, and across
    colour: int  # of the kind's palette
    spots: tuple[Spot, ...]
    parent: int  # -1: it is the body
    place: Vectors  # where on its parent: a direction from the parent's middle
    direction: Vectors  # in which it points, as its parent sees it
    paired: bool = False  # there is one on the left and one on the right
    bend: float = 0.0  # how far its joint turns, in radians

    @property
    def sides(self) -> tuple[int, ...]:
        return (1, -1) if self.paired else (0,)


@dataclass(frozen=True, eq=False)
class Landmark:
    name: str
    part: int
    side: int  # 1 left, -1 right, 0 neither
    at: Vectors  # direction from the middle of its part


@dataclass(frozen=True, eq=False)
class Kind:
    parts: tuple[Part, ...]
    landmarks: tuple[Landmark, ...]
    edges: tuple[tuple[int, int], ...]
    palette: Vectors  # (colours, 3)
    all_round: bool  # seen from all sides, or mostly from one and from the opposite one
    yaw: float  # from where it is mostly seen
    pitch: float
    steady: bool  # all of a kind have its colours
    spread: float  # how much sizes differ from one to the next
    suppleness: float  # how much joints move

    @property
    def names(self) -> list[str]:
        return [landmark.name for landmark in self.landmarks]

    @property
    def symmetry(self) -> list[tuple[int, int]]:
        names = self.names
        return [(k, names.index(f"right{name[4:]}")) for k, name in enumerate(names) if name.startswith("left ")]


def random_kind(rng: np.random.Generator) -> Kind:
    while True:
        palette = int(rng.integers(3, 7))
        parts = _parts(rng, palette - 2, palette)
        landmarks = _landmarks(rng, parts)
        if len(landmarks) >= KEYPOINTS[0]:
            break
    return Kind(
        parts=tuple(parts),
        landmarks=tuple(landmarks),
        edges=_edges(rng, parts, landmarks),
        palette=np.stack([random_colour(rng) for _ in range(palette)]),
        all_round=rng.random() < 0.5,
        yaw=rng.uniform(0, 2 * np.pi),
        pitch=rng.uniform(-0.2, 0.9),
        steady=rng.random() < 0.7,
        spread=rng.uniform(0.08, 0.25),
        suppleness=rng.uniform(0.2, 1.0),
    )


def random_colour(rng: np.random.Generator) -> Vectors:
    return np.array(colorsys.hsv_to_rgb(rng.random(), rng.random() ** 1.3, rng.uniform(0.1, 1.0)))


# --- parts -------------------------------------------------------------------------------------------------


def _parts(rng: np.random.Generator, of_parts: int, of_spots: int) -> list[Part]:
    """The body and three or more others, in rows some of them, as legs and wheels are. of_parts, of_spots: how many
    colours of the palette they take."""
    size = np.array((1.0, *rng.uniform(0.25, 0.75, 2)))
    if rng.random() < 0.2:
        size[1] = rng.uniform(0.08, 0.2)  # flat, as fish are
    parts = [Part("body", rng.choice(SHAPES), size, 0, _spots(rng, of_spots, fewest=1), -1, np.zeros(3), np.zeros(3))]
    wanted = int(rng.integers(4, 9))
    while len(parts) < wanted:
        parent = 0 if rng.random() < 0.6 else int(rng.integers(len(parts)))
        parts += _row(rng, parts, parent, of_parts, of_spots)
    return parts


def _row(rng: np.random.Generator, parts: list[Part], parent: int, of_parts: int, of_spots: int) -> list[Part]:
    """One part, or several alike one behind the other."""
    above = parts[parent]
    paired = above.paired or rng.random() < 0.55
    begins = paired and not above.paired  # here the two sides part
    place = (
        rng.normal(size=3) * (1.0, 0.6, 1.0) if parent == 0 else (rng.uniform(0.3, 2), 0, 0) + rng.normal(size=3) / 2
    )
    place = unit(place)
    if begins:
        place[1] = max(abs(place[1]), 0.25)
    direction = unit(unit(place) + 0.5 * rng.normal(size=3))
    if begins:
        direction[1] = abs(direction[1])
    elif not paired:
        place[1] = direction[1] = 0.0
    scale = float(np.prod(above.size)) ** (1 / 3)
    girth = rng.uniform(0.5, 1.0, 2) if rng.random() < 0.35 else rng.uniform(0.1, 0.35, 2)  # a lump or a limb
    if rng.random() < 0.2:
        girth[0] = 0.06  # a leaf, a wing
    size = scale * rng.uniform(0.4, 1.3) * np.array((1.0, *girth))
    shape, bend = rng.choice(SHAPES), rng.uniform(0.05, 0.5)
    if begins and parent == 0 and rng.random() < 0.2:  # a wheel
        size = scale * rng.uniform(0.3, 0.5) * np.array((0.3, 1.0, 1.0))
        shape, direction, bend = "rod", np.array((0.0, 1.0, 0.0)), 0.0
    count = int(rng.choice([1, 1, 1, 2, 3])) if begins and parent == 0 else 1
    name, colour, spots = f"part {len(parts)}", int(rng.integers(of_parts)), _spots(rng, of_spots)
    row = []
    for number in range(count):
        along = place.copy()
        if count > 1:
            along[0] = 0.75 - 1.5 * number / (count - 1)
        called = name if count == 1 else f"{name} {'abc'[number]}"
        row.append(Part(called, shape, size, colour, spots, parent, unit(along), unit(direction), paired, bend))
    return row


def _spots(rng: np.random.Generator, colours: int, fewest: int = 0) -> tuple[Spot, ...]:
    count = int(rng.choice([0, 0, 1, 2])) + fewest
    return tuple(
        Spot(unit(rng.normal(size=3)), rng.uniform(0.2, 0.5), int(rng.integers(colours))) for _ in range(count)
    )


# --- keypoints ---------------------------------------------------------------------------------------------

ENDS = {"front": (1, 0, 0), "back": (-1, 0, 0), "top": (0, 0, 1), "bottom": (0, 0, -1)}


def _landmarks(rng: np.random.Generator, parts: list[Part]) -> list[Landmark]:
    """Ends and roots of parts and middles of spots, no two at one place."""
    found: list[Landmark] = []
    for number, part in enumerate(parts):
        body, paired = part.parent < 0, part.paired
        if body:
            places = {end: at for end, at in ENDS.items() if rng.random() < 0.55}
        else:
            likely = {"end": ((1, 0, 0), 0.85), "root": ((-1, 0, 0), 0.5), "top": ((0, 0, 1), 0.15)}
            places = {name: at for name, (at, chance) in likely.items() if rng.random() < chance}
        points = [(name, np.array(at, dtype=float), paired) for name, at in places.items()]
        if body and rng.random() < 0.3:
            points.append(("side", np.array((0.0, 1.0, 0.0)), True))
        for count, spot in enumerate(part.spots, start=1):
            if rng.random() < 0.6:
                points.append((f"spot {count}", spot.at, paired or is_doubled(spot)))
        for name, at, twice in points:
            found += [
                Landmark(f"{SIDES[side]}{part.name} {name}", number, side, at) for side in ((1, -1) if twice else (0,))
            ]
    return _thinned(rng, parts, found)


def is_doubled(spot: Spot) -> bool:
    """A spot off the middle of a part that is neither left nor right has a mirror image on the other side."""
    return abs(spot.at[1]) >= 0.2


def _thinned(rng: np.random.Generator, parts: list[Part], found: list[Landmark]) -> list[Landmark]:
    """Without those at the place of others, and not too many."""
    rest = posed(parts)
    places = np.array([place_of(landmark, parts, rest) for landmark in found]).reshape(-1, 3)
    extent = np.ptp(np.concatenate([places, [middle for _, middle in rest.values()]]), axis=0).max()
    kept: list[int] = []
    for index in rng.permutation(len(found)).tolist():
        landmark = found[index]
        if landmark.side >= 0 and all(np.linalg.norm(places[index] - places[k]) > APART * extent for k in kept):
            both = [index] + [
                k for k, other in enumerate(found) if landmark.side and other.name == f"right{landmark.name[4:]}"
            ]
            kept += both if len(kept) + len(both) <= KEYPOINTS[1] else []
    return [found[index] for index in sorted(kept)]


def _edges(rng: np.random.Generator, parts: list[Part], landmarks: list[Landmark]) -> tuple[tuple[int, int], ...]:
    """Each keypoint joined to one before it on its part, or on the next part towards the body that has one."""
    edges = []
    for k, landmark in enumerate(landmarks):
        part = landmark.part
        before: list[int] = []
        while not before and part >= 0:
            before = [j for j in range(k) if landmarks[j].part == part and landmarks[j].side in (0, landmark.side)]
            part = parts[part].parent
        before = before or list(range(k))
        if before:
            edges.append((before[int(rng.integers(len(before)))], k))
    return tuple(edges)


# --- where parts are ---------------------------------------------------------------------------------------

Places = dict[tuple[int, int], tuple[Vectors, Vectors]]  # by part and side: (3, 3) unit solid → object, its middle


def posed(parts: list[Part] | tuple[Part, ...], sizes: Vectors | None = None, turns: Vectors | None = None) -> Places:
    """Where every part is. sizes (parts, 3): factors on its size; turns (parts, 3 sides, 3): rotations of joints about
    an axis by its length."""
    found: Places = {}
    for number, part in enumerate(parts):
        size = part.size if sizes is None else part.size * sizes[number]
        for side in part.sides:
            mirror = MIRROR if side < 0 else np.ones(3)
            if part.parent < 0:
                found[number, side] = (np.diag(size), np.zeros(3))
                continue
            above = parts[part.parent]
            shape, middle = found[part.parent, side if above.paired else 0]
            flip = np.ones(3) if above.paired else mirror  # below a right part all is mirrored already
            heading = unit(shape / np.linalg.norm(shape, axis=0) @ (part.direction * flip))
            if turns is not None:
                heading = rotation(turns[number, side]) @ heading
            root = middle + 0.92 * shape @ surface(above.shape, part.place * flip)
            found[number, side] = (frame(heading) * mirror * size, root + 0.9 * size[0] * heading)
    return found


def around(landmark: Landmark, parts: list[Part] | tuple[Part, ...], places: Places) -> tuple[Vectors, Vectors]:
    """Where the part is that a keypoint lies on."""
    return places[landmark.part, landmark.side if parts[landmark.part].paired else 0]


def place_of(landmark: Landmark, parts: list[Part] | tuple[Part, ...], places: Places) -> Vectors:
    part = parts[landmark.part]
    at = landmark.at if part.paired or landmark.side >= 0 else landmark.at * MIRROR
    shape, middle = around(landmark, parts, places)
    return np.asarray(middle + shape @ surface(part.shape, at))


def frame(heading: Vectors) -> Vectors:
    """A rotation that takes x to a heading and keeps z as far up as that allows."""
    up = np.array((1.0, 0.0, 0.0) if abs(heading[2]) > 0.95 else (0.0, 0.0, 1.0))
    across = unit(np.cross(up, heading))
    return np.stack([heading, across, np.cross(heading, across)], axis=1)


def rotation(turn: Vectors) -> Vectors:
    """About an axis, by its length in radians (Rodrigues)."""
    angle = float(np.linalg.norm(turn))
    x, y, z = unit(turn)
    cross = np.array(((0, -z, y), (z, 0, -x), (-y, x, 0)))
    return np.asarray(np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross)
