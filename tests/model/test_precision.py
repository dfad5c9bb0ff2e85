"""bfloat16 where it saves time, and nowhere else."""

from __future__ import annotations

import pytest
import torch

from edgecape.data.features import FeatureStore
from edgecape.model import precision
from edgecape.model.precision import bfloat16_is_fast, rounded

import toy


@pytest.mark.parametrize("known", [True, False])
def test_products_are_rounded_only_where_that_is_fast(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "bfloat16_is_fast", lambda device_type: known)
    x = torch.randn(3, 4)
    for wanted in (True, False):
        with rounded("cpu", wanted):
            assert (x @ x.T).dtype == (torch.bfloat16 if known and wanted else torch.float32)


@pytest.mark.parametrize("known", [True, False])
def test_features_that_are_not_rounded_are_the_exact_ones(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """They share the cache of the exact ones then."""
    monkeypatch.setattr("edgecape.data.features.bfloat16_is_fast", lambda device_type: known)
    exact = toy.store()
    asked = FeatureStore(toy.ToyBackbone(), "toy", precision=torch.bfloat16)  # type: ignore[arg-type]
    assert (asked.identity == exact.identity) is not known


@pytest.mark.parametrize(
    ("machine", "said", "fast"),
    [
        ("x86_64", {"avx512": False, "amx": False, "mkldnn": True}, False),  # it imitates, three times as slow
        ("AMD64", {"avx512": True, "amx": False, "mkldnn": True}, True),
        ("x86_64", {"avx512": False, "amx": True, "mkldnn": True}, True),
        ("aarch64", {"avx512": False, "amx": False, "mkldnn": True}, True),
        ("aarch64", {"avx512": False, "amx": False, "mkldnn": False}, False),
        ("x86_64", {}, False),  # a release of torch that cannot say
    ],
)
def test_imitating_it_is_not_knowing_it(
    machine: str, said: dict[str, bool], fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = {
        "avx512": (torch.cpu, "_is_avx512_bf16_supported"),
        "amx": (torch.cpu, "_is_amx_tile_supported"),
        "mkldnn": (torch.ops.mkldnn, "_is_mkldnn_bf16_supported"),
    }
    for name, (module, question) in questions.items():
        monkeypatch.setattr(module, question, (lambda answer=said[name]: answer) if name in said else None)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(precision.platform, "machine", lambda: machine)
    assert bfloat16_is_fast.__wrapped__("cpu") is fast


def test_graphics_cards_know_it() -> None:
    assert bfloat16_is_fast("cuda") and isinstance(bfloat16_is_fast("cpu"), bool)
