"""Building MP-100's image tree from source folders laid out as they are downloaded."""

from __future__ import annotations

import json
import sys
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgecape.cli import data as cli
from edgecape.cli.printing import OutputOptions
from edgecape.data.assemble import AssemblyReport, Item, assemble, parse_sources, wanted_images
from edgecape.data.sources import SOURCES
from edgecape.errors import DataError
from edgecape.io import mp100
from edgecape.io.images import load_image

from coco_files import annotation, picture, write

# one image of every source, named as in MP-100's files
NAMES = (
    "human_body/000000441275.jpg",
    "human_face/helen/trainset/1427742925_1.jpg",
    "amur_tiger_body/flickr/0/image13534.jpg",
    "human_hand/12.jpg",
    "skirt/004328.jpg",
    "horse_body/000000027714.jpg",
    "macaque_body/PRI_1166.jpg",
    "fly_body/315.jpg",
    "locust_body/315.jpg",
    "woodpecker_body/Red_Headed_Woodpecker_0101_182538.jpg",
    "car/1500902961.jpg",
    "klipspringer_face/klipspringer_41.jpg",
    "bed/00000119.jpg",
    "chair/00000119.jpg",
)
ROOTS = {key: key for key in SOURCES} | {"fly": "deepposekit", "locust": "deepposekit"}


def downloaded(name: str) -> Path:
    """Where an image of MP-100 lies in the download of its source, below ROOTS[source]."""
    path, source = PurePosixPath(name), mp100.BY_FOLDER[name.split("/")[0]].source
    number = int(path.stem) if source == "carfusion" else 0
    layout = {
        "coco": f"train2017/{path.name}",
        "300w": str(PurePosixPath(*path.parts[1:])),
        "aflw": f"aflw/data/{PurePosixPath(*path.parts[1:])}",
        "onehand10k": f"Train/source/{path.name}",
        "deepfashion2": f"train/image/{path.name}",
        "ap10k": f"ap-10k/data/{path.name}",
        "macaquepose": f"v1/images/{path.name}",
        "fly": f"datasets/fly/images/{path.name}",
        "locust": f"datasets/locust/images/{path.name}",
        "cub200": f"CUB_200_2011/images/191.Red_headed/{path.name}",
        "carfusion": f"train/car_fifth1/images_jpg/{number // 10**5 % 1000}_{number % 10**5}.jpg",
        "animalweb": f"animal_dataset_v1_clean_check/{path.name}",
        "keypoint5": f"{path.parts[0]}/images/{path.name}",
    }
    return Path(layout[source])


def annotations(path: Path, names: tuple[str, ...]) -> Path:
    """An MP-100 file of these images, 8 × 6 pixels each, with one object of one keypoint at (number, 3)."""
    kinds = {name: mp100.BY_FOLDER[name.split("/")[0]] for name in names}
    content: dict[str, Any] = {
        "categories": [{"id": kind.id, "name": kind.name} for kind in {k.id: k for k in kinds.values()}.values()],
        "images": [{"id": i, "file_name": name, "width": 8, "height": 6} for i, name in enumerate(names)],
        "annotations": [annotation(i, i, kinds[name].id, [i, 3, 2]) for i, name in enumerate(names)],
    }
    return write(path, content)


def sources(root: Path, names: tuple[str, ...]) -> dict[str, Path]:
    """Source folders with these images, each of its own shade, and labels for CarFusion."""
    for number, name in enumerate(names):
        path = root / ROOTS[mp100.BY_FOLDER[name.split("/")[0]].source] / downloaded(name)
        picture(path, 8, 6, shade=number)
        if "images_jpg" in path.parts:
            label(path, f"{number},3,1,0,1")
    return {key: root / folder for key, folder in ROOTS.items() if (root / folder).is_dir()}


def label(path: Path, text: str) -> None:
    folder = path.parent.parent / "gt"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{path.stem}.txt").write_text(text)


def by_name(report: AssemblyReport) -> dict[str, Item]:
    return {item.file_name: item for item in report.items}


@pytest.mark.parametrize("copy", [False, True])
def test_everything_from_everywhere(tmp_path: Path, copy: bool) -> None:
    files = [annotations(tmp_path / "a.json", NAMES)]
    folders = sources(tmp_path / "src", NAMES)
    assert set(folders) == set(SOURCES)
    # what makes names ambiguous in the real downloads
    picture(tmp_path / "src/deepfashion2/validation/image/004328.jpg", 8, 6, 200)
    picture(tmp_path / "src/keypoint5/sofa/images/00000119.jpg", 8, 6, 200)
    picture(tmp_path / "src/onehand10k/Test/source/12.jpg", 8, 6, 200)
    picture(tmp_path / "src/300w/helen/testset/1427742925_1.jpg", 8, 6, 200)
    other = picture(tmp_path / "src/carfusion/test/car_penn1/images_jpg/9_2961.jpg", 8, 6, 200)
    label(other, "700,300,1,0,1\n")

    out = tmp_path / "out"
    report = assemble(files, folders, out, copy)
    assert report.complete
    assert {item.status for item in report.items} == {"placed"}
    assert report.problems == []
    for number, name in enumerate(NAMES):
        assert (out / name).is_symlink() != copy
        assert abs(int(load_image(out / name).mean()) - number) <= 1
    assert len([path for path in out.rglob("*") if not path.is_dir()]) == len(NAMES)  # nothing temporary is left

    before = {path: path.lstat().st_mtime_ns for path in out.rglob("*")}
    assert {item.status for item in assemble(files, folders, out, copy).items} == {"there"}
    assert {path: path.lstat().st_mtime_ns for path in out.rglob("*")} == before


def test_resumes_and_says_what_is_missing(tmp_path: Path) -> None:
    files = [annotations(tmp_path / "a.json", NAMES)]
    folders = sources(tmp_path / "src", NAMES)
    out = tmp_path / "out"
    first = assemble(files, {"coco": folders["coco"]}, out)
    assert not first.complete
    assert first.sources()["coco"] == {"placed": 1}
    assert first.sources()["keypoint5"] == {"missing": 2}
    assert "no folder given for aflw" in by_name(first)[NAMES[2]].detail
    entry = next(source for source in first.to_dict()["sources"] if source["key"] == "aflw")
    assert "tugraz" in entry["url"]
    second = assemble(files, {key: folder for key, folder in folders.items() if key != "coco"}, out)
    assert second.complete
    assert second.sources()["coco"] == {"there": 1}


def test_never_overwrites(tmp_path: Path) -> None:
    files = [annotations(tmp_path / "a.json", NAMES[:1])]
    folders = sources(tmp_path / "src", NAMES[:1])
    target = tmp_path / "out" / NAMES[0]
    target.parent.mkdir(parents=True)
    target.write_text("mine")
    for copy in (False, True):
        (item,) = assemble(files, folders, tmp_path / "out", copy).items
        assert item.status == "conflict"
        assert target.read_text() == "mine"


def test_a_dangling_link_is_renewed(tmp_path: Path) -> None:
    files = [annotations(tmp_path / "a.json", NAMES[:1])]
    folders = sources(tmp_path / "src", NAMES[:1])
    target = tmp_path / "out" / NAMES[0]
    target.parent.mkdir(parents=True)
    target.symlink_to(tmp_path / "moved away")
    assert assemble(files, folders, tmp_path / "out").complete
    assert target.is_file()


def test_nothing_is_written_through_a_linked_folder(tmp_path: Path) -> None:
    """MP-100's guide links whole source folders; writing into one would change the source."""
    names = ("human_body/1.jpg", "human_body/2.jpg")
    files = [annotations(tmp_path / "a.json", names)]
    folders = sources(tmp_path / "src", names)
    elsewhere = tmp_path / "elsewhere"
    picture(elsewhere / "1.jpg", 8, 6, 0)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/human_body").symlink_to(elsewhere)
    items = by_name(assemble(files, folders, tmp_path / "out"))
    assert items[names[0]].status == "there"
    assert items[names[1]].status == "missing"
    assert "is a link to another folder" in items[names[1]].detail
    assert [path.name for path in elsewhere.iterdir()] == ["1.jpg"]


@pytest.mark.parametrize(
    ("size", "shade", "status"), [((8, 6), 9, "ambiguous"), ((9, 6), 9, "placed"), ((8, 6), 0, "placed")]
)
def test_one_name_twice(tmp_path: Path, size: tuple[int, int], shade: int, status: str) -> None:
    """Size decides; the same content is no ambiguity; otherwise it is reported."""
    files = [annotations(tmp_path / "a.json", NAMES[:1])]
    folders = sources(tmp_path / "src", NAMES[:1])
    picture(folders["coco"] / "again" / "000000441275.JPG", *size, shade)
    (item,) = assemble(files, folders, tmp_path / "out").items
    assert item.status == status
    assert (tmp_path / "out" / NAMES[0]).exists() == (status == "placed")
    if status == "ambiguous":
        assert "again" in item.detail
        assert "train2017" in item.detail


def test_another_size_is_placed_and_reported(tmp_path: Path) -> None:
    files = [annotations(tmp_path / "a.json", NAMES[:1])]
    picture(tmp_path / "src/x/000000441275.jpg", 5, 5)
    report = assemble(files, {"coco": tmp_path / "src"}, tmp_path / "out")
    assert report.complete
    assert [item.other_size for item in report.problems] == [True]
    assert report.sources()["coco"] == {"placed": 1, "other size": 1}


@pytest.mark.parametrize(
    ("name", "path", "reason"),
    [
        ("skirt/004328.jpg", "deepfashion2/validation/image/004328.jpg", "no folder called skirt or train"),
        ("bed/00000119.jpg", "keypoint5/chair/images/00000119.jpg", "no folder called bed"),
        ("fly_body/315.jpg", "deepposekit/locust/images/315.jpg", "no folder called fly or fly_body"),
        ("human_body/1.jpg", "coco/train2017/2.jpg", "not below"),
        ("car/1500902961.jpg", "carfusion/car_penn1/images_jpg/9_2962.jpg", "no 9_2961.jpg in any sequence"),
        ("car/1500902961.jpg", "carfusion/car_penn1/images_jpg/9_2961.jpg", "gt folder does not have"),
        ("car/x.jpg", "carfusion/car_penn1/images_jpg/9_2961.jpg", "not a number"),
    ],
)
def test_what_is_not_the_image_is_not_taken(tmp_path: Path, name: str, path: str, reason: str) -> None:
    files = [annotations(tmp_path / "a.json", (name,))]
    picture(tmp_path / path, 8, 6)
    source = mp100.BY_FOLDER[name.split("/")[0]].source
    (item,) = assemble(files, {source: tmp_path / path.split("/")[0]}, tmp_path / "out").items
    assert item.status == "missing"
    assert reason in item.detail


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("car/1500902961.jpg", "renamed/car"),  # by MP-100's own script
        ("skirt/004328.jpg", "somebody/skirt"),  # an MP-100 tree
        ("human_face/helen/trainset/1427742925_1.jpg", "flat"),
    ],
)
def test_other_layouts(tmp_path: Path, name: str, folder: str) -> None:
    files = [annotations(tmp_path / "a.json", (name,))]
    picture(tmp_path / folder / name.split("/")[-1], 8, 6)
    source = mp100.BY_FOLDER[name.split("/")[0]].source
    assert assemble(files, {source: tmp_path / folder}, tmp_path / "out").complete


def test_links_in_a_source_are_followed_once(tmp_path: Path) -> None:
    files = [annotations(tmp_path / "a.json", NAMES[:1])]
    sources(tmp_path / "src", NAMES[:1])
    root = tmp_path / "linked"
    root.mkdir()
    (root / "images").symlink_to(tmp_path / "src")
    (tmp_path / "src/loop").symlink_to(tmp_path / "src")
    assert assemble(files, {"coco": root}, tmp_path / "out").complete


def test_frames_inside_hdf5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are found by their keypoints: numbers in MP-100's names are not places in the file."""
    names = ("fly_body/2.jpg", "fly_body/7.jpg")  # with keypoints at (0, 3) and (1, 3)
    files = [annotations(tmp_path / "a.json", names)]
    for name in ("fly", "locust"):
        (tmp_path / "src" / name).mkdir(parents=True)
        (tmp_path / "src" / name / "annotation_data_release.h5").write_text(name)
        (tmp_path / "src" / name / "example_annotation_set.h5").write_text("other frames")
        picture(tmp_path / "src" / name / "images/2.jpg", 8, 6, 250)  # numbered in another way
    folders = {"fly": tmp_path / "src"}

    monkeypatch.setitem(sys.modules, "h5py", None)
    report = assemble(files, folders, tmp_path / "out")
    assert {item.status for item in report.items} == {"missing"}
    assert "pip install 'edgecape[formats]'" in report.items[0].detail

    content = {
        "annotations": np.array([[[5.5, 5.5], [np.nan, -1]], [[4.0, 4.0], [0.7, 3.2]]]),
        "images": np.stack([np.full((6, 8, 1), 50, np.uint8), np.full((6, 8, 1), 100, np.uint8)]),
    }

    class File:
        def __init__(self, path: Path, mode: str):
            assert path.read_text() == "fly"

        def __enter__(self) -> dict[str, np.ndarray]:
            return content

        def __exit__(self, *error: object) -> None: ...

    monkeypatch.setitem(sys.modules, "h5py", SimpleNamespace(File=File))
    items = by_name(assemble(files, folders, tmp_path / "out"))
    assert items[names[0]].status == "placed"
    assert not items[names[0]].other_size
    assert abs(int(load_image(tmp_path / "out" / names[0]).mean()) - 100) <= 1
    assert items[names[1]].status == "missing"
    assert "no frame" in items[names[1]].detail
    assert by_name(assemble(files, folders, tmp_path / "out"))[names[0]].status == "there"


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    files = [annotations(tmp_path / "a.json", NAMES[:1])]
    folders = sources(tmp_path / "src", NAMES[:1])
    (tmp_path / "out").write_text("a file")
    with pytest.raises(DataError, match="cannot be written"):
        assemble(files, folders, tmp_path / "out")


@pytest.mark.parametrize("value", ["coco", "cocos=/tmp", "=/tmp", "coco=/none/such", "deepfashion=/tmp"])
def test_bad_sources(value: str) -> None:
    with pytest.raises(DataError, match="source") as error:
        parse_sources([value])
    if value.startswith("deepfashion"):
        assert "deepfashion2" in str(error.value)


@pytest.mark.parametrize("name", ["tiger/1.jpg", "1.jpg", "human_body/../../1.jpg", "/human_body/1.jpg"])
def test_only_mp100(tmp_path: Path, name: str) -> None:
    content = {"categories": [], "images": [{"id": 1, "file_name": name}], "annotations": []}
    with pytest.raises(DataError, match="no folder of MP-100"):
        wanted_images([write(tmp_path / "a.json", content)])


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = annotations(tmp_path / "annotations/a.json", NAMES)
    folders = sources(tmp_path / "src", NAMES)
    out = tmp_path / "out"
    given = [f"{key}={folder}" for key, folder in folders.items()]
    assert cli.assemble((path,), out, tuple(given[1:])) == 1
    text = capsys.readouterr().out
    assert "cocodataset.org" in text
    assert "--source coco=FOLDER" in text
    assert "yangangwang" not in text  # nothing of it is missing
    assert cli.assemble((path,), out, tuple(given[1:]), output=OutputOptions(json=True)) == 1
    report = json.loads(capsys.readouterr().out)
    assert [problem["file_name"] for problem in report["problems"]] == [NAMES[0]]
    assert cli.assemble((tmp_path / "annotations",), out, tuple(given), output=OutputOptions(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["complete"]


@pytest.mark.shared
def test_real_file_names(shared: Path, tmp_path: Path) -> None:
    """Downloads made up from the real names: of every source in these files, each hundredth image is found."""
    files = [shared / f"data/mp100_annotations/mp100_split{split}_test.json.gz" for split in (3, 4, 5)]
    wanted = wanted_images(files)
    some = wanted[::100]
    assert {image.source.key for image in wanted} == set(SOURCES) - {"onehand10k"}  # no hands in these files
    for image in some:
        path = tmp_path / "src" / ROOTS[image.source.key] / downloaded(image.file_name)
        picture(path, 2, 2)
        if image.source.key == "carfusion":
            label(path, "\n".join(f"{x},{y},1,0,1" for x, y in image.points))
    folders = {key: tmp_path / "src" / folder for key, folder in ROOTS.items() if (tmp_path / "src" / folder).is_dir()}
    items = by_name(assemble(files, folders, tmp_path / "out"))
    assert {items[image.file_name].status for image in some} == {"placed"}
    assert sum(item.status == "placed" for item in items.values()) == len(some)
