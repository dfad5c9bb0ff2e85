"""Pictures for people: poses on photos, and the predicted graph beside the one that was given."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgecape.io.images import RGB, load_image
from edgecape.types import Pose, Prompt, Support

Colour = tuple[int, int, int]
FAINT = 0.25  # opacity of a keypoint that is certainly wrong
CAPTION_HEIGHT = 30


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
    edge_weights in [0, 1] set the width and opacity of each edge.
    """
    canvas = image.copy()
    K = len(keypoints)
    side = max(image.shape[:2])
    radius, width = max(3, round(side / 90)), max(1, round(side / 250))  # of a keypoint, of an edge
    certainty = np.ones(K) if scores is None else np.asarray(scores, dtype=np.float64)
    opacity = FAINT + (1 - FAINT) * certainty.clip(0, 1)
    points = {k: tuple(int(v) for v in np.rint(keypoints[k])) for k in range(K) if np.isfinite(keypoints[k]).all()}
    for index, (i, j) in enumerate(edges):
        if i not in points or j not in points:
            continue
        weight = 1.0 if edge_weights is None else float(np.clip(edge_weights[index], 0, 1))
        drawn = canvas.copy()
        thick = max(1, round(width * (0.5 + 2.5 * weight)))
        cv2.line(drawn, points[i], points[j], (20, 20, 20), thick + 2, cv2.LINE_AA)
        cv2.line(drawn, points[i], points[j], (255, 255, 255), thick, cv2.LINE_AA)
        strength = min(opacity[i], opacity[j]) * (0.35 + 0.5 * weight)
        cv2.addWeighted(drawn, strength, canvas, 1 - strength, 0, dst=canvas)
    colours = palette(K)
    for k, point in points.items():
        drawn = canvas.copy()
        cv2.circle(drawn, point, radius + max(1, radius // 3), (20, 20, 20), -1, cv2.LINE_AA)
        cv2.circle(drawn, point, radius, colours[k], -1, cv2.LINE_AA)
        cv2.addWeighted(drawn, opacity[k], canvas, 1 - opacity[k], 0, dst=canvas)
    if names is not None:
        scale = max(0.35, radius / 12)
        for k, point in points.items():
            place = (point[0] + radius + 2, point[1] - radius)
            cv2.putText(canvas, names[k], place, cv2.FONT_HERSHEY_SIMPLEX, scale, (20, 20, 20), 3, cv2.LINE_AA)
            cv2.putText(canvas, names[k], place, cv2.FONT_HERSHEY_SIMPLEX, scale, colours[k], 1, cv2.LINE_AA)
    return canvas


def draw_poses(image: Any, poses: Sequence[Pose], longest: int = 1600) -> RGB:
    """A photo with all that was found on it, made smaller if it is large: nobody looks at 60 megapixels."""
    picture = load_image(image)
    scale = min(1.0, longest / max(picture.shape[:2]))
    if scale < 1:
        height, width = (max(1, round(side * scale)) for side in picture.shape[:2])
        picture = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
    for pose in poses:
        picture = draw_keypoints(picture, pose.keypoints * scale, pose.skeleton or (), pose.scores)
    return picture


def graph_edges(weights: NDArray[np.float32], least: float = 0.05) -> tuple[list[tuple[int, int]], list[float]]:
    """Edges of a weighted graph (K, K) and their weights relative to the strongest, weakest first."""
    upper = np.triu(weights, 1)
    top = float(upper.max(initial=0.0)) or 1.0
    i, j = np.nonzero(upper > least * top)
    strength = upper[i, j] / top
    order = np.argsort(strength)
    return [(int(i[n]), int(j[n])) for n in order], [float(strength[n]) for n in order]


def draw_support(support: Support, names: bool = False) -> RGB:
    """The support photo with the skeleton that was given."""
    photo = load_image(support.image)
    return draw_keypoints(photo, _marked(support), support.skeleton or (), names=support.names if names else None)


def draw_graph(support: Support, prompt: Prompt) -> RGB:
    """The support photo with the predicted graph: the heavier an edge, the wider."""
    edges, strength = graph_edges(prompt.weights)
    photo = load_image(support.image)
    return draw_keypoints(photo, _marked(support), edges, edge_weights=[weight**2 for weight in strength])


def _marked(support: Support) -> NDArray[np.float32]:
    """Nowhere what the photo does not show."""
    assert support.visible is not None
    return np.where(support.visible[:, None], support.keypoints, np.float32(np.nan))


def captioned(image: RGB, caption: str, height: int = 320) -> RGB:
    """The picture at a common height under a line of text."""
    scale = height / image.shape[0]
    size = (max(1, round(image.shape[1] * scale)), height)
    picture = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    text_width = cv2.getTextSize(caption, cv2.FONT_HERSHEY_SIMPLEX, 0.5, 1)[0][0]
    width = max(size[0], text_width + 16)
    out = np.full((height + CAPTION_HEIGHT, width, 3), 255, dtype=np.uint8)
    left = (width - size[0]) // 2
    out[CAPTION_HEIGHT:, left : left + size[0]] = picture
    cv2.putText(out, caption, (8, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (30, 30, 30), 1, cv2.LINE_AA)
    return out


def side_by_side(pictures: Sequence[tuple[str, RGB]], gap: int = 8) -> RGB:
    """Captioned pictures in a row."""
    tiles = [captioned(picture, caption) for caption, picture in pictures]
    spacer = np.full((tiles[0].shape[0], gap, 3), 255, dtype=np.uint8)
    row = [part for tile in tiles for part in (spacer, tile)]
    return np.concatenate([*row, spacer], axis=1)


def story(support: Support, prompt: Prompt, queries: Sequence[tuple[Any, Pose]]) -> RGB:
    """What was marked, the graph that was predicted from it, and the poses that were found."""
    given = "marked, with skeleton" if support.skeleton else "marked, no skeleton"
    pictures = [(given, draw_support(support)), ("predicted graph", draw_graph(support, prompt))]
    found = [(f"found, mean score {pose.score:.2f}", draw_poses(image, [pose])) for image, pose in queries]
    return side_by_side(pictures + found)


def save_picture(path: Any, image: RGB) -> None:
    from PIL import Image

    from edgecape.io.files import atomic_path

    with atomic_path(path) as temporary:
        Image.fromarray(image).save(temporary)
