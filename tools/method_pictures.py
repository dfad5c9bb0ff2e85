"""The pictures of docs/method.md: what the default model computes on its way from a horse to other animals.

python tools/method_pictures.py
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from edgecape import EdgeCape, Prompt, Support, geometry
from edgecape.drawing import draw_graph, draw_keypoints, draw_support, in_rows, palette, resized
from edgecape.formats.supports import read_supports
from edgecape.io.files import atomic_path
from edgecape.io.images import RGB, load_image
from edgecape.matching import views
from edgecape.matching.multiview import Estimate, SupportViews
from edgecape.model.graph import hop_powers
from edgecape.model.pose_graph import PoseGraph
from edgecape.runtime.base import flip_index_of

ROOT = Path(__file__).parents[1]
ZOO = ROOT / "examples/zoo"
HEIGHT = 260  # of a photo in a picture
HOPS = 4  # of a walk along the graph, as in the Markov bias
VIEWS = ("as it is", "mirrored", "1/4 turn", "1/4, mirrored", "1/2 turn", "1/2, mirrored", "3/4 turn", "3/4, mirrored")


@dataclass(frozen=True, eq=False)
class Look:
    """One photo beside the support in its upright views, the fast way."""

    photo: RGB
    size: tuple[int, int]  # (height, width) of the frame
    crop: geometry.Matrix
    estimate: Estimate
    fit: NDArray[np.float32]  # (V,), of all views, by the coarse look


def look(model: EdgeCape, prompt: Prompt, path: Path) -> Look:
    runtime = model.torch_runtime
    photo = load_image(path)
    height, width = photo.shape[:2]
    crop = geometry.crop_transform((0, 0, width, height), runtime.size)
    features = runtime.features(geometry.Pyramid(photo).warp(crop, runtime.size)[None])[:, None]
    support = support_views(model, prompt)
    with torch.inference_mode():
        estimate = runtime.multiview(features, support, fast=True)
        cells = runtime.network.query_cells(features[:, 0])[:, None]
        fit = runtime.multiview.coarse_fit(cells, support)[0, 0]
    return Look(photo, runtime.size, crop, estimate, fit.numpy())


def support_views(model: EdgeCape, prompt: Prompt) -> SupportViews:
    """In all views, as the best effort compares them."""

    def batch(array: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(array)[None]

    tokens, places = model.runtime.all_views(prompt)
    graph = PoseGraph(*(batch(matrix) for matrix in (prompt.prior, prompt.weights, prompt.graph)))
    flip = torch.from_numpy(flip_index_of(prompt))
    return SupportViews(batch(tokens), batch(places), batch(prompt.usable), graph, flip)


# --- the pictures --------------------------------------------------------------------------------------------


def similarity(support: Support, seen: Look, keypoints: list[str]) -> RGB:
    """Where single keypoints could be: by looks alone, and after their neighbours voted."""
    assert support.names is not None
    assert seen.estimate.votes is not None
    rows = []
    logits = seen.estimate.output.proposals.similarity
    alone = logits.flatten(2).softmax(dim=-1).reshape(logits.shape)
    for told, maps in (("alone", alone), ("with votes", seen.estimate.votes.heatmap)):
        for name in keypoints:
            k = support.names.index(name)
            colour = palette(len(support.names))[k]
            rows.append((f"{name.replace('_', ' ')}, {told}", overlaid(seen, maps[0, k].numpy(), colour)))
    return in_rows(rows, columns=len(keypoints))


def overlaid(seen: Look, heat: NDArray[np.float32], colour: tuple[int, int, int]) -> RGB:
    """Probabilities of a frame's cells, as colour on the photo."""
    frame = cv2.resize(heat / heat.max(), seen.size[::-1], interpolation=cv2.INTER_CUBIC)
    height, width = seen.photo.shape[:2]
    back = geometry.inverse(seen.crop)[:2]
    share = 0.85 * cv2.warpAffine(frame, back, (width, height)).clip(0, 1)[..., None]
    pale = 0.45 * seen.photo + 0.55 * 255
    return fitted((pale * (1 - share) + np.array(colour) * share).astype(np.uint8))


def steps(seen: Look, prompt: Prompt) -> RGB:
    """The first guess, where votes put it, and what the decoder makes of that."""
    votes, output = seen.estimate.votes, seen.estimate.output
    assert votes is not None
    back = geometry.inverse(seen.crop)

    def drawn(coordinates: torch.Tensor) -> RGB:
        pixels = geometry.apply(back, coordinates[0].double().numpy() * seen.size[::-1]).astype(np.float32)
        scale = fit_scale(seen.photo)
        return draw_keypoints(fitted(seen.photo), pixels * scale, prompt.skeleton or ())

    found = {
        "peaks of the similarity": output.proposals.peak,
        "where neighbours vote it": votes.voted,
        "found": output.coordinates[-1],
    }
    return in_rows([(told, drawn(coordinates)) for told, coordinates in found.items()], columns=3)


def graph(support: Support, prompt: Prompt) -> RGB:
    """What was given and what was predicted, on the horse and as matrices."""
    scale = fit_scale(load_image(support.image))
    pictures = [
        ("A_prior: the skeleton as it was drawn", draw_support(support, scale)),
        ("A: predicted, heavier is wider", draw_graph(support, prompt, scale)),
        ("A_prior", matrix(prompt.prior)),
        ("A", matrix(prompt.weights)),
    ]
    return in_rows(pictures)


def markov(support: Support, prompt: Prompt, start: str) -> RGB:
    """Where a walk along the graph is after 0 to 4 steps."""
    assert support.names is not None
    k = support.names.index(start)
    powers = hop_powers(torch.from_numpy(prompt.graph), HOPS).numpy()
    photo = load_image(support.image)
    scale = fit_scale(photo)
    pictures = []
    for hops, power in enumerate(powers):
        canvas = draw_keypoints(fitted(photo) // 2 + 128, support.keypoints * scale, prompt.skeleton or ())
        for share, (x, y) in zip(power[k], support.keypoints * scale, strict=True):
            if share > 0.005:
                radius = max(2, round(34 * float(np.sqrt(share))))
                drawn = cv2.circle(canvas.copy(), (round(x), round(y)), radius, (200, 0, 255), -1, cv2.LINE_AA)
                canvas = cv2.addWeighted(drawn, 0.6, canvas, 0.4, 0)
        pictures.append((f"{hops} step{'' if hops == 1 else 's'}", canvas))
    pictures += [(("I", "A~", "A~^2", "A~^3", "A~^4")[hops], matrix(power)) for hops, power in enumerate(powers)]
    return in_rows(pictures, columns=len(powers))


def seen_views(prompt: Prompt, seen: Look, name: str) -> RGB:
    """The support in its eight views, with how well each fits a photo."""
    pictures = []
    for view in range(views.COUNT):
        frame = views.show(prompt.frames[0, 0], view)
        shown = resized(np.ascontiguousarray(frame), HEIGHT * 0.75 / frame.shape[0])
        if view == int(seen.fit.argmax()):
            shown = cv2.rectangle(shown, (0, 0), (shown.shape[1] - 1, shown.shape[0] - 1), (31, 122, 92), 6)
        pictures.append((f"{VIEWS[view]}: {seen.fit[view]:.2f}", shown))
    return in_rows([(f"the photo: {name}", fitted(seen.photo, 0.75)), *pictures], columns=5)


# --- parts of pictures ---------------------------------------------------------------------------------------


def fit_scale(photo: RGB, share: float = 1.0) -> float:
    return min(share * HEIGHT / photo.shape[0], share * 1.3 * HEIGHT / photo.shape[1])


def fitted(photo: RGB, share: float = 1.0) -> RGB:
    return resized(photo, fit_scale(photo, share))


def matrix(values: NDArray[np.float32]) -> RGB:
    """0 is white, the largest value is dark violet."""
    share = (values / values.max())[..., None]
    cells = 255 * (1 - share) + np.array((74, 0, 110)) * share
    side = HEIGHT * 3 // 4 // len(values)
    large = np.kron(cells.astype(np.uint8), np.ones((side, side, 1), np.uint8))
    return cv2.copyMakeBorder(large, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=(150, 150, 150))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/images", help="folder for the pictures")
    out = parser.parse_args().out
    model = EdgeCape.from_pretrained()
    (horse, *_), _ = read_supports(ZOO / "horse.json")
    prompt = model.prompt(horse)
    zebra, donkey, cow = (look(model, prompt, ZOO / f"{name}.png") for name in ("zebra", "donkey", "cow"))
    made = {
        "similarity": similarity(horse, zebra, ["nose", "withers", "left_front_hoof", "right_hind_hoof"]),
        "steps": steps(cow, prompt),
        "graph": graph(horse, prompt),
        "markov": markov(horse, prompt, "elbow"),
        "views": seen_views(prompt, donkey, "donkey"),
    }
    for name, picture in made.items():
        with atomic_path(out / f"method-{name}.jpg") as temporary:
            Image.fromarray(picture).save(temporary, quality=86)


if __name__ == "__main__":
    main()
