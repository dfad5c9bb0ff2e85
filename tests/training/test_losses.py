"""Losses and their gradients are those of the released code's training step."""

from __future__ import annotations

import json
import math

import pytest
import torch

from edgecape.model.network import Output, PoseGraph
from edgecape.model.proposals import Proposals
from edgecape.training.losses import adjacency_loss, mean_distance, offset_loss, similarity_loss
from edgecape.weights.official import DEAD_KEYS, key_table

import golden

# --- definitions -----------------------------------------------------------------------------------------------------


def test_mean_distance_averages_over_keypoints_then_samples():
    target = torch.zeros(3, 2, 2)
    coordinates = torch.tensor([[[0.1, 0.2], [0.3, -0.4]], [[0.5, 0.5], [9.0, 9.0]], [[9.0, 9.0], [9.0, 9.0]]])
    weight = torch.tensor([[True, True], [True, False], [False, False]])
    # samples: (0.3 + 0.7) / 2, 1.0, nothing to count
    assert mean_distance(coordinates, target, weight).item() == pytest.approx((0.5 + 1.0 + 0.0) / 3)


def test_offset_loss_has_a_term_per_guess():
    guesses = torch.full((2, 1, 3, 2), 0.5)
    guesses[1] = 0.25
    matrix = torch.zeros(1, 3, 3)
    proposals = Proposals(torch.zeros(1, 3, 4, 4), expected=torch.full((1, 3, 2), 0.75), peak=torch.ones(1, 3, 2))
    usable = torch.ones(1, 3, dtype=torch.bool)
    output = Output(guesses, proposals, usable, PoseGraph(matrix, matrix, matrix))
    terms = offset_loss(output, torch.zeros(1, 3, 2), usable)
    assert {name: term.item() for name, term in terms.items()} == {
        "proposal_loss": 1.5,
        "l1_loss_layer0": 1.0,
        "l1_loss_layer1": 0.5,
    }


@pytest.mark.parametrize(
    ("x", "y", "cells"),
    [
        (2.5 / 6, 1.5 / 4, {8: 1.0}),  # the centre of row 1, column 2 of 4 × 6 cells
        (3.0 / 6, 1.5 / 4, {8: 0.5, 9: 0.5}),  # between two columns
        (2.75 / 6, 1.75 / 4, {8: 0.5625, 9: 0.1875, 14: 0.1875, 15: 0.0625}),
        (0.0, 0.0, {0: 1.0}),  # at the border there is one cell only
    ],
)
def test_similarity_loss_wants_the_mass_at_the_truth(x, y, cells):
    logits = torch.randn(2, 2, 4, 6, generator=torch.Generator().manual_seed(0))
    target, weight = torch.zeros(2, 2, 2), torch.tensor([[False, True], [False, False]])
    target[0, 1] = torch.tensor([x, y])
    surprise = -logits[0, 1].flatten().log_softmax(0)
    expected = sum(share * surprise[cell].item() for cell, share in cells.items())
    assert similarity_loss(logits, target, weight).item() == pytest.approx(expected / 2, rel=1e-5)  # two samples


# --- parity ----------------------------------------------------------------------------------------------------------


def reference(shared, phase, shots):
    return json.loads((shared / f"golden/head_seed0/train_phase{phase}_{shots}shot.json").read_text())


def training_step(shared, phase, shots):
    """Network (dropout off), its output and all loss terms."""
    network, truth = golden.edgecape(shared, phase), golden.truth(shared, shots)
    hidden = truth.hidden if phase > 1 else None
    output = network(*golden.episode(shared, shots)._replace(hidden=hidden))
    terms = offset_loss(output, truth.target, truth.weight)
    if phase > 1:
        terms["adj_reconstruct_loss"] = adjacency_loss(output.reconstruction, truth.target, truth.weight)
    return network, output, terms


def gradient_norms(network, loss):
    """Norm per official parameter, None where no gradient arrives; ours are parts of theirs where those are stacked."""
    names, parameters = zip(*network.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True)
    table, squares = key_table(network.settings), {}
    for name, gradient in zip(names, gradients, strict=True):
        key = table[name].partition("[")[0]
        squares.setdefault(key, None)
        if gradient is not None:
            squares[key] = (squares[key] or 0.0) + float(gradient.double().square().sum())
    return {key: square if square is None else math.sqrt(square) for key, square in squares.items()}


def compare(found, expected, tolerance):
    """Dead keys and, in phase 1, the predictor have no gradient in the reference and no parameter here."""
    assert all(expected[key] is None for key in expected if key not in found)
    for key, norm in found.items():
        if expected[key] is None:
            assert norm is None, key
        elif expected[key] < 1e-6:  # zero but for rounding: a bias that softmax cancels
            assert norm < 1e-6, key
        else:
            assert norm == pytest.approx(expected[key], rel=tolerance), key


@pytest.mark.shared
@pytest.mark.parametrize("shots", [1, 5])
@pytest.mark.parametrize("phase", [1, 2, 3])
def test_training_step_of_the_reference(shared, phase, shots):
    expected = reference(shared, phase, shots)
    network, output, terms = training_step(shared, phase, shots)
    assert {name: term.item() for name, term in terms.items()} == pytest.approx(expected["losses"], rel=1e-5)
    assert sum(terms.values()).item() == pytest.approx(expected["total"], rel=1e-5)
    if phase > 1:
        made = golden.arrays(shared / "golden/head_seed0", f"train_phase{phase}_{shots}shot")
        difference = (output.reconstruction - made["reconstructed"][:, : golden.K])[output.usable]
        assert difference.abs().max() < 1e-5

    # The reference's own rounding shows at five shots: norms that cannot differ between its phases differ by 0.7e-4,
    # and ours lie within 1e-5 of those in double precision.
    tolerance = 1e-4 if shots == 1 else 1.5e-4
    norms = gradient_norms(network, sum(terms.values()))
    if phase == 3:  # freezes the predictor and the projections in front of it
        frozen = {
            theirs.partition("[")[0]
            for ours, theirs in key_table(network.settings).items()
            if ours.startswith(("pose_graph.", "image_proj.", "keypoint_proj."))
        }
        assert frozen | set(DEAD_KEYS) == {key for key, trained in expected["requires_grad"].items() if not trained}
        norms = {key: norm for key, norm in norms.items() if key not in frozen}
    compare(norms, expected["grad_norm"], tolerance)


@pytest.mark.shared
@pytest.mark.parametrize("shots", [1, 5])
def test_graph_loss_of_the_reference_reaches_only_the_graph(shared, shots):
    network, _, terms = training_step(shared, 2, shots)
    norms = gradient_norms(network, terms["adj_reconstruct_loss"])
    compare(norms, reference(shared, 2, shots)["grad_norm_adj_loss_only"], 1e-4)
    reached = {key.split(".")[0] for key, norm in norms.items() if norm is not None}
    # query_proj makes the tokens from which the predictor starts
    assert reached == {"skeleton_head", "query_proj", "transformer"}
    assert [key for key, norm in norms.items() if norm and key.startswith("transformer.")] == ["transformer.mask_token"]
