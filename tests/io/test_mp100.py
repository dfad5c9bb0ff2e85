"""The table of MP-100 against its own annotation files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from edgecape.data import sources
from edgecape.data.sources import SOURCES
from edgecape.io import mp100
from edgecape.io.coco import load_coco


def test_the_table_is_complete() -> None:
    assert [kind.id for kind in mp100.KINDS] == list(range(1, 101))
    assert len(mp100.BY_FOLDER) == 100
    assert Counter(kind.source for kind in mp100.KINDS) == {
        "animalweb": 30,
        "ap10k": 34,
        "deepfashion2": 13,
        "cub200": 8,
        "keypoint5": 5,
        "carfusion": 3,
        **dict.fromkeys(("coco", "300w", "aflw", "onehand10k", "macaquepose", "fly", "locust"), 1),
    }
    assert {source.group for source in SOURCES.values()} == {
        "body", "face", "hand", "animal_body", "animal_face", "clothes", "furniture", "vehicle"
    }  # fmt: skip
    for source in SOURCES.values():
        assert source.url.startswith("http")


@pytest.mark.parametrize(
    ("folder", "name", "source", "group"),
    [
        ("amur_tiger_body", "face", "aflw", "face"),  # the trap: no tigers
        ("human_face", "face", "300w", "face"),
        ("human_hand", "hand", "onehand10k", "hand"),
        ("human_body", "person", "coco", "body"),
        ("woodpecker_body", "Woodpecker", "cub200", "animal_body"),
        ("skirt", "skirt", "deepfashion2", "clothes"),
        ("suv", "suv", "carfusion", "vehicle"),
    ],
)
def test_where_a_folder_comes_from(folder: str, name: str, source: str, group: str) -> None:
    kind = mp100.BY_FOLDER[folder]
    assert (kind.name, kind.source, sources.group(kind.id)) == (name, source, group)


def test_recognition() -> None:
    assert mp100.is_mp100([(18, "face"), (40, "face"), (32, "car")])
    assert not mp100.is_mp100([(1, "car")])
    assert not mp100.is_mp100([(32, "car"), (101, "new")])
    assert not mp100.is_mp100([])


@pytest.mark.shared
def test_the_table_agrees_with_the_real_files(shared: Path) -> None:
    kinds = {kind.id: kind for kind in mp100.KINDS}
    for path in sorted((shared / "data/mp100_annotations").glob("*.json.gz")):
        file = load_coco(path)
        assert mp100.is_mp100((id_, entry["name"]) for id_, entry in file.categories.items())
        for id_, entry in file.categories.items():
            assert (entry["name"], entry["supercategory"], file.K[id_]) == (
                kinds[id_].name,
                kinds[id_].supercategory,
                kinds[id_].K,
            )
        for id_, members in file.of_image.items():
            for annotation in members:
                folder = file.images[id_]["file_name"].split("/")[0]
                assert folder == kinds[annotation["category_id"]].folder
