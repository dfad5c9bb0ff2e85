"""What a similarity map says of itself: whether a keypoint is seen at all, and in one place only."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from edgecape.model.proposals import peak_window


class Evidence(NamedTuple):
    """(B, K) each."""

    peak_mass: Tensor  # logit of the probability round the peak
    entropy: Tensor
    height: Tensor  # of the peak, in logits
    second: Tensor  # by how much it is above all that is not round it
    own_share: Tensor  # logit of the probability that the peak's cell is this keypoint's and no other's


def evidence(similarity: Tensor, usable: Tensor) -> Evidence:
    """similarity (B, K, h, w), logits; usable (B, K)."""
    h, w = similarity.shape[-2:]
    logits = similarity.flatten(2)  # (B, K, hw)
    mass = logits.softmax(dim=-1)
    window = peak_window(mass, h, w)
    entropy = -(mass * (mass + 1e-12).log()).sum(-1)
    height, cell = logits.max(dim=-1)
    second = height - logits.masked_fill(window > 0, float("-inf")).amax(-1)
    rivals = logits.masked_fill(~usable[..., None], float("-inf")).softmax(dim=1)  # whose is this cell?
    own_share = rivals.nan_to_num().gather(-1, cell[..., None])[..., 0]
    shares = ((mass * window).sum(-1), own_share)
    peak_mass, own_share = (torch.logit(share, eps=1e-4) for share in shares)
    return Evidence(peak_mass, entropy, height, second, own_share)
