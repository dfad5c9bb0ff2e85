"""The network computes what the released code computes, with nothing but the repository; tests/model/test_parity.py
has more cases, where the reference tensors are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from edgecape.model.network import Network, Output

import golden
import graphs
import released
from tiny import Episode


def network(phase: int) -> Network:
    return golden.build(golden.earlier_phase(released.head(), phase), golden.settings(phase))


def episode(shots: int) -> Episode:
    features, stored = released.features(), released.stored()
    return Episode(
        query=features[f"{shots}shot/query"],
        support=torch.stack([features[f"{shots}shot/support_{shot}"] for shot in range(shots)], dim=1),
        visible=torch.from_numpy(stored[f"{shots}shot/usable"]),
        prior=torch.stack([graphs.adjacency(edges, released.K) for edges in json.loads(str(stored["skeletons"]))]),
        maps=released.maps(shots),
    )


def outputs(output: Output) -> dict[str, Tensor]:
    found = {
        "coordinates": output.coordinates,
        "proposals": output.proposals.expected,
        "similarity": output.proposals.similarity,
    }
    return found if output.graph is None else found | {"graph": output.graph.normalised}


@pytest.mark.parametrize("shots", released.SHOTS)
@pytest.mark.parametrize("phase", [1, 2, 3])
@torch.no_grad()
def test_outputs_are_those_of_the_released_network(phase: int, shots: int) -> None:
    """Of the keypoints that are usable; nobody looks at the others."""
    inputs = episode(shots)
    found = outputs(network(phase)(*inputs))
    compared = 0
    for name, tolerance in (("coordinates", 1e-5), ("proposals", 1e-5), ("graph", 1e-5), ("similarity", 1e-3)):
        key = f"phase{phase}/{shots}shot/{name}"
        if key not in released.stored():
            continue
        expected = torch.from_numpy(released.stored()[key])
        assert found[name].shape == expected.shape
        difference = (found[name] - expected).abs()
        if name == "coordinates":
            difference = difference[:, inputs.visible]
        elif name != "graph":
            difference = difference[inputs.visible]
        assert difference.max() < tolerance, name
        compared += 1
    assert compared == (4 if phase == 3 else 3)


def test_weights_and_features_are_drawn_to_the_bit(shared: Path) -> None:
    reference = golden.official_state(shared, 3)
    assert list(reference) == list(released.head())
    assert all(torch.equal(reference[key].float(), drawn) for key, drawn in released.head().items())
    for shots in released.SHOTS:
        for ours, theirs in zip(episode(shots), golden.episode(shared, shots), strict=True):
            assert ours is theirs is None or torch.equal(ours, theirs)
