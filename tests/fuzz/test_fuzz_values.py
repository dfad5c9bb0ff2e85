"""Supports and arguments of `predict`, made of anything."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from PIL import Image

from edgecape import EdgeCape, Pose, Prompt, Support
from edgecape.errors import EdgeCapeError
from edgecape.examples import lamp

from hostile import answered, changed, seeds, thorough, value
from toy import estimator

WIDTH, HEIGHT = 320, 320
POSE = Pose(
    np.array([[1, 2], [3, 4], [np.nan, np.nan]], np.float32),
    np.array([0.5, 0.25, 0], np.float32),
    (0.0, 0.0, 9.0, 9.0),
    np.array([[1, 2], [3, 4], [np.nan, np.nan]], np.float32),
    ("a", "b", "c"),
    ((0, 1),),
).to_dict()


@pytest.fixture(scope="module")
def model() -> EdgeCape:
    return estimator()


@pytest.fixture(scope="module")
def prompt(model: EdgeCape) -> Prompt:
    return model.prompt(lamp().support)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Two that are fine, and what is not."""
    folder = tmp_path_factory.mktemp("photos")
    picture = np.asarray(lamp().support.image)
    for name in ("a.png", "b.png"):
        Image.fromarray(picture).save(folder / name)
    (folder / "text.jpg").write_text("no picture")
    Image.new("RGB", (40_000, 1)).save(folder / "thin.png")
    Image.new("L", (9, 9)).save(folder / "two.tif", save_all=True, append_images=[Image.new("L", (9, 9))])
    odd = ["text.jpg", "thin.png", "two.tif", "gone.png", "."]
    return [*(folder / name for name in ("a.png", "b.png", *odd)), picture, picture[..., 0] / 255]


def place(chance: random.Random) -> Any:
    """A keypoint or a side of a box, more often near the photo than not."""
    return chance.choice((chance.uniform(0, 320), chance.uniform(-400, 700), chance.uniform(0, 1), value(chance)))


@given(seed=seeds)
@thorough()
def test_supports(seed: int, model: EdgeCape) -> None:
    chance = random.Random(seed)
    good = lamp().support
    arguments: dict[str, Any] = {
        "image": good.image,
        "keypoints": good.keypoints.tolist(),
        "skeleton": [list(edge) for edge in good.skeleton or ()],
        "visible": [True] * 7,
        "box": [10, 10, 300, 300],
        "names": list(good.names or ()),
        "symmetry": [[0, 1]],
    }
    for name in chance.sample(list(arguments), chance.choice((1, 1, 2, 3))):
        match chance.randrange(3):
            case 0:
                arguments[name] = value(chance)
            case 1 if isinstance(arguments[name], list):
                arguments[name] = changed(arguments[name], chance)
            case _ if name == "keypoints":
                arguments[name] = [[place(chance), place(chance)] for _ in range(7)]
            case _ if name == "box":
                arguments[name] = [place(chance) for _ in range(4)]
    support = answered(Support, **arguments)
    if not isinstance(support, Support):
        return
    prompt = answered(model.prompt, support)
    if isinstance(prompt, Prompt):  # nothing of what nobody can mean was taken
        shown = support.keypoints[support.visible]
        photo = np.asarray(support.image)
        assert (shown >= -0.5).all() and (shown <= photo.shape[1::-1]).all()
        assert not ((shown >= 0) & (shown <= 1)).all()
        assert not isinstance(arguments["names"], str)
        assert "false" not in str(arguments["visible"])
        assert support.box is None or overlap(support.box, photo.shape[1], photo.shape[0]) >= 0.01


def overlap(box: tuple[float, ...], width: int, height: int) -> float:
    x, y, w, h = box
    return max(min(x + w, width) - max(x, 0), 0) / w * max(min(y + h, height) - max(y, 0), 0) / h


@given(seed=seeds)
@thorough()
def test_arguments_of_predict(seed: int, model: EdgeCape, prompt: Prompt, photos: list[Any]) -> None:
    chance = random.Random(seed)
    images: Any = [chance.choice(photos) if chance.random() < 0.9 else value(chance) for _ in range(2)]
    boxes: Any = [box_like(chance) for _ in images]
    arguments: dict[str, Any] = {"boxes": boxes, "errors": chance.choice(("raise", "return")), "batch_size": 2}
    if chance.random() < 0.3:
        arguments[chance.choice(list(arguments))] = value(chance)
    if chance.random() < 0.1:
        images = value(chance)
    found = answered(model.predict, prompt if chance.random() < 0.95 else value(chance), images, **arguments)
    if isinstance(found, list) and arguments["errors"] == "return":
        for one in found:
            assert isinstance(one, (Pose, list, EdgeCapeError))
            for pose in [one] if isinstance(one, Pose) else one if isinstance(one, list) else []:
                assert np.isfinite(pose.keypoints[prompt.usable]).all()


def box_like(chance: random.Random) -> Any:
    box = [place(chance) for _ in range(4)]
    return chance.choice(
        (None, box, [box], [box, [10, 10, 50, 50]], tuple(box), np.array([1, 2, 30, 40]), value(chance))
    )


@given(seed=seeds)
@thorough()
def test_poses_as_journals_keep_them(seed: int) -> None:
    chance = random.Random(seed)
    values = changed(POSE, chance) if chance.random() < 0.9 else value(chance)
    pose = answered(Pose.from_dict, values)
    if isinstance(pose, Pose):
        assert isinstance(answered(Pose.from_dict, pose.to_dict()), Pose)
