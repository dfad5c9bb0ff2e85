from __future__ import annotations

import pytest
import torch

from edgecape.errors import WeightsError
from edgecape.evaluation.calibration import fit
from edgecape.matching.multiview import Estimate, Rereadings
from edgecape.matching.scores import BEFORE, FEATURES, Calibration, probabilities, score_features
from edgecape.matching.voting import heatmap_of
from edgecape.model.network import Output
from edgecape.model.pose_graph import PoseGraph
from edgecape.model.proposals import locate

CLEAR = torch.ones(2, dtype=torch.bool)


def output(sharpness: float, B: int = 2, K: int = 5, seed: int = 0) -> Estimate:
    generator = torch.Generator().manual_seed(seed)
    proposals = locate(sharpness * torch.randn(B, K, 8, 8, generator=generator))
    A = torch.rand(B, K, K, generator=generator)
    A = A / A.sum(-1, keepdim=True)
    coordinates = proposals.peak + 0.02 * torch.randn(3, B, K, 2, generator=generator)
    return Estimate(Output(coordinates, proposals, torch.ones(B, K, dtype=torch.bool), PoseGraph(A, A, A)), None, CLEAR)


def test_features_are_finite_and_follow_sharpness():
    flat, sharp = score_features(output(0.1)), score_features(output(20.0))
    assert flat.shape == (2, 5, len(FEATURES)) and torch.isfinite(flat).all() and torch.isfinite(sharp).all()
    assert (sharp[..., 0] > flat[..., 0]).all() and (sharp[..., 1] < flat[..., 1]).all()


def test_a_fit_is_calibrated_on_its_data_and_orders_it():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(6000, len(FEATURES), generator=generator)
    truth = torch.sigmoid(1.5 * features[:, 0] - 0.8 * features[:, 1] + 0.3)
    right = torch.rand(6000, generator=generator) < truth
    found = fit(features, right).probability(features)
    assert (found - truth).abs().mean() < 0.03
    for low in torch.arange(0, 1, 0.2):
        chosen = (found >= low) & (found < low + 0.2)
        assert (found[chosen].mean() - right[chosen].float().mean()).abs() < 0.05


def test_weights_let_a_small_category_count_as_much_as_a_large_one():
    """900 keypoints of an easy category, 100 of a hard one, nothing to tell them apart."""
    features = torch.zeros(1000, len(FEATURES))
    right = torch.arange(1000) < 800  # all wrong ones are among the last 200; the hard category are the last 100
    weight = torch.where(torch.arange(1000) < 900, 1 / 900, 1 / 100)
    assert abs(float(fit(features, right).probability(features).mean()) - 0.8) < 1e-3
    assert abs(float(fit(features, right, weight).probability(features).mean()) - 800 / 900 / 2) < 1e-3


def test_two_keypoints_on_one_spot_share_it():
    crowded = output(20.0)
    similarity = crowded.output.proposals.similarity.clone()
    similarity[:, 1] = similarity[:, 0]
    share = FEATURES.index("own_share")
    both = score_features(Estimate(crowded.output._replace(proposals=locate(similarity)), None, CLEAR))[..., share]
    alone = score_features(crowded)[..., share]
    assert (both[:, :2] <= 1e-4).all() and (alone[:, 0] > both[:, 0]).all()


def test_it_survives_being_saved():
    features = torch.randn(200, len(FEATURES))
    calibration = fit(features, torch.rand(200) < 0.5)
    again = Calibration.from_dict(calibration.to_dict())
    assert torch.equal(calibration.probability(features), again.probability(features))


def test_scores_fitted_before_there_was_our_decoder_stay_what_they_were():
    features = torch.randn(200, len(FEATURES))
    before = fit(features[:, :BEFORE], torch.rand(200) < 0.5)
    again = Calibration.from_dict(before.to_dict())
    torch.testing.assert_close(again.probability(features), before.probability(features[:, :BEFORE]))


def test_scores_know_what_votes_and_decoder_say_of_the_answer():
    estimate = output(20.0)
    similarity = estimate.output.proposals.similarity
    sure, lost = heatmap_of(similarity), torch.full_like(similarity, 1 / 64)
    near, votes, own = (FEATURES.index(name) for name in ("near", "near_votes", "near_decoder"))
    alone = score_features(estimate)
    assert torch.equal(alone[..., near], alone[..., votes])
    assert torch.equal(alone[..., near], alone[..., own])
    places = estimate.output.coordinates.transpose(0, 1)
    doubted = score_features(estimate._replace(reread=Rereadings(places, sure, lost)))
    assert torch.equal(doubted[..., :own], alone[..., :own])
    assert (doubted[..., own] < alone[..., own]).float().mean() > 0.8


def test_scores_fitted_by_another_version_are_refused():
    older = fit(torch.randn(50, len(FEATURES) - 1), torch.rand(50) < 0.5).to_dict()
    with pytest.raises(WeightsError, match=f"another version of edgecape: to {len(FEATURES) - 1} calibration"):
        Calibration.from_dict(older)


def test_a_keypoint_where_the_mass_is_scores_higher():
    here = output(20.0)
    there = Estimate(here.output._replace(coordinates=1 - here.output.coordinates), None, CLEAR)
    near = FEATURES.index("near")
    assert (score_features(here)[..., near] > score_features(there)[..., near]).float().mean() > 0.8


def test_scores_of_an_uncalibrated_model_are_the_mass_at_the_peak():
    sharp, flat = (probabilities(output(scale), None) for scale in (20.0, 0.1))
    assert ((sharp > 0) & (sharp <= 1)).all() and (sharp > flat).all()
