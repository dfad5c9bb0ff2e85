"""Pictures for people: poses on photos, and the predicted graph beside the one that was given."""

from __future__ import annotations

import colorsys
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgecape.io.images import RGB, load_image
from edgecape.types import Pose, Prompt, Support

Colour = tuple[int, int, int]
Named = tuple[Sequence[str], NDArray[np.float32], Sequence[tuple[int, int]]]  # names, keypoints and edges of an object
Area = tuple[float, float, float, float]  # left, top, right, bottom
SIDES = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1))  # right, left, above, below, corners
FAINT = 0.25  # opacity of a keypoint that is certainly wrong
DARK, LIGHT, WEAK = (20, 20, 20), (255, 255, 255), (200, 0, 255)  # rims; edges; edges of little weight
CAPTION_HEIGHT = 30
FONT = (cv2.FONT_HERSHEY_SIMPLEX, 0.5)  # of captions
NAMES_FONT = Path(__file__).parent / "fonts" / "DejaVuSans.ttf"  # has most alphabets


def palette(K: int) -> list[Colour]:
    """K colours that neighbours in the list do not share: hues in steps of the golden ratio."""
    hues = [(0.02 + k * 0.618034) % 1 for k in range(K)]
    return [tuple(int(255 * c) for c in colorsys.hsv_to_rgb(hue, 0.85, 1.0)) for hue in hues]  # type: ignore[misc]


def draw_keypoints(
    image: RGB,
    keypoints: NDArray[np.float32],
    edges: Sequence[tuple[int, int]] = (),
    scores: NDArray[np.float32] | None = None,
    names: Sequence[str] | None = None,
    edge_weights: Sequence[float] | None = None,
) -> RGB:
    """A copy of the picture with keypoints (K, 2) and edges on it, but for those that are nowhere (nan).

    Each keypoint has its colour and a dark rim, so that it shows on any ground; the lower its score the fainter it is.
    edge_weights in [0, 1] set the width and opacity of each edge; those below one half have a colour and no rim: many
    rims side by side would darken the picture more than the edges that matter.
    """
    canvas = image.copy()
    K, radius = len(keypoints), keypoint_radius(image)
    width = max(1, round(max(image.shape[:2]) / 250))  # of an edge
    certainty = np.ones(K) if scores is None else np.asarray(scores, dtype=np.float64)
    opacity = FAINT + (1 - FAINT) * certainty.clip(0, 1)
    points = places(keypoints)
    for index, (i, j) in enumerate(edges):
        if i not in points or j not in points:
            continue
        weight = 1.0 if edge_weights is None else float(np.clip(edge_weights[index], 0, 1))
        drawn = canvas.copy()
        thick = max(1, round(width * (0.5 + 2.5 * weight)))
        if weight >= 0.5:
            cv2.line(drawn, points[i], points[j], DARK, thick + 2, cv2.LINE_AA)
        cv2.line(drawn, points[i], points[j], LIGHT if weight >= 0.5 else WEAK, thick, cv2.LINE_AA)
        strength = min(opacity[i], opacity[j]) * (0.15 + 0.7 * weight)
        cv2.addWeighted(drawn, strength, canvas, 1 - strength, 0, dst=canvas)
    colours = palette(K)
    for k, point in points.items():
        drawn = canvas.copy()
        cv2.circle(drawn, point, radius + max(1, radius // 3), DARK, -1, cv2.LINE_AA)
        cv2.circle(drawn, point, radius, colours[k], -1, cv2.LINE_AA)
        cv2.addWeighted(drawn, opacity[k], canvas, 1 - opacity[k], 0, dst=canvas)
    return canvas if names is None else draw_names(canvas, [(names, keypoints, edges)])


def keypoint_radius(image: RGB) -> int:
    return max(3, round(max(image.shape[:2]) / 90))


def places(keypoints: NDArray[np.float32]) -> dict[int, tuple[int, int]]:
    """Pixels of the keypoints that are somewhere."""
    found = np.flatnonzero(np.isfinite(keypoints).all(axis=1))
    return {int(k): (int(x), int(y)) for k, (x, y) in zip(found, np.rint(keypoints[found]), strict=True)}


# --- names -------------------------------------------------------------------------------------------------------


def draw_names(image: RGB, objects: Iterable[Named]) -> RGB:
    """Names beside their keypoints, each on the side where it covers least of keypoints, edges and other names."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.fromarray(image)
    pen, radius = ImageDraw.Draw(picture), keypoint_radius(image)
    size = max(13, round(max(image.shape[:2]) / 50))
    font = ImageFont.truetype(str(NAMES_FONT), size)
    given: list[tuple[str, tuple[int, int], Colour]] = []
    taken: list[Area] = []
    for names, keypoints, edges in objects:
        points, colours = places(keypoints), palette(len(keypoints))
        given += [(names[k], point, colours[k]) for k, point in points.items()]
        taken += [_square(point, radius) for point in points.values()]
        for i, j in edges:
            if i in points and j in points:
                along = np.linspace(points[i], points[j], 20)[1:-1]
                taken += [_square((x, y), radius / 3) for x, y in along]
    for name, point, colour in given:
        box = pen.textbbox((0, 0), name, font=font, stroke_width=2)
        place = best_place(point, (box[2] - box[0], box[3] - box[1]), radius, picture.size, taken)
        taken.append(place)
        light = tuple((c + 255) // 2 for c in colour)  # dark blue on a dark rim cannot be read
        corner = (place[0] - box[0], place[1] - box[1])
        pen.text(corner, name, fill=light, font=font, stroke_width=2, stroke_fill=DARK)
    return np.array(picture)


def _square(centre: Sequence[float], half: float) -> Area:
    x, y = centre
    return (x - half, y - half, x + half, y + half)


def best_place(
    point: tuple[int, int], size: tuple[float, float], radius: int, frame: tuple[int, int], taken: Iterable[Area]
) -> Area:
    """Where a name of this size goes: beside its keypoint, else a little further away, in the picture and off what is
    taken. Of places that are equally good the first, so that names stand to the right where they can."""
    (x, y), (w, h) = point, size
    best: tuple[float, Area] | None = None
    for gap, (across, down) in product((radius + 3, 2 * radius + h), SIDES):
        left, top = x - w / 2 + across * (gap + w / 2), y - h / 2 + down * (gap + h / 2)
        area = (left, top, left + w, top + h)
        outside = w * h - shared(area, (0, 0, *frame))
        cost = 4 * outside + sum(shared(area, other) for other in taken)
        if best is None or cost < best[0]:
            best = cost, area
    assert best is not None
    return best[1]


def shared(one: Area, other: Area) -> float:
    """Pixels that two rectangles have in common."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)


# --- whole pictures ----------------------------------------------------------------------------------------------


def resized(picture: RGB, scale: float) -> RGB:
    height, width = (max(1, round(side * scale)) for side in picture.shape[:2])
    return cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)


def draw_poses(image: Any, poses: Sequence[Pose], longest: int = 1600, names: bool = False) -> RGB:
    """A photo with all that was found on it, made smaller if it is large: nobody looks at 60 megapixels.

    names: also those of the keypoints, where poses have any.
    """
    picture = load_image(image)
    scale = min(1.0, longest / max(picture.shape[:2]))
    return _draw_poses(picture, poses, scale, names)


def _draw_poses(picture: RGB, poses: Sequence[Pose], scale: float, names: bool) -> RGB:
    picture = picture if scale == 1 else resized(picture, scale)
    for pose in poses:
        picture = draw_keypoints(picture, pose.keypoints * scale, pose.skeleton or (), pose.scores)
    if names:
        named = [(pose.names, pose.keypoints * scale, pose.skeleton or ()) for pose in poses if pose.names]
        picture = draw_names(picture, named)
    return picture


def graph_edges(weights: NDArray[np.float32], least: float = 0.05) -> tuple[list[tuple[int, int]], list[float]]:
    """Edges of a weighted graph (K, K) and their weights relative to the strongest, weakest first."""
    upper = np.triu(weights, 1)
    top = float(upper.max(initial=0.0)) or 1.0
    i, j = np.nonzero(upper > least * top)
    strength = upper[i, j] / top
    order = np.argsort(strength)
    return [(int(i[n]), int(j[n])) for n in order], [float(strength[n]) for n in order]


def draw_support(support: Support, scale: float = 1.0, names: bool = False) -> RGB:
    """The support photo with the skeleton that was given."""
    photo = resized(load_image(support.image), scale)
    shown = support.names if names else None
    return draw_keypoints(photo, scale * marked(support), support.skeleton or (), names=shown)


def draw_graph(support: Support, prompt: Prompt, scale: float = 1.0) -> RGB:
    """The support photo with the predicted graph: the heavier an edge, the wider."""
    edges, strength = graph_edges(prompt.weights)
    photo = resized(load_image(support.image), scale)
    return draw_keypoints(photo, scale * marked(support), edges, edge_weights=[weight**2 for weight in strength])


def marked(support: Support) -> NDArray[np.float32]:
    """Nowhere what the photo does not show."""
    assert support.visible is not None
    return np.where(support.visible[:, None], support.keypoints, np.float32(np.nan))


def in_rows(pictures: Sequence[tuple[str, RGB]], columns: int = 4, gap: int = 8) -> RGB:
    """Captioned pictures in rows, each in the middle of a cell; all cells are as large as the largest needs."""
    widest = max(max(picture.shape[1], _width(caption)) for caption, picture in pictures)
    highest = max(picture.shape[0] for _, picture in pictures)
    columns = min(columns, len(pictures))
    down, across = highest + CAPTION_HEIGHT + gap, widest + gap  # from one cell to the next
    out = np.full((-(-len(pictures) // columns) * down, columns * across + gap, 3), 255, dtype=np.uint8)
    for number, (caption, picture) in enumerate(pictures):
        (height, width), (row, column) = picture.shape[:2], divmod(number, columns)
        left, top = gap + column * across, row * down
        cv2.putText(out, caption, (left, top + 20), *FONT, (30, 30, 30), 1, cv2.LINE_AA)
        x, y = left + (widest - width) // 2, top + CAPTION_HEIGHT + (highest - height) // 2
        out[y : y + height, x : x + width] = picture
    return out


def _width(caption: str) -> int:
    return cv2.getTextSize(caption, *FONT, 1)[0][0]


def story(support: Support, prompt: Prompt, queries: Sequence[tuple[str, Any, Pose]], names: bool = False) -> RGB:
    """What was marked, the graph that was predicted from it, and the poses that were found on photos with captions;
    larger where there are names to be read."""
    height = 560 if names else 320

    def scale(image: Any) -> float:
        """A photo that is broader than most is no larger than they are."""
        photo = load_image(image)
        return min(height / photo.shape[0], 1.5 * height / photo.shape[1])

    given = "marked, with skeleton" if support.skeleton else "marked, no skeleton"
    pictures = [
        (given, draw_support(support, scale(support.image), names)),
        ("predicted graph", draw_graph(support, prompt, scale(support.image))),
    ]
    for caption, image, pose in queries:
        drawn = _draw_poses(load_image(image), [pose], scale(image), names)
        pictures.append((f"{caption}: score {pose.score:.2f}", drawn))
    return in_rows(pictures)


def save_picture(path: Any, image: RGB, **options: Any) -> None:
    from PIL import Image

    from edgecape.io.files import atomic_path

    with atomic_path(path) as temporary:
        Image.fromarray(image).save(temporary, **options)
