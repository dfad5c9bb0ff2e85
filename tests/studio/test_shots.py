"""Shots that disagree with the others, and the photo to mark next."""

from __future__ import annotations

import json

import numpy as np
import pytest

from edgecape.studio import shots

from service import client, found, lamp, marks, save, shot, upload_lamps


def test_a_shot_is_compared_with_what_the_others_find(tmp_path):
    with client(tmp_path / "project") as http:
        photos = upload_lamps(http, 2)
        marked = [shot(photo, lamp(n)[1]) for n, photo in enumerate(photos)]
        id_ = http.post("/api/v1/prompts", json=marks(photos[0], shots=marked)).json()["id"]
        answer = http.post(f"/api/v1/prompts/{id_}/check")
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert [line["photo"] for line in lines] == photos and [line["index"] for line in lines] == [0, 1]
        assert all(line["distance"] >= 0 and "error" not in line for line in lines)
        one = http.post("/api/v1/prompts", json=marks(photos[0])).json()["id"]
        refused = http.post(f"/api/v1/prompts/{one}/check")
        assert refused.status_code == 422 and "two or more shots" in refused.json()["error"]


def test_the_photo_that_most_others_resemble_is_suggested_first(tmp_path):
    """Not the one that differs most from the shot, which is alone in that, and not one that is like the shot."""
    with client(tmp_path / "project") as http:
        photos = upload_lamps(http, 6)
        as_marked = lamp()[1]
        bent = as_marked * (1, 0.3) + np.linspace(0, 60, len(as_marked))[:, None] ** 1.2
        strange = np.random.default_rng(0).uniform(0, 200, as_marked.shape)
        found_there = [bent, bent + 3, as_marked * 0.5, strange, bent * 1.1]
        queries = [
            {"photo": photo, "state": "predicted", "pose": found(places)}
            for photo, places in zip(photos[1:], found_there, strict=True)
        ]
        body = marks(photos[0])
        id_ = http.post("/api/v1/prompts", json=body).json()["id"]
        assert save(http, **body, queries=queries).status_code == 200
        answer = http.post("/api/v1/suggestions", json={"prompt": id_, "photos": photos[1:]}).json()
        assert {one["photo"] for one in answer[:3]} == {photos[1], photos[2], photos[5]}
        assert answer[0]["gain"] > answer[3]["gain"] >= answer[4]["gain"] == 0
        assert answer[4]["photo"] == photos[3]  # it lies as the shot does


def test_layouts_are_the_same_wherever_and_whichever_way_they_face():
    here = np.random.default_rng(1).uniform(0, 1, (5, 2))
    other = here[[1, 0, 2, 3, 4]]
    alike = np.stack([here * 7 + 3, here * (-1, 1), other])
    near = shots.unlike(here, alike)
    assert near[:2] == pytest.approx([0, 0], abs=1e-9) and near[2] > 0.1
    some = alike.copy()
    some[:, 2:] = np.nan
    assert shots.unlike(here, some).tolist() == [1, 1, 1]  # two keypoints say nothing
