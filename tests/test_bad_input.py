"""docs/bad-input.md says what happens, because it was made by what happens."""

from __future__ import annotations

import pytest

from bad_input import DOCUMENT, document


def test_the_document_is_what_the_calls_answer() -> None:
    pytest.importorskip("h5py")
    written, answered = DOCUMENT.read_text(encoding="utf-8"), document()
    assert answered.splitlines() == written.splitlines(), "python tests/bad_input.py writes it anew"
