"""What this package saved and somebody changed: prompts and model folders."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from edgecape import EdgeCape, Prompt
from edgecape.examples import lamp
from edgecape.weights.store import load_model

from hostile import VALUES, answered, as_json, changed, damaged, seeds, thorough
from toy import estimator

# A size in a model's settings is memory: those that any machine refuses at once, or that cost nothing.
SETTINGS = [entry for entry in VALUES if not (isinstance(entry, (int, float)) and 100 < abs(entry) < 2**61)]


@pytest.fixture(scope="module")
def model() -> EdgeCape:
    return estimator()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, model: EdgeCape) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    model.prompt(lamp().support).save(folder / "lamp.prompt")
    model.save_pretrained(folder / "model")
    return folder


@given(seed=seeds)
@thorough()
def test_prompts(seed: int, folder: Path, model: EdgeCape) -> None:
    chance, content = random.Random(seed), (folder / "lamp.prompt").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, tensors = content[8 : 8 + length], content[8 + length :]
    if chance.random() < 0.3:
        content = damaged(content[: 8 + length], chance) + tensors
    else:
        facts: Any = json.loads(header)
        if chance.random() < 0.5:
            told = changed(json.loads(facts["__metadata__"]["edgecape_prompt"]), chance)
            facts["__metadata__"]["edgecape_prompt"] = json.dumps(told)
        else:
            facts = changed(facts, chance)
        header = as_json(facts)
        content = len(header).to_bytes(8, "little") + header + tensors
    (folder / "changed.prompt").write_bytes(content)
    prompt = answered(Prompt.load, folder / "changed.prompt")
    if isinstance(prompt, Prompt):
        answered(model.predict, prompt, [lamp().support.image])


@given(seed=seeds)
@thorough()
def test_model_folders(seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    place = folder / "changed"
    place.mkdir(exist_ok=True)
    config, head = ((folder / "model" / name).read_bytes() for name in ("config.json", "model.safetensors"))
    part = chance.random()
    if part < 0.7:
        config = as_json(changed(json.loads(config), chance, SETTINGS))
    elif part < 0.85:
        config = damaged(config, chance)
    else:
        head = damaged(head[:20_000], chance) + head[20_000:]
    (place / "config.json").write_bytes(config)
    (place / "model.safetensors").write_bytes(head)
    answered(lambda: load_model(place).network())
