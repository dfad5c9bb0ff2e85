"""A tiny world in which every experiment runs in seconds: drawn lamps, a convolution as backbone, two steps a stage."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgecape.evaluation.methods import copy_support
from edgecape.experiments.lab import Lab
from edgecape.experiments.options import BUDGETS, Options

import toy

STEPS, SEEDS = 2, 2


def write(folder: Path, number: int, kinds: dict[str, str]) -> Any:
    """Lamps of some kinds with their super-categories; the first two kinds share their keypoint names, and every third
    object hides a keypoint."""
    path = toy.write_lamps(folder / "images", number, tuple(kinds))
    content = json.loads(path.read_text())
    path.unlink()
    for category, above in zip(content["categories"], kinds.values(), strict=True):
        category["supercategory"] = above
    content["categories"][1]["keypoints"] = content["categories"][0]["keypoints"]
    for annotation in content["annotations"][::3]:
        annotation["keypoints"][3:6] = [0, 0, 0]
    return content


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.json and val.json."""
    folder = tmp_path_factory.mktemp("lamps")
    for split, number, kinds in (
        ("train", 10, {"lamp": "furniture", "light": "vehicle"}),
        ("val", 7, {"desk lamp": "furniture", "torch": "furniture"}),
    ):
        content = write(folder / split, number, kinds)
        first = 100 * (split == "val")
        for part in ("categories", "images", "annotations"):
            for entry in content[part]:
                entry["id"] += first
        for entry in content["images"]:
            entry["file_name"] = f"{split}/images/{entry['file_name']}"
        for entry in content["annotations"]:
            entry["image_id"] += first
            entry["category_id"] += first
        (folder / "annotations").mkdir(exist_ok=True)
        (folder / "annotations" / f"{split}.json").write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="session")
def _world() -> Iterator[None]:
    """No weights from anywhere, and no time to lose."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgecape.experiments.lab.load_backbone", lambda settings: (toy.ToyBackbone(), "toy"))
        patch.setattr("edgecape.experiments.lab.baselines", lambda backbone: {"copy support": copy_support})
        short = {"steps": STEPS, "decoder_steps": STEPS, "encoded": 8, "seeds": SEEDS}
        patch.setitem(BUDGETS, "smoke", replace(BUDGETS["smoke"], **short))
        yield


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of runs for all tests of the published regime: what was trained is used again."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def lab(data: Path, out: Path, _world: None) -> Callable[..., Lab]:
    """A lab with other options than the usual ones."""

    def make(**changes: Any) -> Lab:
        usual: dict[str, Any] = {"data": (data,), "budget": "smoke", "out": out, "network": toy.NETWORK}
        return Lab(Options(**usual | changes), say=lambda text: None)

    return make
