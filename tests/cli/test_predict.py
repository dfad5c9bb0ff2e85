from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgecape import formats
from edgecape.batch.outputs import least_certain
from edgecape.cli.main import main
from edgecape.cli.predict import predict
from edgecape.examples import lamp
from edgecape.examples.lamps import draw_lamp
from edgecape.formats.labels import Entry
from edgecape.io.images import load_image
from edgecape.io.video import read_frames, write_video
from edgecape.types import Pose, Prompt

from toy import estimator, write_lamps


@pytest.fixture
def model(monkeypatch):
    made = estimator()
    monkeypatch.setattr("edgecape.predictor.EdgeCape.from_pretrained", lambda source=None: made)
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("photos")
    write_lamps(where, 5)
    return where


@pytest.fixture
def support(folder: Path, tmp_path: Path) -> Path:
    content = json.loads((folder / "lamps.json").read_text())
    points = np.array(content["annotations"][0]["keypoints"]).reshape(-1, 3)[:, :2].tolist()
    entry = {"image": str(folder / "1000.png"), "keypoints": points, "skeleton": content["categories"][0]["skeleton"]}
    path = tmp_path / "lamp.json"
    path.write_text(json.dumps(entry))
    return path


@pytest.fixture
def seen(model, monkeypatch) -> list:
    """Every image that the model is asked to look at."""
    images: list = []
    predict = model.predict

    def record(prompt, asked, *rest, **options):
        return predict(prompt, (images.append(image) or image for image in asked), *rest, **options)

    monkeypatch.setattr(model, "predict", record)
    return images


def temporary(folder: Path) -> list[Path]:
    """What a write that was not finished would leave."""
    return [path for path in folder.rglob("*") if path.name.startswith(".")]


@pytest.mark.parametrize("format", ["csv", "coco", "deeplabcut", "labelstudio", "labelme", "yolo"])
def test_a_folder_in_any_format(model, folder, support, tmp_path, capsys, format):
    out = tmp_path / "out"
    assert main(["predict", str(folder), "--support", str(support), "-o", str(out), "--format", format, "--draw"]) == 0
    said = capsys.readouterr().out
    target = out / {"csv": "predictions.csv", "deeplabcut": "predictions.csv", "labelme": "predictions",
                    "yolo": "predictions"}.get(format, "predictions.json")  # fmt: skip
    assert "5 done" in said and "0 failed" in said and f"{target}\n" in said and str(out / "drawn") in said
    assert target.exists()
    assert len(list((out / "drawn").rglob("*.jpg"))) == 5 and not temporary(out)


def test_the_file_holds_what_the_api_gives(model, folder, support, tmp_path):
    out = tmp_path / "out"
    main(["predict", str(folder / "1001.png"), "--support", str(support), "-o", str(out), "--format", "coco"])
    from edgecape.formats.supports import read_supports

    pose = model.predict(model.prompt(read_supports(support).supports), [folder / "1001.png"])[0]
    (labels,) = formats.read(out / "predictions.json")
    np.testing.assert_allclose(labels.images[0].objects[0].keypoints, pose.keypoints, atol=1e-2)


def test_points_on_the_command_line_and_a_label_file(model, folder, tmp_path):
    out = tmp_path / "out"
    photo, other = str(folder / "1000.png"), str(folder / "1001.png")
    given = ["--points", "100,200 150,120 90,90", "--edges", "0-1 1-2"]
    assert main(["predict", other, "--support", photo, *given, "-o", str(out / "a")]) == 0
    assert main(["predict", other, "--support", str(folder / "lamps.json"), "-o", str(out / "b")]) == 0


def test_which_of_a_label_file_is_meant(model, folder, tmp_path, capsys):
    """One definition of two, photos that lie elsewhere, and what the reader decided is told."""
    labels = tmp_path / "labels.json"
    content = json.loads(write_lamps(tmp_path / "both", 2, ("lamp", "light")).read_text())
    content["categories"][1]["skeleton"] = [[1, 2], [2, 3]]  # from 0 or 1? nothing tells
    labels.write_text(json.dumps(content))
    common = ["predict", str(folder / "1001.png"), "--support", str(labels), "-o", str(tmp_path / "out")]
    assert main(common) == 2
    assert "--support-category" in capsys.readouterr().err
    chosen = ["--support-category", "light", "--support-images", str(tmp_path / "both"), "--support-format", "coco"]
    assert main([*common, *chosen]) == 0
    assert "note: " in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "run.json").read_text())["looked for"]["names"][0].endswith("of light")


def test_a_saved_prompt_does_the_same(model, folder, support, tmp_path):
    saved, photo = tmp_path / "lamp.prompt", str(folder / "1001.png")
    first, second = tmp_path / "first", tmp_path / "second"
    main(["predict", photo, "--support", str(support), "-o", str(first), "--save-prompt", str(saved)])
    assert main(["predict", photo, "--support", str(saved), "-o", str(second)]) == 0
    assert (first / "predictions.csv").read_text() == (second / "predictions.csv").read_text()


def test_points_come_out_in_the_objects_of_a_box_file(model, folder, support, tmp_path):
    """A COCO file of boxes without keypoints: two objects in one photo, none in another, a third is not listed."""
    boxes = [[10, 20, 150, 160], [100, 90, 200, 210]]
    content = {
        "images": [{"id": 1, "file_name": "1001.png"}, {"id": 2, "file_name": "elsewhere/1002.png"}],
        "annotations": [{"id": n, "image_id": 1, "category_id": 1, "bbox": box} for n, box in enumerate(boxes)],
        "categories": [{"id": 1, "name": "lamp"}],
    }
    (tmp_path / "boxes.json").write_text(json.dumps(content))
    photos = [str(folder / f"{n}.png") for n in (1001, 1002, 1003)]
    out = ["-o", str(tmp_path / "out"), "--format", "coco", "--draw"]
    assert main(["predict", *photos, "--support", str(support), "--boxes", str(tmp_path / "boxes.json"), *out]) == 1
    (labels,) = formats.read(tmp_path / "out" / "predictions.json")
    found = {Path(image.file).name: [list(thing.box) for thing in image.objects] for image in labels.images}
    assert found == {"1001.png": boxes, "1002.png": []}


@pytest.fixture
def forgetful(model, monkeypatch):
    """Does not find the second keypoint, as if no support showed it."""
    predict = model.predict

    def lose(*given, **options):
        for pose in predict(*given, **options):
            pose.keypoints[1], pose.proposals[1], pose.scores[1] = np.nan, np.nan, 0
            yield pose

    monkeypatch.setattr(model, "predict", lose)


@pytest.mark.parametrize("format", [name for name, kind in formats.FORMATS.items() if kind.reader])
def test_a_keypoint_that_is_not_found(forgetful, folder, support, tmp_path, capsys, format):
    out = tmp_path / "out"
    common = ["predict", str(folder), "--support", str(support), "-o", str(out), "--format", format, "--draw"]
    assert main(common) == 0
    said = capsys.readouterr().out
    assert main(common) == 0
    assert "5 done before" in (again := capsys.readouterr().out)
    assert said.split("look first at")[1] == again.split("look first at")[1]  # parts keep what was not found
    target = out / f"predictions{formats.FORMATS[format].suffix}"
    if format == "yolo":
        for photo in folder.glob("*.png"):
            os.makedirs(target / "images", exist_ok=True)
            Image.open(photo).save(target / "images" / photo.name)
    (labels,) = formats.read(target)
    assert len(labels.images) == 5
    for image in labels.images:
        visible = image.objects[0].visible
        assert visible.any() and not visible[1]
        assert format in ("yolo", "labelstudio") or visible.sum() == len(labels.names) - 1  # those drop what is outside


def test_the_least_certain_are_named_by_what_was_found():
    def searched(file: str, *scores: float) -> Entry:
        points = np.array([(1, 1) if score else (np.nan, np.nan) for score in scores], dtype=np.float32)
        pose = Pose(points, np.array(scores, dtype=np.float32), (0, 0, 9, 9), points)
        return Entry(file, (9, 9), [pose])

    entries = [searched("a", 0.9, 0), searched("b", 0.5, 0.5), searched("c", 0.8, 0.8), searched("d", 0.2, 0.2)]
    found = least_certain(entries)
    assert [file for _, file in found.lowest] == ["d", "b", "c"] and found.mean == pytest.approx(0.6)
    assert least_certain(entries[:3]).lowest == []


def test_the_help_names_every_format():
    assert all(f" {name}" in predict.__doc__ for name in formats.FORMATS)


# --- stopping and going on -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_stopped_run_goes_on(model, seen, folder, support, tmp_path, capsys, monkeypatch, stop):
    def arguments(out):
        common = ["predict", str(folder), "--support", str(support), "--draw"]
        return [*common, "--batch-size", "2", "--shard-size", "2", "-o", str(tmp_path / out)]

    assert main(arguments("whole")) == 0
    seen.clear()
    locate = model.runtime.locate
    monkeypatch.setattr(model.runtime, "locate", lambda *given: stopping(stop) if len(seen) > 2 else locate(*given))
    if stop is KeyboardInterrupt:
        assert main(arguments("out")) == 130
        assert "the same command goes on" in capsys.readouterr().err
    else:
        with pytest.raises(stop):
            main(arguments("out"))
    out = tmp_path / "out"
    assert not (out / "predictions.csv").exists() and not temporary(out / "parts")
    assert [path.name for path in (out / "parts").iterdir()] == ["part-00000.jsonl"]
    monkeypatch.setattr(model.runtime, "locate", locate)
    capsys.readouterr()
    seen.clear()
    assert main(arguments("out")) == 0
    assert "3 done" in (said := capsys.readouterr().out) and "2 done before" in said
    assert [path.name for path in seen] == ["1002.png", "1003.png", "1004.png"]
    assert (out / "predictions.csv").read_bytes() == (tmp_path / "whole" / "predictions.csv").read_bytes()
    assert len(list((out / "drawn").rglob("*.jpg"))) == 5


def stopping(kind: type[BaseException]) -> None:
    raise kind


def test_a_finished_run_is_extended_and_written_in_another_format(model, seen, folder, support, tmp_path, capsys):
    common = ["--support", str(support), "-o", str(tmp_path / "out")]
    (tmp_path / "late.png").write_bytes(b"not yet")
    photos = [str(folder / "1001.png"), str(tmp_path / "late.png")]
    assert main(["predict", *photos, *common]) == 1
    Image.open(folder / "1002.png").save(tmp_path / "late.png")
    seen.clear()
    assert main(["predict", *photos, *common, "--format", "coco"]) == 0
    assert [path.name for path in seen] == ["late.png"] and "1 done before" in capsys.readouterr().out
    seen.clear()
    assert main(["predict", *photos, str(folder / "1003.png"), *common, "--format", "coco"]) == 0
    assert [path.name for path in seen] == ["1003.png"]
    (labels,) = formats.read(tmp_path / "out" / "predictions.json")
    assert sorted(Path(image.file).name for image in labels.images) == ["1001.png", "1003.png", "late.png"]


def test_a_photo_that_fails_again_and_again_adds_nothing(model, folder, support, tmp_path, capsys):
    (tmp_path / "bad.png").write_bytes(b"no picture")
    photos = [str(folder / "1001.png"), str(tmp_path / "bad.png")]
    out = tmp_path / "out"
    for _ in range(4):
        assert main(["predict", *photos, "--support", str(support), "-o", str(out)]) == 1
        assert "1 failed" in capsys.readouterr().out
    assert len(list((out / "lists").iterdir())) == len(list((out / "parts").iterdir())) == 2
    (tmp_path / "bad.png").unlink()  # what is no longer asked for is no failure
    assert main(["predict", photos[0], "--support", str(support), "-o", str(out)]) == 0


def test_a_photo_that_was_replaced_is_done_again(model, seen, folder, support, tmp_path, capsys):
    photo = tmp_path / "photo.png"
    arguments = ["predict", str(photo), "--support", str(support), "-o", str(tmp_path / "out"), "--draw"]
    photo.write_bytes((folder / "1001.png").read_bytes())
    assert main(arguments) == 0
    first = (tmp_path / "out" / "predictions.csv").read_text()
    seen.clear()
    os.utime(photo, (1, 1))  # touched, but the same
    assert main(arguments) == 0
    assert not seen
    photo.write_bytes((folder / "1002.png").read_bytes())
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert seen == [photo] and "1 photos are not what they were" in said
    again = (tmp_path / "out" / "predictions.csv").read_text()
    assert again != first and len(again.splitlines()) == len(first.splitlines())


def test_overwrite_starts_over(model, seen, folder, support, tmp_path):
    for more in ([], [], ["--overwrite"]):
        assert main(["predict", str(folder), "--support", str(support), "-o", str(tmp_path / "out"), *more]) == 0
    assert len(seen) == 10


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--support", "PHOTO", "--points", "100,200 150,120"], "another support photo or marks"),
        (["--support", "SUPPORT", "--boxes", "LAMPS"], "another boxes"),
        (["--support", "LAMPS"], "names of keypoints"),
    ],
)
def test_another_support_does_not_mix_with_what_is_there(model, folder, support, tmp_path, capsys, change, said):
    photo, out = str(folder / "1001.png"), tmp_path / "out"
    assert main(["predict", photo, "--support", str(support), "-o", str(out)]) == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.suffix != ".lock"}
    places = {"PHOTO": folder / "1000.png", "SUPPORT": support, "LAMPS": folder / "lamps.json"}
    other = [str(places.get(word, word)) for word in change]
    assert main(["predict", photo, *other, "-o", str(out)]) == 2
    assert said in (told := capsys.readouterr().err) and "--overwrite" in told
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.suffix != ".lock"}
    assert main(["predict", photo, *other, "-o", str(out), "--overwrite"]) == 0


def test_a_format_that_fails_loses_nothing(model, folder, support, tmp_path, capsys, monkeypatch):
    def fail(*_):
        raise formats.DataError("the disk is full")

    monkeypatch.setitem(formats.FORMATS, "coco", replace(formats.FORMATS["coco"], writer=fail))
    common = ["predict", str(folder), "--support", str(support), "-o", str(tmp_path / "out")]
    assert main([*common, "--format", "coco"]) == 2
    assert "the disk is full" in (said := capsys.readouterr().err) and "the same command" in said
    assert main(common) == 0
    assert "5 done before" in capsys.readouterr().out


def test_drawings_with_names(model, folder, support, tmp_path):
    """The names of the keypoints are seen in the pictures."""
    named = json.loads(support.read_text()) | {"names": [f"part {k}" for k in range(7)]}
    support.write_text(json.dumps(named))
    pixels = {}
    for option in ((), ("--names",)):
        out = tmp_path / f"out{len(option)}"
        assert main(["predict", str(folder), "--support", str(support), "-o", str(out), "--draw", *option]) == 0
        pixels[option] = [load_image(path).astype(int) for path in sorted((out / "drawn").rglob("*.jpg"))]
    changed = [np.abs(a - b).max() for a, b in zip(*pixels.values(), strict=True)]
    assert len(changed) == 5 and min(changed) > 100


def test_drawings_that_are_wanted_later(model, seen, folder, support, tmp_path, capsys):
    common = ["predict", str(folder), "--support", str(support), "-o", str(tmp_path / "out")]
    assert main(common) == 0
    seen.clear()
    assert main([*common, "--draw"]) == 0
    assert "0 done" in (said := capsys.readouterr().out.splitlines()[-4]) and "5 done before" in said
    assert not seen and len(list((tmp_path / "out" / "drawn").rglob("*.jpg"))) == 5


def test_a_photo_that_nobody_foresaw_fails_alone(model, folder, support, tmp_path, capsys, monkeypatch):
    """Whatever is raised, in the middle of a batch: the others of the batch are done."""
    prepare = model._prepare

    def fail(source, *rest):
        if Path(source).name == "1002.png":
            raise ZeroDivisionError("by chance")
        return prepare(source, *rest)

    monkeypatch.setattr(model, "_prepare", fail)
    assert main(["predict", str(folder), "--support", str(support), "-o", str(tmp_path / "out")]) == 1
    captured = capsys.readouterr()
    assert "4 done" in captured.out
    assert "1002.png cannot be done: ZeroDivisionError: by chance" in captured.err


# --- what is printed -----------------------------------------------------------------------------------------------


def test_quiet_and_json(model, folder, support, tmp_path, capsys):
    (tmp_path / "bad.png").write_bytes(b"no picture")
    photos = [str(folder), str(tmp_path / "bad.png")]
    common = ["predict", *photos, "--support", str(support), "-o", str(tmp_path / "out")]
    assert main([*common, "--quiet"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("failed: image") and captured.err.count("\n") == 1
    assert main([*common, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["done"] == 0 and said["before"] == 5 and said["left"] == 0
    assert list(said["failed"]) == [(tmp_path / "bad.png").as_posix()]
    assert said["results"] == f"{tmp_path / 'out'}/predictions.csv" and len(said["scores"]["lowest"]) == 3


def test_the_category_is_in_the_results(model, folder, support, tmp_path):
    out = ["-o", str(tmp_path / "out"), "--format", "coco", "--category", "desk lamp"]
    assert main(["predict", str(folder), "--support", str(support), *out]) == 0
    assert formats.read(tmp_path / "out" / "predictions.json")[0].category == "desk lamp"


def test_photos_without_boxes_are_told_before_the_work(model, folder, support, tmp_path, capsys):
    (tmp_path / "x.png").write_bytes((folder / "1001.png").read_bytes())
    boxes = ["--boxes", str(folder / "lamps.json"), "-o", str(tmp_path / "out")]
    assert main(["predict", str(folder), str(tmp_path / "x.png"), "--support", str(support), *boxes]) == 1
    said = capsys.readouterr().out
    assert "has no boxes for 1 of 6 photos" in said.split("loading the model")[0]


def test_a_folder_that_cannot_be_read_is_a_failure(model, folder, support, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "scandir", refusing(os.scandir, "closed"))
    (tmp_path / "photos" / "closed").mkdir(parents=True)
    (tmp_path / "photos" / "a.png").write_bytes((folder / "1001.png").read_bytes())
    assert main(["predict", str(tmp_path / "photos"), "--support", str(support), "-o", str(tmp_path / "out")]) == 1
    captured = capsys.readouterr()
    assert "1 done" in captured.out and "closed cannot be read: Permission denied" in captured.err


def refusing(scandir, name: str):
    def scan(path):
        if str(path).endswith(name):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    return scan


def test_a_reader_who_goes_away_does_not_end_a_run(folder, support, tmp_path):
    """As `edgecape predict … | head` does."""
    program = (
        "import sys, toy\n"
        "from edgecape.predictor import EdgeCape\n"
        "from edgecape.cli.main import main\n"
        "made = toy.estimator()\n"
        "EdgeCape.from_pretrained = lambda source=None: made\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    arguments = ["predict", str(folder), "--support", str(support), "-o", str(tmp_path / "out")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(Path(__file__).parents[1]), *filter(None, sys.path))),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    process.stdout.close()
    said = process.stderr.read().decode()
    assert process.wait() == 0 and "BrokenPipe" not in said
    assert (tmp_path / "out" / "predictions.csv").exists()


# --- photos as they come ---------------------------------------------------------------------------------------------


def test_a_mixed_folder(model, folder, support, tmp_path, capsys):
    """Corrupt files are named, all others are done, however odd they are."""
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    lamp = Image.open(folder / "1001.png").convert("RGB")
    lamp.save(mixed / "good.png")
    lamp.convert("CMYK").save(mixed / "print.jpg")
    exif = Image.Exif()
    exif[0x0112] = 6
    lamp.crop((0, 0, 320, 200)).transpose(Image.Transpose.ROTATE_90).save(mixed / "turned.png", exif=exif)
    Image.fromarray(np.asarray(lamp.convert("L")).astype(np.uint16) * 9).save(mixed / "grey16.png")
    Image.new("RGB", (1, 1)).save(mixed / "pixel.png")
    Image.new("1", (10000, 6000), 1).save(mixed / "sixty megapixels.png")
    whole = (mixed / "good.png").read_bytes()
    (mixed / "text.jpg").write_bytes(b"no picture")
    (mixed / "empty.png").write_bytes(b"")
    (mixed / "cut.png").write_bytes(whole[: len(whole) // 2])
    (mixed / "two\nlines.png").write_bytes(whole)
    out = tmp_path / "out"
    assert main(["predict", str(mixed), "--support", str(support), "-o", str(out), "--draw", "--format", "coco"]) == 1
    captured = capsys.readouterr()
    assert "6 done" in captured.out and "4 failed" in captured.out
    failed = [line for line in captured.err.splitlines() if line.startswith("failed: ")]
    assert len(failed) == 4
    assert all(name in captured.err for name in ("text.jpg", "empty.png", "cut.png", "two\\nlines.png"))
    (labels,) = formats.read(out / "predictions.json")
    sizes = {Path(image.file).name: (image.width, image.height) for image in labels.images}
    assert sizes == {
        **dict.fromkeys(("good.png", "print.jpg", "grey16.png"), (320, 320)),
        "turned.png": (320, 200),
        "pixel.png": (1, 1),
        "sixty megapixels.png": (10000, 6000),
    }
    drawn = {path.name: Image.open(path).size for path in (out / "drawn").rglob("*.jpg")}
    assert len(drawn) == 6 and drawn["turned.png.jpg"] == (320, 200)
    assert max(drawn["sixty megapixels.png.jpg"]) <= 2000
    assert not temporary(out)


def test_photos_of_one_name_in_two_folders_have_pictures_each(model, folder, support, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in ("a", "b", "b/c"):
        Path(place).mkdir()
        for suffix in ("png", "jpg"):
            Image.open(folder / "1001.png").convert("RGB").save(f"{place}/same.{suffix}")
    os.mkdir("here")
    monkeypatch.chdir("here")
    assert main(["predict", "../a", "../b", "--support", str(support), "--draw", "-o", "out"]) == 0
    assert len(list(Path("out/drawn").rglob("*.jpg"))) == 6
    # the pictures themselves are not taken for photos
    assert main(["predict", "..", "--support", str(support), "-o", "out"]) == 0
    with open("out/predictions.csv", newline="") as file:
        assert len({row["image"] for row in csv.DictReader(file)}) == 6


# --- videos --------------------------------------------------------------------------------------------------------


@pytest.fixture
def clip(tmp_path) -> Path:
    frames = (draw_lamp((100.0 - 2 * n, -3.0 * n, 40.0), hue=8, ground=220, seed=1)[0] for n in range(10))
    write_video(tmp_path / "clip.mp4", frames, fps=12.5)
    return tmp_path / "clip.mp4"


def test_a_video(model, folder, support, clip, tmp_path, capsys):
    out = tmp_path / "out"
    photo = str(folder / "1001.png")
    common = ["predict", str(clip), photo, "--support", str(support), "-o", str(out), "--draw", "--batch-size", "4"]
    assert main(common) == 0
    assert "11 done" in capsys.readouterr().out

    def keypoints() -> dict[str, np.ndarray]:
        (labels,) = formats.read(out / "predictions.csv")
        return {image.file: image.objects[0].keypoints for image in labels.images}

    plain = keypoints()
    assert list(plain) == [photo, *(f"{clip.as_posix()}#{n}" for n in range(10))]  # sorted
    from edgecape.formats.supports import read_supports

    poses = model.predict(model.prompt(read_supports(support).supports), list(read_frames(clip)))
    np.testing.assert_allclose(plain[f"{clip.as_posix()}#7"], poses[7].keypoints, atol=0.01)
    (drawn,) = (out / "drawn").rglob("*.mp4")
    assert len(list(read_frames(drawn))) == 10 and len(list((out / "drawn").rglob("*.jpg"))) == 1
    assert main([*common, "--smooth"]) == 0
    assert "11 done before" in capsys.readouterr().out
    steady = keypoints()
    np.testing.assert_array_equal(steady[photo], plain[photo])
    np.testing.assert_array_equal(steady[f"{clip.as_posix()}#0"], plain[f"{clip.as_posix()}#0"])
    before, after = (np.stack(list(found.values())[1:]) for found in (plain, steady))
    assert (
        0 < np.linalg.norm(np.diff(after, axis=0), axis=2).sum() < np.linalg.norm(np.diff(before, axis=0), axis=2).sum()
    )
    assert not temporary(out)


def test_a_keypoint_of_a_video_that_is_not_found(forgetful, support, clip, tmp_path):
    out = tmp_path / "out"
    assert main(["predict", str(clip), "--support", str(support), "-o", str(out), "--smooth", "--draw"]) == 0
    (labels,) = formats.read(out / "predictions.csv")
    assert all(image.objects[0].visible.tolist()[:3] == [True, False, True] for image in labels.images)
    assert len(list((out / "drawn").rglob("*.mp4"))) == 1


def test_a_damaged_video_is_named_and_the_rest_is_done(model, folder, support, clip, tmp_path, capsys):
    clip.write_bytes(clip.read_bytes()[:2000])
    files = [str(clip), str(folder / "1001.png")]
    assert main(["predict", *files, "--support", str(support), "-o", str(tmp_path / "out"), "--draw"]) == 1
    captured = capsys.readouterr()
    assert "1 done" in captured.out and f"failed: video {clip}" in captured.err


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no photo is given"),
        (["nothing-*.jpg"], "names no photo"),
        (["PHOTO"], "no support"),
        (["PHOTO", "--support", "PHOTO"], "without marks"),
        (["PHOTO", "--support", "PHOTO", "--points", "1;2"], "points are"),
        (["PHOTO", "--support", "gone.json"], "gone.json"),
        (["PHOTO", "--support", "gone.prompt"], "gone.prompt"),
        (["PHOTO", "--support", "PHOTO", "--points", "1,2", "--format", "doc"], "format 'doc' cannot be written"),
        (["PHOTO", "clip.mp4", "--support", "PHOTO", "--points", "1,2", "--format", "yolo"], "frames of clip.mp4"),
        (["PHOTO", "--support", "PHOTO", "--points", "1,2", "--smooth"], "for videos"),
        (["PHOTO", "--support", "PHOTO", "--points", "1,2", "--batch-size", "0"], "--batch-size is 0"),
        (["PHOTO", "--support", "PHOTO", "--points", "1,2", "--boxes", "gone.json"], "gone.json"),
        (["PHOTO", "--support", "PHOTO", "--points", "1,2", "-o", "clip.mp4"], "is a file"),
        (["", "--support", "PHOTO", "--points", "1,2"], "'' names no photo"),
        (["PHOTO", "--support", "PHOTO", "--support", "PHOTO", "--points", "1,2"], "photo without marks"),
        (["PHOTO", "--support", "PHOTO", "--points", "1,2", "--points", "3,4"], "2 times for 1 photos"),
        (["PHOTO", "--support", "LAMPS", "--points", "1,2"], "has its own marks"),
        (["PHOTO", "--support", "LAMPS", "--edges", "0-1"], "has its own marks"),
        (["PHOTO", "--support", "LAMPS", "--category", "two\nlines"], "not one line of text"),
        (["PHOTO", "--support", "LAMPS", "--image-ids", "LAMPS"], "is for --format coco-results"),
        (
            ["PHOTO", "--support", "LAMPS", "--image-ids", "LAMPS", "--format", "coco-results"],
            "has no category 'object'",
        ),
        (["PHOTO", "--support", "LAMPS", "--shard", "0/2"], "--shard is '0/2'"),
        (["PHOTO", "--support", "LAMPS", "--shard", "1/2", "--overwrite"], "do not go together"),
        (["PHOTO", "--support", "LAMPS", "--shard", "1/2", "--engine", "ray"], "do not go together"),
        (["PHOTO", "--support", "LAMPS", "--workers", "2"], "is for --engine ray"),
        (["PHOTO", "--support", "LAMPS", "--shard-size", "0"], "--shard-size is 0"),
        (["PHOTO", "--support", "LAMPS", "-o", "foo://bucket/out"], "foo://bucket"),
        (["s3://bucket/photos?region=x", "--support", "LAMPS"], "has a ?"),
        (["PHOTO", "--support", "PHOTO", "--points", "1,2", "-o", "clip.mp4/below"], "is a file"),
    ],
)
def test_bad_input(model, folder, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clip.mp4").touch()
    places = {"PHOTO": str(folder / "1000.png"), "LAMPS": str(folder / "lamps.json")}
    assert main(["predict", *(places.get(word, word) for word in arguments)]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["clip.mp4"]


def test_a_folder_that_cannot_be_written_to(model, folder, support, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as for anybody but root
    arguments = ["predict", str(folder), "--support", str(support), "-o", str(tmp_path / "new" / "out")]
    assert main(arguments) == 2
    assert f"nothing can be written to {tmp_path};" in capsys.readouterr().err


def test_a_folder_in_the_way(model, folder, support, tmp_path, capsys):
    (tmp_path / "out" / "run.json").mkdir(parents=True)
    assert main(["predict", str(folder), "--support", str(support), "-o", str(tmp_path / "out")]) == 2
    assert "run.json cannot be read" in capsys.readouterr().err


# --- propagation -------------------------------------------------------------------------------------------------


def test_poses_of_unmarked_photos_become_supports(model, folder, support, tmp_path, capsys):
    """The prompt is made once: a run that goes on keeps it, whatever photos have come since."""
    out, saved = tmp_path / "out", tmp_path / "lamp.prompt"
    photos = sorted(folder.glob("*.png"))
    asked = ["--support", str(support), "-o", str(out), "--propagate", "2", "--save-prompt", str(saved)]
    assert main(["predict", *map(str, photos[:3]), *asked]) == 0
    said = capsys.readouterr().out
    assert "looking for the 2 surest poses" in said and "2 of them serve as further supports" in said
    before = (out / "support.prompt").read_bytes()
    assert Prompt.load(saved).shots == 3
    assert main(["predict", str(folder), *asked]) == 0
    said = capsys.readouterr().out
    assert "surest" not in said and "3 done before" in said
    assert (out / "support.prompt").read_bytes() == before and len(formats.read(out / "predictions.csv")[0].images) == 5
    assert main(["predict", str(folder), *asked, "--propagate", "3"]) == 2
    assert "another number of propagated poses" in capsys.readouterr().err
    assert main(["predict", str(folder), "--support", str(saved), "-o", str(tmp_path / "new")]) == 0


@pytest.mark.parametrize(
    ("given", "message"), [(["--propagate", "-1"], "give a number of poses"), (["--propagate", "2"], "not a .prompt")]
)
def test_propagation_that_makes_no_sense(model, folder, tmp_path, capsys, given, message):
    saved = tmp_path / "lamp.prompt"
    model.prompt(lamp().support).save(saved)
    out = tmp_path / "out"
    assert main(["predict", str(folder), "--support", str(saved), "-o", str(out), *given]) == 2
    assert message in capsys.readouterr().err and not out.exists()
