"""Random label sets, and whether two are the same as far as a format can tell."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from PIL import Image

from edgecape import formats
from edgecape.formats import LabelledImage, LabelledObject, LabelSet
from edgecape.types import Pose

TOLERANCE = 1e-3  # pixels that a writer may lose
few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])

text = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn", "Zl", "Zp")), min_size=1, max_size=12).filter(
    str.strip
)
stems = st.text(st.characters(categories=("L", "N"), include_characters=" -_."), min_size=1, max_size=10)


@st.composite
def label_sets(draw: st.DrawFn, sized: bool = False, inside: bool = False, boxed: bool = False) -> LabelSet:
    """At least one object; numbers come from a drawn seed, structure from hypothesis."""
    K = draw(st.integers(1, 40))
    names = draw(st.lists(text, min_size=K, max_size=K, unique=True))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    pairs = st.tuples(st.integers(0, K - 1), st.integers(0, K - 1)).filter(lambda pair: pair[0] != pair[1])
    skeleton = draw(st.none() | st.lists(pairs, max_size=8)) if K > 1 else None
    files = draw(
        st.lists(stems.map(lambda stem: f"{stem.strip(' .')}x.png"), min_size=1, max_size=3, unique_by=str.lower)
    )
    counts = [draw(st.integers(0, 3)) for _ in files]
    counts[-1] = max(counts[-1], 1)
    images = []
    for file, count in zip(files, counts, strict=True):
        size = draw(st.tuples(st.integers(2, 6000), st.integers(2, 6000)))
        objects = tuple(_object(draw, generator, K, size, inside, boxed) for _ in range(count))
        known = sized or draw(st.booleans())
        images.append(LabelledImage(file, *(size if known else (None, None)), objects))
    if not any(thing.visible.any() for image in images for thing in image.objects):
        images[-1] = LabelledImage(
            images[-1].file, images[-1].width, images[-1].height, (LabelledObject(np.ones((K, 2))),)
        )
    return LabelSet(names, skeleton, draw(text), images)


def _object(
    draw: st.DrawFn, generator: np.random.Generator, K: int, size: tuple[int, int], inside: bool, boxed: bool
) -> LabelledObject:
    low, high = (0.0, 1.0) if inside else (-0.5, 1.5)
    points = generator.uniform(low, high, (K, 2)) * size
    corners = np.sort(generator.uniform(low, high, (2, 2)) * size, axis=0)
    sides = np.maximum(corners[1] - corners[0], 0.1)
    start = np.minimum(corners[0], np.subtract(size, sides)) if inside else corners[0]
    has_box, has_scores, has_score = boxed or draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    return LabelledObject(
        points,
        visible=generator.random(K) < draw(st.sampled_from([0.0, 0.5, 1.0])),
        occluded=generator.random(K) < draw(st.sampled_from([0.0, 0.5])),
        scores=generator.random(K) if has_scores else None,
        box=(*start, *sides) if has_box else None,
        score=generator.random() if has_score else None,
    )


def round_trip(labels: LabelSet, format: str, name: str, photos: str | None = None, **options: Any) -> list[LabelSet]:
    """Write, detect, read; `photos`: the folder below the written one that must hold the photos."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        formats.write(path, labels, format, **options)
        if photos is not None:
            for image in labels.images:
                make_photo(path / photos / image.file, image.size("test"))
        assert formats.detect(path) == format
        return formats.read(path)


def make_photo(path: Path, size: tuple[int, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("1", size).save(path)


def ordered_as(got: LabelSet, labels: LabelSet) -> LabelSet:
    """For formats that are folders, whose photos come by name."""
    by_file = {image.file: image for image in labels.images}
    assert sorted(image.file for image in got.images) == sorted(by_file)
    return LabelSet(labels.names, labels.skeleton, labels.category, [by_file[image.file] for image in got.images])


def only_marked(labels: LabelSet) -> LabelSet:
    """For formats in which an object without keypoints is nothing."""
    return _with_objects(labels, lambda image: [thing for thing in image.objects if thing.visible.any()])


def scored_alike(labels: LabelSet) -> LabelSet:
    """For formats in which a photo has either labels or predictions."""

    def alike(image: LabelledImage) -> list[LabelledObject]:
        keep = all(thing.scores is not None for thing in image.objects)
        return [
            LabelledObject(thing.keypoints, thing.visible, thing.occluded, thing.scores if keep else None)
            for thing in image.objects
        ]

    return _with_objects(labels, alike)


def with_boxes(labels: LabelSet) -> LabelSet:
    """For formats in which an object must have a box."""

    def boxed(thing: LabelledObject) -> LabelledObject:
        box = thing.extent if thing.extent and min(thing.extent[2:]) > 5e-4 else None
        return LabelledObject(thing.keypoints, thing.visible, thing.occluded, thing.scores, box, thing.score)

    return _with_objects(labels, lambda image: [boxed(thing) for thing in image.objects])


def _with_objects(labels: LabelSet, change: Callable[[LabelledImage], list[LabelledObject]]) -> LabelSet:
    images = [LabelledImage(image.file, image.width, image.height, tuple(change(image))) for image in labels.images]
    return LabelSet(labels.names, labels.skeleton, labels.category, images)


def assert_same(got: LabelSet, want: LabelSet, without: str = "") -> None:
    """All that a format keeps is there; `without` lists what it cannot keep."""
    lost = set(without.split())
    assert lost <= {"sizes", "skeleton", "category", "occluded", "scores", "score", "box"}
    assert got.names == want.names
    assert "skeleton" in lost or got.skeleton == want.skeleton
    assert "category" in lost or got.category == want.category
    assert [image.file for image in got.images] == [image.file for image in want.images]
    for there, here in zip(got.images, want.images, strict=True):
        assert "sizes" in lost or (there.width, there.height) == (here.width, here.height)
        assert len(there.objects) == len(here.objects)
        for one, other in zip(there.objects, here.objects, strict=True):
            np.testing.assert_array_equal(one.visible, other.visible)
            np.testing.assert_allclose(one.keypoints, other.keypoints, rtol=0, atol=TOLERANCE)
            if "occluded" not in lost:
                np.testing.assert_array_equal(one.occluded, other.occluded)
            if "scores" not in lost and other.visible.any():
                assert (one.scores is None) == (other.scores is None)
                np.testing.assert_allclose(*(x.scores if x.scores is not None else 0 for x in (one, other)), atol=1e-6)
            if "score" not in lost:
                assert (one.score is None) == (other.score is None)
                np.testing.assert_allclose(one.score or 0, other.score or 0, atol=1e-6)
            if "box" not in lost:
                assert (one.box is None) == (other.box is None)
                np.testing.assert_allclose(one.box or 0, other.box or 0, rtol=0, atol=2 * TOLERANCE)


def cow() -> LabelSet:
    """A small label set to look at by eye: two photos, three objects, a hidden and an absent keypoint."""
    first = LabelledObject(
        [[10, 20], [30.5, 40.25], [0, 0]], [1, 1, 0], [0, 1, 0], [0.9, 0.8, 0.0], (5, 10, 40, 50), 0.85
    )
    second = LabelledObject([[50, 60], [70, 80], [90, 55]], scores=[0.5, 0.6, 0.7], box=(45, 50, 50, 40), score=0.6)
    third = LabelledObject([[1, 2], [3, 4], [5, 6]], scores=[0.1, 0.2, 0.3], box=(0, 0, 10, 10), score=0.2)
    images = [LabelledImage("cow 1.png", 100, 120, (first, second)), LabelledImage("cow2.png", 64, 48, (third,))]
    return LabelSet(["left eye", "Nüster", "tail"], [(0, 1), (1, 2)], "cow", images)


def cow_with_photos(folder: Path) -> LabelSet:
    for image in cow().images:
        make_photo(folder / image.file, image.size("test"))
    return cow()


@st.composite
def poses(draw: st.DrawFn, size: tuple[int, int]) -> list[Pose]:
    """On photos of that size; of each pose at least one keypoint was found."""
    K = draw(st.integers(2, 6))
    names = tuple(draw(st.lists(text, min_size=K, max_size=K, unique=True)))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    made = []
    for found in draw(st.lists(st.lists(st.booleans(), min_size=K, max_size=K).filter(any), min_size=1, max_size=3)):
        points = np.where(np.array(found)[:, None], generator.uniform(0, 1, (K, 2)) * size, np.nan).astype(np.float32)
        scores = np.where(found, generator.random(K), 0).astype(np.float32)
        made.append(Pose(points, scores, (0.0, 0.0, float(size[0]), float(size[1])), points, names, ((0, 1),)))
    return made
