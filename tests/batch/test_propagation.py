"""Which photos and frames are looked at before a run, to find further supports among them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgecape.batch.manifest import Listed
from edgecape.batch.propagation import LOOKED_AT, propagated, spread
from edgecape.formats.boxes import read_boxes
from edgecape.io.video import write_video

from toy import estimator, write_lamps


@given(st.lists(st.one_of(st.none(), st.integers(0, 400)), max_size=200))
def test_they_are_spread_evenly_over_all_that_there_are(frames: list[int | None]) -> None:
    photos = [Listed(f"{index:03d}", 1, 1, number) for index, number in enumerate(frames)]
    chosen = spread(photos)
    places = {
        (listed.file, number): sum(1 if f is None else f for f in frames[: int(listed.file)]) + number
        for listed, numbers in chosen
        for number in numbers
    }
    total = sum(1 if number is None else number for number in frames)
    assert len(places) == sum(len(numbers) for _, numbers in chosen) == min(total, LOOKED_AT)
    for listed, numbers in chosen:
        assert all(0 <= number < (1 if listed.frames is None else listed.frames) for number in numbers)
    ordered = sorted(places.values())
    if total:
        steps = np.diff(ordered)
        assert ordered[0] == 0 and (ordered[-1] == total - 1 or total == 1)
        assert not len(steps) or steps.max() - steps.min() <= 1


def test_photos_and_frames_are_read_and_bad_ones_left_out(tmp_path: Path) -> None:
    from edgecape import Support
    from edgecape.data.objects import read_coco
    from edgecape.io.images import load_image

    data = read_coco(write_lamps(tmp_path, 4), tmp_path)
    first, *others = data.instances
    write_video(tmp_path / "clip.mp4", [load_image(one.image) for one in others], fps=5)
    (tmp_path / "bad.png").write_bytes(b"no picture")
    names = [("bad.png", None), ("clip.mp4", 3), ("gone.png", None), (others[0].image.name, None)]
    photos = [Listed(str(tmp_path / name), 1, 1, frames) for name, frames in names]
    model, seen = estimator(), []
    propagate = model.propagate

    def record(shots, images, boxes, number, **options):
        seen.extend(zip(images, boxes, strict=True))
        return propagate(shots, images, boxes, number, **options)

    model.propagate = record  # type: ignore[method-assign]
    support = Support(first.image, first.keypoints, visible=first.visible)
    prompt = propagated(model, [support], photos, None, 2, "auto")
    kinds = [image.shape if isinstance(image, np.ndarray) else image.name for image, _ in seen]
    shape = load_image(others[0].image).shape
    assert kinds == ["bad.png", shape, shape, shape, "gone.png", others[0].image.name]
    assert prompt.shots == 3
    boxes = read_boxes(tmp_path / "lamps.json")  # says nothing of the others
    seen.clear()
    propagated(model, [support], photos, boxes, 2, "auto")
    assert [image.name for image, _ in seen] == [others[0].image.name] and all(there for _, there in seen)
