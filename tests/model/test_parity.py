"""The network computes what the released code computes, up to rounding."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch

from edgecape.model.tokens import pooling_from_coordinates, pooling_from_maps

import golden

pytestmark = pytest.mark.shared
K = golden.K


def largest_difference(ours: torch.Tensor, theirs: torch.Tensor, where: torch.Tensor | None = None) -> float:
    assert ours.shape == theirs.shape
    difference = (ours - theirs).abs()
    return float((difference if where is None else difference[..., where, :]).max())


def check(output, expected, usable):
    """Coordinates of all layers, proposals, similarity and graph of the usable keypoints."""
    assert largest_difference(output.coordinates, expected["final_output"][:, :, :K], usable) < 1e-5
    assert largest_difference(output.proposals.similarity[usable], expected["similarity_map"][:, :K][usable]) < 1e-3
    if "initial_proposals_for_loss" in expected:
        found = output.proposals.expected
        assert largest_difference(found, expected["initial_proposals_for_loss"][:, :K], usable) < 1e-5
    if "adj" in expected:  # diag(mask) and Ã
        assert largest_difference(output.graph.normalised, expected["adj"][:, 1, :K, :K]) < 1e-5
        assert not expected["adj"][:, 1, K:].any()


@pytest.mark.parametrize("shots", [1, 5])
@pytest.mark.parametrize("phase", [1, 2, 3])
@torch.no_grad()
def test_edgecape(shared, phase, shots):
    episode = golden.episode(shared, shots)
    output = golden.edgecape(shared, phase)(*episode)
    check(output, golden.arrays(shared / "golden/head_seed0", f"golden_phase{phase}_{shots}shot"), episode.visible)


@pytest.mark.parametrize("shots", [1, 5])
@torch.no_grad()
def test_graphcape(shared, shots):
    episode = golden.episode(shared, shots, "graphcape")
    output = golden.graphcape(shared)(*episode)
    check(output, golden.arrays(shared / "golden/graphcape_seed0", f"golden_{shots}shot"), episode.visible)


@torch.no_grad()
def test_empty_skeleton_and_no_usable_keypoint(shared):
    expected = golden.arrays(shared / "golden/head_seed0", "golden_phase3_edge")
    visible = golden.usable(expected["mask_s"])
    prior = golden.priors(expected["skeletons"])
    assert not prior[0].any()
    assert not visible[1].any()
    output = golden.edgecape(shared, 3)(*golden.episode(shared, 1)._replace(visible=visible, prior=prior))
    check(output, expected, visible)
    # even keypoints that nobody will look at come out the same
    assert largest_difference(output.coordinates, expected["final_output"][:, :, :K]) < 1e-5
    assert largest_difference(output.proposals.peak, expected["proposals"][:, :K]) < 1e-5


# our module → what the reference recorded; "#n" counts the calls of a module
INTERMEDIATES = {
    "image_proj#0": "input_proj#0",
    "keypoint_proj#0": "query_proj#0",
    "pose_graph.image_proj#0": "skeleton_head.image_project#0",
    **{f"encoder.layers.{n}#0": f"transformer.encoder.layers.{n}#0" for n in range(3)},
    **{f"pose_graph.layers.{n}#0.0": f"skeleton_head.skeleton_predictor.{n}#0.0" for n in range(3)},
    **{f"pose_graph.layers.{n}#0.1": f"skeleton_head.skeleton_predictor.{n}#0.1" for n in range(3)},
    **{f"decoder.position_mlp#{n}": f"transformer.decoder.ref_point_head#{n}" for n in range(3)},
    **{
        f"decoder.layers.{n}.structural_bias.mlp#0": f"transformer.decoder.layers.{n}.self_attn.markov_structural_mlp#0"
        for n in range(3)
    },
    **{f"decoder.layers.{n}.self_attention#0": f"transformer.decoder.layers.{n}.self_attn#0.0" for n in range(3)},
    **{f"decoder.layers.{n}.to_image#0": f"transformer.decoder.layers.{n}.choker#0" for n in range(3)},
    **{f"decoder.layers.{n}#0": f"transformer.decoder.layers.{n}#0.0" for n in range(3)},
    # we call a step first for what is reported, then for what is handed on; the reference the other way round
    **{f"decoder.steps.{n}#0": f"kpt_branch.{n}#1" for n in range(3)},
    **{f"decoder.steps.{n}#1": f"kpt_branch.{n}#0" for n in range(3)},
}


@pytest.fixture(scope="module")
def recorded(shared):
    """Every intermediate of phase 3 at one shot, by module#call[.output]."""
    network, found, calls = golden.edgecape(shared, 3), {}, defaultdict(int)

    def record(name):
        def hook(module, arguments, output):
            parts = output if isinstance(output, tuple) else (output,)
            for part, tensor in enumerate(parts):
                found[f"{name}#{calls[name]}" + (f".{part}" if len(parts) > 1 else "")] = tensor
            calls[name] += 1

        return hook

    hooks = [module.register_forward_hook(record(name)) for name, module in network.named_modules()]
    with torch.no_grad():
        network(*golden.episode(shared, 1))
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize(("ours", "theirs"), INTERMEDIATES.items())
def test_intermediates(shared, recorded, ours, theirs):
    """If an end result ever differs, this says where it starts."""
    visible = golden.episode(shared, 1).visible
    found, expected = recorded[ours], golden.arrays(shared / "golden/head_seed0", "golden_phase3_1shot")[theirs]
    if expected.shape[1] == 2 and expected.shape[0] != 2:
        expected = expected.transpose(0, 1)  # the reference puts the batch second
    cells = 256 if ".encoder." in theirs else 0
    if expected.shape[1] == cells + 100:  # keypoints, after image cells in the encoder
        usable = torch.cat((torch.ones(2, cells, dtype=torch.bool), visible), dim=1)
        expected, found = expected[:, : cells + K][usable], found[:, : cells + K][usable]
        if "markov" in theirs:
            expected = expected[:, :K]
    assert largest_difference(found, expected) < 2e-5


def test_positions(shared):
    expected = golden.arrays(shared / "golden/head_seed0", "golden_phase3_1shot")["positional_encoding#0"][0]
    found = golden.edgecape(shared, 3).position(golden.episode(shared, 1).query)
    assert largest_difference(found, expected.flatten(1).T) < 1e-6


@pytest.mark.parametrize("shots", [1, 5])
def test_keypoint_maps(shared, shots):
    """Maps made from coordinates are the reference's, which were stored as fp16, also beside the frame's border."""
    expected = golden.episode(shared, shots).maps
    coordinates = golden.coordinates(shared, shots)
    seen = expected.flatten(-2).any(dim=-1)
    maps = golden.gaussian_maps(coordinates, (224, 224), 3.5)
    assert (coordinates[seen] < 0).any()
    assert torch.equal(maps[seen].half().float(), expected[seen])


@pytest.mark.parametrize("grid", [(16, 16), (12, 20)])
def test_pooling_needs_no_maps(shared, grid):
    coordinates = golden.coordinates(shared, 5)
    from_maps = pooling_from_maps(golden.gaussian_maps(coordinates, (224, 224), 3.5), grid)
    assert largest_difference(pooling_from_coordinates(coordinates, grid, (224, 224), 3.5), from_maps) < 1e-6


@pytest.mark.parametrize("grid", [(16, 16), (12, 20)])
def test_pooling_is_the_average_of_the_enlarged_features(shared, grid):
    """What the reference does literally: enlarge the features to the map, average under the map."""
    maps = golden.episode(shared, 1).maps[:, 0]  # (B, K, 64, 64)
    features = torch.randn(2, 8, *grid, generator=torch.Generator().manual_seed(0))
    enlarged = torch.nn.functional.interpolate(features, size=(64, 64), mode="bilinear", align_corners=False)
    weight = maps / (maps.sum(dim=(-2, -1), keepdim=True) + 1e-8)
    expected = torch.einsum("bkhw,bchw->bkc", weight, enlarged)
    found = torch.einsum("bkhw,bchw->bkc", pooling_from_maps(maps, grid), features)
    assert largest_difference(found, expected) < 1e-5
