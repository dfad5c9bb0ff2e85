from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from edgecape.errors import EdgeCapeError
from edgecape.formats.supports import read_supports

from toy import write_lamps

ENTRY = {
    "image": "a.jpg",
    "keypoints": [[1, 2], [3, 4]],
    "skeleton": [[0, 1]],
    "names": ["x", "y"],
    "box": [0, 0, 9, 9],
}


def write(folder: Path, content: object) -> Path:
    path = folder / "support.json"
    path.write_text(json.dumps(content))
    return path


def test_the_small_json(tmp_path):
    (support,) = read_supports(write(tmp_path, ENTRY)).supports
    assert support.image == tmp_path / "a.jpg" and support.names == ("x", "y")
    assert support.skeleton == ((0, 1),) and support.box == (0, 0, 9, 9)
    assert len(read_supports(write(tmp_path, [ENTRY, ENTRY])).supports) == 2
    (elsewhere,) = read_supports(write(tmp_path, ENTRY), images="/photos").supports
    assert elsewhere.image == Path("/photos/a.jpg")


def test_the_small_json_may_tell_left_from_right(tmp_path):
    assert read_supports(write(tmp_path, ENTRY)).supports[0].symmetry is None
    assert read_supports(write(tmp_path, {**ENTRY, "symmetry": [[0, 1]]})).supports[0].symmetry == ((0, 1),)


def test_a_label_file(tmp_path):
    supports = read_supports(write_lamps(tmp_path, 3)).supports
    assert len(supports) == 3 and supports[0].keypoints.shape == (7, 2)
    assert all(Path(support.image).exists() for support in supports)
    assert np.isfinite(supports[0].keypoints).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**ENTRY, "colour": "red"}, "unknown field 'colour'"),
        ({**ENTRY, "skeleton": [[1, 2]]}, r"edge \(1, 2\)"),
        ({**ENTRY, "keypoints": [[1], [2]]}, r"\(x, y\)"),
        ({"something": 1}, "support.json"),
        ([], "support.json"),
    ],
)
def test_bad_files(tmp_path, content, message):
    with pytest.raises(EdgeCapeError, match=message):
        read_supports(write(tmp_path, content))


def test_two_definitions_in_a_file(tmp_path):
    with pytest.raises(EdgeCapeError, match="2 keypoint definitions"):
        read_supports(write_lamps(tmp_path, 2, ("lamp", "light")))
