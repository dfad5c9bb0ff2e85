"""Left and right, by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecape.skeleton import flip_index, flip_pairs


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        (["nose", "left_eye", "right_eye"], ((1, 2),)),  # COCO
        (["L_F_WheelCenter", "R_F_WheelCenter", "L_B_WheelCenter", "R_B_WheelCenter"], ((0, 1), (2, 3))),
        (["BackRest_Top_Left", "BackRest_Top_Right", "Leg_Left_Front", "Leg_Right_Front"], ((0, 1), (2, 3))),
        (["snout", "leftear", "rightear", "tailbase"], ((1, 2),)),  # DeepLabCut
        (["leftLip", "rightLip", "topleftinner", "toprightinner", "topmidinner"], ((0, 1), (2, 3))),
        (["hindPawL", "hindPawR", "earL", "earR"], ((0, 1), (2, 3))),  # SLEAP
        (["Base of left ear", "Nose", "Base of right ear"], ((0, 2),)),
        (["lwrist", "rwrist", "head"], ((0, 1),)),
        (["wing-R1", "wing-L1", "wing-R2"], ((0, 1),)),
        (["LEFT EYE", "Right eye"], ((0, 1),)),
        (["left_eye", "nose"], ()),  # no partner
        (["LM1", "LM2", "RM9"], ()),  # landmarks, not left
        (["L1", "L2", "L3"], ()),  # lumbar vertebrae
        (["p0", "p1", "0", "1", ""], ()),
        (["left_eye", "left_eye", "right_eye"], ()),  # which of the two?
        (["rear", "front"], ()),
        (["top", "bottom"], ()),
        ([], ()),
        (None, ()),
    ],
)
def test_names_that_differ_in_nothing_but_the_side(names: list[str] | None, pairs: object) -> None:
    assert flip_pairs(names) == pairs


@given(st.lists(st.text(alphabet="lrLRefthig_ 1", max_size=12), max_size=12))
def test_any_names_give_pairs_that_are_pairs(names: list[str]) -> None:
    pairs = flip_pairs(names)
    once = [index for pair in pairs for index in pair]
    assert len(once) == len(set(once)) and all(i < j < len(names) for i, j in pairs)
    order = flip_index(len(names), pairs)
    assert [order[index] for index in order] == list(range(len(names)))  # twice in a mirror is as it was


@given(st.permutations(["left_eye", "right_eye", "nose", "L_Ear", "R_Ear", "tail"]))
def test_the_order_of_the_names_does_not_matter(names: list[str]) -> None:
    found = {frozenset((names[i], names[j])) for i, j in flip_pairs(names)}
    assert found == {frozenset(("left_eye", "right_eye")), frozenset(("L_Ear", "R_Ear"))}
