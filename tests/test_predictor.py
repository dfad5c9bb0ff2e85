from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from edgecape import EdgeCape, Pose, Prompt, Support
from edgecape.data.objects import read_coco
from edgecape.errors import AnnotationError, ImageError, PhotoError, SettingsError, WeightsError
from edgecape.examples import lamp
from edgecape.matching.settings import MatchingSettings, ViewSettings
from edgecape.predictor import _as_support
from edgecape.runtime.torch_runtime import TorchRuntime

from toy import ToyBackbone, estimator, write_lamps

SIDE = 320


@pytest.fixture(scope="module")
def model() -> EdgeCape:
    return estimator()


@pytest.fixture(scope="module")
def support() -> Support:
    return lamp().support


@pytest.fixture(scope="module")
def prompt(model: EdgeCape, support: Support) -> Prompt:
    return model.prompt(support)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("photos")
    return [instance.image for instance in read_coco(write_lamps(folder, 6), folder).instances]


def close(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(a, b, atol=1e-4 * SIDE)


# --- prompts -----------------------------------------------------------------------------------------------------


def test_a_prompt_holds_both_graphs(prompt: Prompt, support: Support):
    K = len(support.keypoints)
    assert len(prompt) == K and prompt.graph.dtype == np.float32
    assert prompt.prior.sum() == 2 * len(support.skeleton)
    sums = prompt.graph.sum(1)
    assert (np.isclose(sums, 1, atol=1e-5) | (sums == 0)).all()
    np.testing.assert_allclose(prompt.weights, prompt.weights.T, atol=1e-6)
    assert prompt.names == support.names and prompt.skeleton == support.skeleton


def test_no_skeleton_means_fully_connected(model: EdgeCape, support: Support):
    prompt = model.prompt(Support(support.image, support.keypoints))
    K = len(prompt)
    np.testing.assert_array_equal(prompt.prior, np.ones((K, K)) - np.eye(K))
    assert prompt.skeleton is None and prompt.graph.shape == (K, K)


def test_a_saved_prompt_predicts_the_same(model: EdgeCape, prompt: Prompt, photos, tmp_path: Path):
    prompt.save(tmp_path / "lamp.prompt")
    again = Prompt.load(tmp_path / "lamp.prompt")
    assert (again.names, again.skeleton, again.shots) == (prompt.names, prompt.skeleton, prompt.shots)
    a, b = model.predict(prompt, photos[:1])[0], model.predict(again, photos[:1])[0]
    np.testing.assert_array_equal(a.keypoints, b.keypoints)


@pytest.mark.parametrize("content", [b"", b"not a prompt", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "])
def test_a_damaged_prompt(tmp_path: Path, content: bytes):
    path = tmp_path / "bad.prompt"
    path.write_bytes(content)
    with pytest.raises(AnnotationError, match=r"bad\.prompt"):
        Prompt.load(path)
    with pytest.raises(AnnotationError, match="does not exist"):
        Prompt.load(tmp_path / "gone.prompt")


def test_another_model_s_prompt_is_refused(prompt: Prompt, photos):
    with pytest.raises(AnnotationError, match="another model"):
        estimator(seed=1).predict(prompt, photos[:1])


@pytest.mark.parametrize("matching", [None, MatchingSettings()], ids=["averaged", "each on its own"])
def test_a_keypoint_missing_in_one_shot_comes_from_the_others(matching, photos):
    model = estimator(matching=matching)
    data = read_coco(photos[0].parent / "lamps.json", photos[0].parent)
    shots = [Support(i.image, i.keypoints, data.categories[0].edges) for i in data.instances[:3]]
    three = model.prompt(shots)
    assert three.shots == 3
    hidden = np.ones(7, dtype=bool)
    hidden[2] = False
    partly = [shots[0], Support(shots[1].image, shots[1].keypoints, shots[1].skeleton, visible=hidden)]
    two, one = model.prompt(partly), model.prompt(shots[:1])
    assert len(two.tokens) == (1 if matching is None else 2)
    np.testing.assert_allclose(two.tokens[-1, 0, 2], one.tokens[0, 0, 2], atol=1e-5)
    assert not np.allclose(two.tokens[-1, 0, 1], one.tokens[0, 0, 1], atol=1e-3)


MIRROR = ViewSettings(mirror=True)


def seeing(look: ViewSettings, **changes) -> EdgeCape:
    return estimator(matching=MatchingSettings(views=look), **changes)


def same_after_saving(model: EdgeCape, prompt: Prompt, photos, path: Path) -> None:
    prompt.save(path)
    for a, b in zip(model.predict(prompt, photos), model.predict(Prompt.load(path), photos), strict=True):
        assert np.array_equal(a.keypoints, b.keypoints)


def counted(model: EdgeCape) -> list[int]:
    """Grows by the number of pictures at each pass of the backbone."""
    seen: list[int] = []
    features = model.runtime.features
    model.runtime.features = lambda frames: (seen.append(len(frames)), features(frames))[1]
    return seen


def test_effort_says_how_often_a_photo_is_looked_at(support: Support, photos):
    model = seeing(replace(MIRROR, mirror_query=True))
    prompt, seen, photos = model.prompt(support), counted(model), photos[:4]
    ways = {effort: model.predict(prompt, photos, batch_size=2, effort=effort) for effort in ("fast", "best")}
    assert seen == [2, 2] + [2, 2, 2, 2]  # the mirror image too
    for effort, poses in ways.items():
        assert {pose.effort for pose in poses} == {effort}
    assert any(not np.allclose(a.keypoints, b.keypoints) for a, b in zip(*ways.values(), strict=True))
    for margin, expected in ((-1e9, "fast"), (1e9, "best")):
        sure = seeing(replace(MIRROR, mirror_query=True, auto_margin=margin, auto_fit=-1e9))
        poses = sure.predict(sure.prompt(support), photos)
        assert {pose.effort for pose in poses} == {expected}
        for found, one in zip(poses, ways[expected], strict=True):
            close(found.keypoints, one.keypoints)
    with pytest.raises(SettingsError, match="effort is 'most'"):
        model.predict(prompt, photos, effort="most")


def test_what_was_seen_of_a_support_is_not_computed_again(support: Support, photos):
    model = seeing(replace(MIRROR, scales=(1.0, 0.85)))
    seen = counted(model)
    first = model.prompt(support)
    assert seen == [4]
    edges = [edge for edge in support.skeleton if edge != support.skeleton[0]]
    changed = model.prompt(Support(support.image, support.keypoints, edges, names=support.names))
    moved = model.prompt(Support(support.image, support.keypoints * 0.99, support.skeleton))
    assert seen == [4]
    assert np.array_equal(changed.tokens, first.tokens) and not np.array_equal(changed.prior, first.prior)
    assert not np.array_equal(moved.tokens, first.tokens)
    other = Support(photos[0], support.keypoints, support.skeleton)
    both = model.prompt([support, other])
    assert seen == [4, 4]
    fresh = seeing(replace(MIRROR, scales=(1.0, 0.85))).prompt([support, other])
    close(both.tokens, fresh.tokens)
    model.runtime.forget()
    model.prompt(support)
    assert seen == [4, 4, 4]


def test_mirror_images_and_crop_scales_are_part_of_the_prompt(support: Support, photos, tmp_path: Path):
    model = seeing(replace(MIRROR, scales=(1.0, 0.85)))
    prompt = model.prompt(support)
    assert prompt.tokens.shape[:3] == (1, 2, 7)
    upright, mirrored = prompt.places[0]
    # the mirror image of a place is at 1 − x, and at both sizes of the crop round the same middle
    np.testing.assert_allclose(mirrored[:, 0], 111 / 112 - upright[:, 0], atol=1e-5)
    np.testing.assert_allclose(mirrored[:, 1], upright[:, 1], atol=1e-5)
    once = seeing(ViewSettings()).prompt(support)
    assert once.tokens.shape[1] == 1 and np.abs(once.tokens[0, 0] - prompt.tokens[0, 0]).max() > 1e-3
    same_after_saving(model, prompt, photos, tmp_path / "lamp.prompt")


def test_turned_supports_are_encoded_when_a_photo_asks_for_them(support: Support, photos, tmp_path: Path):
    model = seeing(replace(MIRROR, quarter_turns=True, scales=(1.0, 0.85)))
    prompt = model.prompt(support)
    assert prompt.tokens.shape[1] == 2
    seen = counted(model)
    model.predict(prompt, photos[:1], effort="fast")
    assert seen == [1]
    model.predict(prompt, photos[:1], effort="best")
    assert seen == [1, 1, 6]  # the photo, and the supports in three turns and their mirror images
    model.predict(prompt, photos[:1], effort="best")
    assert seen == [1, 1, 6, 1]
    prompt_places = model.runtime.all_views(prompt).places[0]
    x, y = seeing(MIRROR).prompt(support).places[0, 0].T  # turned ones are rendered at one scale
    last = 111 / 112
    turned = [(y, last - x), (last - x, last - y), (last - y, x)]
    ways = [way for x, y in turned for way in ((x, y), (last - x, y))]  # each, and what a mirror shows of it
    for found, expected in zip(prompt_places[2:], ways, strict=True):
        np.testing.assert_allclose(found.T, expected, atol=1e-5)
    same_after_saving(model, prompt, photos, tmp_path / "lamp.prompt")


def test_a_turned_support_looks_like_an_upright_one_at_the_turn_that_is_missing(support: Support):
    model = seeing(replace(MIRROR, quarter_turns=True))
    height, width = np.asarray(support.image).shape[:2]
    x, y = support.keypoints.T
    places = [(x, y), (y, width - 1 - x), (width - 1 - x, height - 1 - y), (height - 1 - y, x)]
    upright = model.prompt(support)
    for quarters in (1, 2, 3):
        image = np.ascontiguousarray(np.rot90(np.asarray(support.image), quarters))
        prompt = model.prompt(Support(image, np.stack(places[quarters], axis=1), support.skeleton))
        tokens = model.runtime.all_views(prompt).tokens[0, 0::2]
        away = [np.abs(turned - upright.tokens[0, 0]).mean() for turned in tokens]
        assert np.argmin(away) == 4 - quarters


def test_names_that_say_left_and_right_are_understood(support: Support, photos, tmp_path: Path):
    model = seeing(MIRROR)
    assert support.names is not None and support.names[:2] == ("foot left", "foot right")

    def poses(names=None, symmetry=None) -> np.ndarray:
        shown = Support(support.image, support.keypoints, support.skeleton, names=names, symmetry=symmetry)
        prompt = model.prompt(shown)
        known = names == support.names if symmetry is None else bool(symmetry)
        assert (prompt.flip_index is not None) == known
        return np.stack([pose.keypoints for pose in model.predict(prompt, photos)])

    unknown, named = poses(), poses(support.names)
    assert np.array_equal(unknown, poses(tuple(f"part {k}" for k in range(7))))
    assert not np.array_equal(unknown, named)
    assert np.array_equal(named, poses(symmetry=[(1, 0), (5, 6)]))  # said instead of named
    assert np.array_equal(unknown, poses(support.names, symmetry=[]))  # and said not to be so
    same_after_saving(model, model.prompt(support), photos, tmp_path / "named.prompt")


def test_a_keypoint_that_no_shot_shows_is_not_found_and_the_others_are(model: EdgeCape, support: Support, photos):
    """Usual in real data: v = 0 in a COCO file. Where it was said to be does not matter."""
    visible = np.ones(7, dtype=bool)
    visible[3] = False
    hidden = [
        Support(support.image, np.where(visible[:, None], support.keypoints, place), support.skeleton, visible)
        for place in (0.0, 77.0, np.nan)
    ]
    prompts = [model.prompt(one) for one in hidden]
    assert prompts[0].usable.tolist() == visible.tolist() and not prompts[0].graph[3].any()
    poses = [model.predict(prompt, photos[:1])[0] for prompt in prompts]
    for pose in poses:
        assert np.isnan(pose.keypoints[3]).all() and np.isnan(pose.proposals[3]).all() and pose.scores[3] == 0
        assert np.isfinite(pose.keypoints[visible]).all() and (pose.scores[visible] > 0).all()
        np.testing.assert_array_equal(pose.keypoints, poses[0].keypoints)
    with pytest.raises(AnnotationError, match="no keypoint is visible in any support"):
        model.prompt(Support(support.image, support.keypoints, visible=np.zeros(7, dtype=bool)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: [], "at least one"),
        (lambda s: [s, Support(s.image, s.keypoints[:3])], "3 keypoints, the first has 7"),
        (lambda s: [s, Support(s.image, s.keypoints, names=[str(k) for k in range(7)])], "different names"),
        (lambda s: [s, Support(s.image, s.keypoints, [(0, 6)])], "different skeletons"),
        (lambda s: [Support(s.image, s.keypoints, symmetry=[(0, k)]) for k in (1, 2)], "different symmetries"),
        (lambda s: [s, s.keypoints], "got a ndarray"),
        (lambda s: Support(s.image, s.keypoints + 400), "outside the photo of"),
        (lambda s: Support(s.image, s.keypoints, box=(0, 0, 30, 30)), "outside the box"),
        (lambda s: Support("gone.jpg", s.keypoints), "gone.jpg"),
        (lambda s: 5, "made of supports, got 5"),
        (lambda s: Support(s.image, s.keypoints * 0 + (-30, 100)), "outside the photo of"),  # but inside the crop
        (lambda s: Support(np.zeros((200, 320, 3), np.uint8), [(100, 250)]), "x and y exchanged"),
        (lambda s: Support(s.image, s.keypoints / 320), "between 0 and 1"),
        (lambda s: Support(s.image, s.keypoints, box=(10, 10, 0.5, 0.5)), "no larger than a pixel"),
        (lambda s: Support(s.image, s.keypoints, box=(150, 50, 310, 300)), "two corners"),
    ],
)
def test_bad_supports(model: EdgeCape, support: Support, change, message):
    with pytest.raises((AnnotationError, ImageError), match=message):
        model.prompt(change(support))


# --- prediction --------------------------------------------------------------------------------------------------


def test_the_result_is_in_pixels_of_the_photo(model: EdgeCape, prompt: Prompt, photos):
    pose = model.predict(prompt, photos[:1])[0]
    assert pose.keypoints.shape == (7, 2) and pose.keypoints.dtype == np.float32
    assert pose.scores.shape == (7,) and ((pose.scores >= 0) & (pose.scores <= 1)).all()
    assert pose.box == (0.0, 0.0, 320.0, 320.0) and pose.proposals.shape == (7, 2)
    margin = 0.125 * SIDE  # the crop is a quarter larger than the box
    assert (pose.keypoints > -margin - 1).all() and (pose.keypoints < SIDE + margin + 1).all()


def test_it_finds_the_keypoints_of_the_support_on_the_support(model: EdgeCape, prompt: Prompt, support: Support):
    found = model.predict(prompt, [support.image])[0].keypoints
    assert np.median(np.linalg.norm(found - support.keypoints, axis=1)) < 0.12 * SIDE
    assert np.ptp(found, axis=0).min() > 0.2 * SIDE


def test_alone_and_in_a_batch_of_32(model: EdgeCape, prompt: Prompt, photos):
    many = list(itertools.islice(itertools.cycle(photos), 32))
    alone = [model.predict(prompt, [photo])[0] for photo in photos]
    for pose, one in zip(model.predict(prompt, many, batch_size=32), itertools.cycle(alone), strict=False):
        close(pose.keypoints, one.keypoints)
        np.testing.assert_allclose(pose.scores, one.scores, atol=1e-4)


def test_path_pil_and_array_are_the_same(model: EdgeCape, prompt: Prompt, photos):
    picture = Image.open(photos[0])
    poses = model.predict(prompt, [photos[0], str(photos[0]), picture, np.asarray(picture)])
    for pose in poses[1:]:
        close(pose.keypoints, poses[0].keypoints)
    close(model.predict(prompt, np.asarray(picture))[0].keypoints, poses[0].keypoints)


@pytest.mark.parametrize("orientation", [3, 6, 8])
def test_an_exif_rotated_twin(model: EdgeCape, prompt: Prompt, photos, tmp_path, orientation):
    upright = Image.open(photos[0]).convert("RGB")
    turn = {3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}[orientation]
    twin = upright.transpose(turn)
    exif = Image.Exif()
    exif[0x0112] = orientation
    twin.save(tmp_path / "twin.png", exif=exif)
    close(*(model.predict(prompt, [photo])[0].keypoints for photo in (upright, tmp_path / "twin.png")))


def test_a_photo_pasted_elsewhere_gives_the_same_pose_there(model: EdgeCape, prompt: Prompt, photos):
    """A box is looked at as if it were the photo; only what lies round it differs, and here that is black as well."""
    photo = np.asarray(Image.open(photos[0]))
    canvas = np.zeros((800, 900, 3), dtype=np.uint8)
    canvas[200:520, 300:620] = photo
    here = model.predict(prompt, [photo])[0].keypoints
    there = model.predict(prompt, [canvas], boxes=[(300, 200, 320, 320)])[0].keypoints
    close(there, here + (300, 200))


def test_boxes_one_several_or_none(model: EdgeCape, prompt: Prompt, photos):
    boxes = [None, (10, 10, 200, 200), [(10, 10, 200, 200), (50, 60, 100, 80)], []]
    whole, one, two, nothing = model.predict(prompt, photos[:4], boxes=boxes)
    assert whole.box == (0, 0, 320, 320) and one.box == (10, 10, 200, 200)
    assert [pose.box for pose in two] == [(10, 10, 200, 200), (50, 60, 100, 80)] and nothing == []
    close(two[0].keypoints, model.predict(prompt, photos[2:3], boxes=[(10, 10, 200, 200)])[0].keypoints)
    with pytest.raises(AnnotationError, match="no area"):
        model.predict(prompt, photos[:1], boxes=[(1, 1, 0, 5)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": 2.0}, "batch_size is 2.0"),
        ({"errors": "ignore"}, "errors is 'ignore'"),
        ({"boxes": [(0, 0, 9, 9)]}, "1 entries in boxes for 2 images"),
        ({"boxes": iter([(0, 0, 9, 9)])}, "boxes has 1 entries, but there are more images"),
        ({"boxes": iter([None] * 3)}, "more entries than there are images"),
        ({"boxes": (0, 0, 9, 9)}, "one entry per image"),
        ({"boxes": 5}, "boxes is 5"),
        ({"boxes": np.array("x")}, "boxes is array"),
        ({"boxes": [np.array("x"), None]}, "the boxes of an image are"),
        ({"boxes": [[(0, 0, 9, 9), (1, 2)], None]}, "a box is"),
        ({"boxes": ["left", None]}, "a box is|the boxes of an image are"),
        ({"boxes": [5, None]}, "got 5"),
        ({"boxes": "boxes.json"}, "boxes is 'boxes.json'; give one entry per image"),
        ({"boxes": {"a.jpg": (0, 0, 9, 9)}}, "boxes is {'a.jpg'"),
        ({"boxes": np.ones((3, 4))}, "3 entries in boxes for 2 images"),
        ({"boxes": [(10**400, 0, 9, 9), None]}, r"image .*1000.*: a box is \(x, y, w, h\)"),
        ({"boxes": [(900, 0, 90, 90), None]}, "image .*1000.*: box .* lies outside the photo of 320 × 320"),
        ({"boxes": [(200, 100, 310, 300), None]}, "two corners; a box is .* give .200, 100, 110, 200."),
        ({"boxes": [(0.1, 0.1, 0.5, 0.5), None]}, "no larger than a pixel"),
        ({"batch_size": "8"}, "batch_size is '8'"),
        ({"batch_size": 10**30}, "batch_size is 1000.*; give a whole number from 1 to 100000"),
        ({"batch_size": True}, "batch_size is True"),
        ({"errors": np.array(["raise", "raise"])}, "errors is array"),
        ({"errors": None}, "errors is None"),
        ({"images": 5}, "got 5"),
        ({"images": b"\xff\xd8"}, "images must be .* got b"),
        ({"images": {"a.jpg": 1}}, "images must be"),
        ({"images": np.zeros((3, 40, 40))}, r"images must be .* got an array of shape \(3, 40, 40\)"),
        ({"prompt": None}, "takes a prompt first, got a NoneType"),
    ],
)
def test_arguments_that_make_no_sense(model: EdgeCape, prompt: Prompt, photos, arguments, message):
    with pytest.raises((AnnotationError, SettingsError), match=message):
        model.predict(**{"prompt": prompt, "images": photos[:2], **arguments})


def test_a_support_is_no_prompt(model: EdgeCape, support: Support, photos):
    with pytest.raises(AnnotationError, match=r"got a Support; make one of it with model\.prompt"):
        model.predict(support, photos[:1])  # type: ignore[call-overload]


def test_one_image_takes_its_own_boxes(model: EdgeCape, prompt: Prompt, photos):
    (one,) = model.predict(prompt, photos[0], boxes=(10, 10, 200, 200))
    (several,) = model.predict(prompt, photos[0], boxes=[(10, 10, 200, 200), (50, 60, 100, 80)])
    assert one.box == (10, 10, 200, 200) and len(several) == 2


def test_a_prompt_of_the_same_weights_with_other_settings_is_refused(support: Support, photos):
    mirrored, plain = (seeing(look) for look in (MIRROR, ViewSettings()))
    plain.torch_runtime.network.load_state_dict(mirrored.torch_runtime.network.state_dict())
    with pytest.raises(AnnotationError, match="another model"):
        EdgeCape(TorchRuntime(plain.torch_runtime.network, ToyBackbone(), "toy")).predict(
            mirrored.prompt(support), photos[:1]
        )


def test_it_can_be_moved(model: EdgeCape, prompt: Prompt, photos):
    assert model.to("cpu") is model
    close(model.predict(prompt, photos[:1])[0].keypoints, model.predict(prompt, photos[:1])[0].keypoints)


def test_a_stream_reads_one_batch_while_another_is_computed(model: EdgeCape, prompt: Prompt, photos):
    taken = []

    def endless():
        for number in itertools.count():
            taken.append(number)
            yield photos[number % len(photos)]

    stream = model.predict(prompt, endless(), batch_size=4)
    assert taken == []
    first = next(stream)
    assert len(taken) <= 8
    close(first.keypoints, model.predict(prompt, photos[:1])[0].keypoints)


def test_bad_images_raise_or_take_their_place(model: EdgeCape, prompt: Prompt, photos, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8 not really")
    images = [photos[0], tmp_path / "broken.jpg", photos[1]]
    with pytest.raises(ImageError, match=r"broken\.jpg"):
        model.predict(prompt, images)
    first, error, last = model.predict(prompt, images, errors="return")
    assert isinstance(error, ImageError)
    close(last.keypoints, model.predict(prompt, photos[1:2])[0].keypoints)
    assert first.keypoints.shape == (7, 2)


class Odd:
    """A list of boxes that fails in a way nobody foresaw."""

    def __iter__(self):
        raise MemoryError("too much")


def test_whatever_goes_wrong_with_a_photo_is_its_own_failure(model: EdgeCape, prompt: Prompt, photos):
    boxes = [None, Odd(), (0, 0, 0, 5), [(900, 900, 50, 50)]]
    first, odd, flat, outside = model.predict(prompt, photos[:4], boxes, errors="return")
    assert isinstance(first, Pose)
    assert isinstance(odd, PhotoError) and isinstance(odd.__cause__, MemoryError)
    assert str(odd) == f"image {photos[1]} could not be used: MemoryError: 'too much'"
    assert isinstance(flat, AnnotationError) and str(photos[2]) in str(flat)
    assert isinstance(outside, AnnotationError) and str(photos[3]) in str(outside)
    with pytest.raises(PhotoError, match="could not be used"):
        model.predict(prompt, photos[:4], boxes)
    assert len(model.predict(prompt, photos[:2], batch_size=np.int64(2))) == 2


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (2000, 3), (33, 500), (1, 40_000), (40_000, 1), (3, 70_000)])
def test_photos_of_any_size(model: EdgeCape, prompt: Prompt, shape):
    pose = model.predict(prompt, [np.full((*shape, 3), 127, dtype=np.uint8)])[0]
    assert np.isfinite(pose.keypoints).all() and np.isfinite(pose.scores).all()


def test_a_photo_and_its_enlargement_agree(model: EdgeCape, prompt: Prompt, photos):
    """Large photos are made smaller without noise."""
    photo = Image.open(photos[0]).convert("RGB")
    large = photo.resize((320 * 9, 320 * 9), Image.Resampling.BICUBIC)
    small_pose, large_pose = (model.predict(prompt, [picture])[0].proposals for picture in (photo, large))
    assert np.median(np.linalg.norm(large_pose / 9 - small_pose, axis=1)) < 0.05 * SIDE


def test_several_threads_get_what_one_gets(model: EdgeCape, prompt: Prompt, photos):
    alone = [model.predict(prompt, [photo])[0].keypoints for photo in photos]
    results: dict[int, np.ndarray] = {}

    def work(index: int) -> None:
        results[index] = model.predict(prompt, [photos[index]])[0].keypoints

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(photos))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, keypoints in enumerate(alone):
        close(results[index], keypoints)


# --- saving ------------------------------------------------------------------------------------------------------


def use_backbone(monkeypatch: pytest.MonkeyPatch, model: EdgeCape, called: str) -> None:
    found = (model.torch_runtime.backbone, called)
    monkeypatch.setattr("edgecape.runtime.torch_runtime.load_backbone", lambda settings, state: found)


@pytest.fixture
def toy_backbone(monkeypatch: pytest.MonkeyPatch, model: EdgeCape) -> None:
    monkeypatch.setattr(
        "edgecape.runtime.torch_runtime.load_backbone", lambda settings, state: (model.torch_runtime.backbone, "toy")
    )


def test_saving_and_loading_is_bit_exact(model: EdgeCape, toy_backbone, tmp_path: Path):
    model.save_pretrained(tmp_path / "model")
    again = EdgeCape.from_pretrained(tmp_path / "model", device="cpu")
    mine, theirs = model.torch_runtime, again.torch_runtime
    assert mine.config == theirs.config and again.fingerprint == model.fingerprint
    for name, value in mine.network.state_dict().items():
        assert torch.equal(theirs.network.state_dict()[name], value)


def test_half_precision_halves_the_file(model: EdgeCape, toy_backbone, tmp_path: Path):
    model.save_pretrained(tmp_path / "full")
    model.torch_runtime.save(tmp_path / "half", dtype=torch.float16)
    full, half = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("full", "half"))
    assert half < 0.6 * full
    EdgeCape.from_pretrained(tmp_path / "half", device="cpu")


def test_another_backbone_is_said(model: EdgeCape, toy_backbone, tmp_path: Path, monkeypatch):
    model.save_pretrained(tmp_path / "model")
    monkeypatch.setattr(
        "edgecape.runtime.torch_runtime.load_backbone", lambda settings, state: (model.torch_runtime.backbone, "other")
    )
    with pytest.warns(UserWarning, match="trained on backbone toy, but other"):
        EdgeCape.from_pretrained(tmp_path / "model", device="cpu")


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "no config.json"),
        (lambda f: (f / "config.json").write_text("{"), "not a complete JSON file"),
        (lambda f: (f / "config.json").write_text('{"format": 99, "settings": {}}'), "format 99"),
        (lambda f: (f / "config.json").write_text('{"format": 1, "settings": {"wings": 2}}'), "wings"),
        (lambda f: (f / "model.safetensors").unlink(), "no model.safetensors"),
        (lambda f: (f / "model.safetensors").write_bytes(b"12345678"), "damaged"),
        (lambda f: (f / "config.json").write_text('{"format": 1, "settings": {"width": 64}}'), "do not fit"),
        (lambda f: (f / "config.json").write_text('{"format": 2, "network": {}}'), "damaged"),
        (lambda f: (f / "config.json").write_text("[]"), "damaged"),
    ],
)
def test_broken_model_folders(model: EdgeCape, toy_backbone, tmp_path: Path, break_it, message):
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    break_it(folder)
    from edgecape.errors import EdgeCapeError

    with pytest.raises(EdgeCapeError, match=message):
        EdgeCape.from_pretrained(folder)


@pytest.mark.parametrize("source", ["no-such-folder", "./no/such", "/no/such/folder", "some.pth"])
def test_no_model_there(source):
    with pytest.raises(WeightsError, match=source):
        EdgeCape.from_pretrained(source)


def test_a_hub_id_is_looked_for_in_the_cache_when_there_is_no_hub():
    with pytest.raises(WeightsError, match="'someone/something' is neither a local folder nor to be had"):
        EdgeCape.from_pretrained("someone/something")


def test_a_hub_id_reaches_the_hub(model: EdgeCape, toy_backbone, tmp_path: Path, monkeypatch):
    """A hub with one model, in the place of the real one."""
    model.save_pretrained(tmp_path / "model")
    asked = []

    def download(name: str, local_files_only: bool) -> str:
        asked.append((name, local_files_only))
        return str(tmp_path / "model")

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    for reachable in (True, False):
        monkeypatch.setattr("edgecape.weights.store.hub_reachable", lambda reachable=reachable: reachable)
        assert EdgeCape.from_pretrained("owner/some-model.v2", device="cpu").fingerprint == model.fingerprint
    assert asked == [("owner/some-model.v2", False), ("owner/some-model.v2", True)]


# --- propagation -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def matcher() -> EdgeCape:
    return estimator(matching=MatchingSettings())


def test_the_surest_poses_become_supports(matcher: EdgeCape, support: Support, photos):
    prompt = matcher.prompt(support)
    poses = matcher.predict(prompt, photos)
    surest = sorted(range(len(photos)), key=lambda index: -poses[index].score)[:2]
    marked = [Support(photos[i], poses[i].keypoints, visible=poses[i].found, box=poses[i].box) for i in surest]
    expected, found = matcher.prompt([support, *marked]), matcher.propagate(support, photos, number=2)
    for name in ("tokens", "places", "graph", "usable", "frames"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert found.names == support.names and found.skeleton == support.skeleton
    assert found.shots == 3 and matcher.predict(found, photos[:1])[0].keypoints.shape == (len(prompt), 2)


def test_propagation_takes_what_predict_takes(matcher: EdgeCape, support: Support, photos, tmp_path: Path):
    """One photo or many, several objects on one of them, photos that cannot be read, and none at all."""
    plain = matcher.prompt(support)
    assert np.array_equal(matcher.propagate(support, photos, number=0).tokens, plain.tokens)
    assert np.array_equal(matcher.propagate(support, []).tokens, plain.tokens)
    (tmp_path / "bad.png").write_bytes(b"no picture")
    assert np.array_equal(matcher.propagate(support, [tmp_path / "bad.png"]).tokens, plain.tokens)
    several = [[(0, 0, SIDE, SIDE), (10, 10, 250, 250)], None]
    assert matcher.propagate([support], photos[:2], several).shots == 4
    one = matcher.propagate(support, photos[0], (0, 0, SIDE, SIDE), number=np.int64(3))
    assert one.shots == 2
    streamed = matcher.propagate(support, iter(photos), iter([None] * len(photos)))
    assert np.array_equal(streamed.tokens, matcher.propagate(support, photos).tokens)
    for wrong in (-1, 1.5, True, "8"):
        with pytest.raises(SettingsError, match="give a whole number of poses"):
            matcher.propagate(support, photos, number=wrong)


def test_nothing_is_added_where_the_model_is_sure(matcher: EdgeCape, support: Support, photos, monkeypatch):
    plain = matcher.prompt(support)
    mean = np.mean([pose.score for pose in matcher.predict(plain, photos)])
    for limit, added in ((mean - 0.01, 0), (mean + 0.01, 3)):
        monkeypatch.setattr("edgecape.predictor.SURE", limit)
        assert matcher.propagate(support, photos, number=3).shots == 1 + added


def test_what_lies_outside_the_photo_is_no_mark(support: Support, photos):
    pose = Pose(np.array([[-3, 5], [5, 5], [np.nan, 5]]), np.full(3, 0.9), (0, 0, 9, 9), np.zeros((3, 2)))
    marked = _as_support(pose, np.zeros((9, 9, 3), np.uint8))
    assert marked is not None and marked.visible.tolist() == [False, True, False]
    assert _as_support(replace(pose, keypoints=pose.keypoints - 20), np.zeros((9, 9, 3), np.uint8)) is None
