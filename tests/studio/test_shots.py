"""Shots that disagree with the others, and the photo to mark next."""

from __future__ import annotations

import json

from edgecape.examples.lamps import NAMES

from service import client, found, lamp, marks, save, shot, upload_lamps


def test_a_shot_is_compared_with_what_the_others_find(tmp_path):
    with client(tmp_path / "project") as http:
        photos = upload_lamps(http, 2)
        shots = [shot(photo, lamp(n)[1]) for n, photo in enumerate(photos)]
        id_ = http.post("/api/v1/prompts", json=marks(photos[0], shots=shots)).json()["id"]
        answer = http.post(f"/api/v1/prompts/{id_}/check")
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert [line["photo"] for line in lines] == photos and [line["index"] for line in lines] == [0, 1]
        assert all(line["distance"] >= 0 and "error" not in line for line in lines)
        one = http.post("/api/v1/prompts", json=marks(photos[0])).json()["id"]
        refused = http.post(f"/api/v1/prompts/{one}/check")
        assert refused.status_code == 422 and "two or more shots" in refused.json()["error"]


def test_the_photo_with_the_lowest_score_is_suggested_first(tmp_path):
    with client(tmp_path / "project") as http:
        photos = upload_lamps(http, 3)
        id_ = http.post("/api/v1/prompts", json=marks(photos[0])).json()["id"]
        queries = [
            {"photo": photo, "state": "predicted", "pose": found(lamp()[1], score=score)}
            for photo, score in zip(photos[1:], (0.8, 0.3), strict=True)
        ]
        assert save(http, names=list(NAMES), queries=queries).status_code == 200
        answer = http.post("/api/v1/suggestions", json={"prompt": id_, "photos": photos[1:]})
        assert [one["photo"] for one in answer.json()] == [photos[2], photos[1]]
