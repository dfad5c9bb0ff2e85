"""DeepLabCut tables, checked with pandas as DeepLabCut reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgecape import formats
from edgecape.errors import DataError, MissingPackageError
from edgecape.formats import LabelledImage, LabelledObject, LabelSet, to_supports

from labels_for_tests import assert_same, cow, cow_with_photos, only_marked

SINGLE = "scorer,me,me,me,me\nbodyparts,eye,eye,tail,tail\ncoords,x,y,x,y\n"
THREE = "scorer,,,me,me,me,me\nbodyparts,,,eye,eye,tail,tail\ncoords,,,x,y,x,y\n"
MULTI = (
    "scorer,,,me,me,me,me,me,me\nindividuals,,,i1,i1,i2,i2,single,single\n"
    "bodyparts,,,eye,eye,eye,eye,door,door\ncoords,,,x,y,x,y,x,y\n"
)


def one_animal() -> LabelSet:
    first, second = cow().images
    images = [
        LabelledImage("empty.png", None, None, ()),
        LabelledImage(first.file, None, None, first.objects[:1]),
        second,
    ]
    return LabelSet(cow().names, None, "cow", images)


def test_labels_of_one_animal(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(SINGLE + "labeled-data\\v\\img1.png,1,2,,\nlabeled-data\\v\\img2.png,,,,\n")
    (labels,) = formats.read(tmp_path / "a.csv")
    assert labels.names == ("eye", "tail")
    assert [image.file for image in labels.images] == ["labeled-data/v/img1.png", "labeled-data/v/img2.png"]
    assert labels.images[0].objects[0].visible.tolist() == [True, False]
    assert labels.images[0].objects[0].scores is None
    assert labels.images[1].objects == ()


def test_a_project_is_found_with_its_skeleton(tmp_path: Path) -> None:
    folder = tmp_path / "labeled-data" / "v"
    folder.mkdir(parents=True)
    (tmp_path / "config.yaml").write_text("skeleton:\n- [tail, eye]\n- [objectA, bodypart3]\n")
    (folder / "CollectedData_me.csv").write_text(THREE + "labeled-data,v,img1.png,1,2,3,4\n")
    (labels,) = formats.read(folder / "CollectedData_me.csv")
    assert labels.skeleton == ((0, 1),)
    assert to_supports(labels)[0].image == tmp_path.resolve() / "labeled-data" / "v" / "img1.png"


def test_several_animals_and_unique_body_parts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(MULTI + "labeled-data,v,1.png,1,2,3,4,5,6\nlabeled-data,v,2.png,,,7,8,,\n")
    animals, unique = formats.read(tmp_path / "a.csv")
    assert (animals.names, animals.category) == (("eye",), "animal")
    assert [[thing.keypoints.tolist() for thing in image.objects] for image in animals.images] == [
        [[[1, 2]], [[3, 4]]],
        [[[7, 8]]],
    ]
    assert (unique.names, unique.category) == (("door",), "single")
    assert [len(image.objects) for image in unique.images] == [1, 0]


def test_predictions_have_likelihoods_and_frame_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "scorer,n,n,n\nbodyparts,eye,eye,eye\ncoords,x,y,likelihood\n0,1,2,0.5\n1,3,4,0.25\n"
    )
    (labels,) = formats.read(tmp_path / "a.csv")
    assert [image.file for image in labels.images] == ["0", "1"]
    assert [image.objects[0].scores.tolist() for image in labels.images] == [[0.5], [0.25]]


def test_pandas_reads_ours_as_deeplabcut_does(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    formats.write(tmp_path / "a.csv", one_animal(), "deeplabcut", scorer="cape")
    table = pandas.read_csv(tmp_path / "a.csv", header=[0, 1, 2], index_col=0)
    assert list(table.columns.names) == ["scorer", "bodyparts", "coords"]
    assert list(table.index) == ["empty.png", "cow 1.png", "cow2.png"]  # also the first, which has only gaps
    assert table.columns.get_level_values("scorer").unique().tolist() == ["cape"]
    assert table.columns.get_level_values("bodyparts").unique().tolist() == ["left eye", "Nüster", "tail"]
    assert table.columns.get_level_values("coords").unique().tolist() == ["x", "y", "likelihood"]
    assert table["cape"]["left eye"].loc["cow 1.png"].tolist() == pytest.approx([10, 20, 0.9])
    assert table["cape"]["tail"].loc["cow 1.png"].isna().all()
    table.to_csv(tmp_path / "b.csv")
    assert_same(formats.read(tmp_path / "b.csv")[0], formats.read(tmp_path / "a.csv")[0])


def test_pandas_reads_ours_of_several_animals(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    formats.write(tmp_path / "a.csv", cow(), "deeplabcut")
    table = pandas.read_csv(tmp_path / "a.csv", header=[0, 1, 2, 3], index_col=0)
    assert list(table.columns.names) == ["scorer", "individuals", "bodyparts", "coords"]
    assert table["edgecape"]["individual2"]["tail"].loc["cow 1.png"].tolist() == pytest.approx([90, 55, 0.7])


def test_labels_without_scores_have_no_likelihood(tmp_path: Path) -> None:
    image = LabelledImage("a.png", None, None, (LabelledObject([[1, 2]]),))
    formats.write(tmp_path / "a.csv", LabelSet(["eye"], None, "cow", [image]), "deeplabcut")
    assert (tmp_path / "a.csv").read_text().splitlines()[2:] == ["coords,x,y", "a.png,1.000,2.000"]


@pytest.mark.parametrize(("layout", "parts"), [("fixed", 1), ("table", 1), ("fixed", 3)])
def test_h5_is_the_same_table(tmp_path: Path, layout: str, parts: int) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("tables")
    (tmp_path / "a.csv").write_text(
        (SINGLE + "img1.png,1,2,,\n") if parts == 1 else (MULTI + "labeled-data,v,1.png,1,2,3,4,5,6\n")
    )
    header, index = ([0, 1, 2], 0) if parts == 1 else ([0, 1, 2, 3], [0, 1, 2])
    table = pandas.read_csv(tmp_path / "a.csv", header=header, index_col=index)
    table.to_hdf(tmp_path / "a.h5", key="df_with_missing", mode="w", format=layout)
    for got, want in zip(formats.read(tmp_path / "a.h5"), formats.read(tmp_path / "a.csv"), strict=True):
        assert_same(got, want)


def test_a_damaged_h5(tmp_path: Path) -> None:
    pytest.importorskip("tables")
    (tmp_path / "a.h5").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"a\.h5 is not a DeepLabCut table"):
        formats.read(tmp_path / "a.h5")
    with pytest.raises(DataError, match="does not exist"):
        formats.read(tmp_path / "b.h5", "deeplabcut")


def test_h5_without_its_libraries_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    (tmp_path / "a.h5").write_bytes(b"")
    with pytest.raises(MissingPackageError, match=r"pip install 'edgecape\[formats\]'"):
        formats.read(tmp_path / "a.h5")


def test_sleap_io_reads_ours(tmp_path: Path) -> None:
    sleap_io = pytest.importorskip("sleap_io")
    labels = cow_with_photos(tmp_path)
    formats.write(tmp_path / "a.csv", labels, "deeplabcut")
    theirs = sleap_io.load_dlc(str(tmp_path / "a.csv"))
    order = [theirs.skeletons[0].node_names.index(name) for name in labels.names]
    for frame, image in zip(theirs.labeled_frames, only_marked(labels).images, strict=True):
        for instance, thing in zip(frame.instances, image.objects, strict=True):
            want = np.where(thing.visible[:, None], thing.keypoints, np.nan)
            np.testing.assert_allclose(instance.numpy()[order], want)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "begins with"),
        ("a,b\n1,2\n", "begins with"),
        (SINGLE + "a.png,1,2\n", "line 4 has 3 cells, but the first line 5"),
        (SINGLE + "a.png,1,2,x,4\n", "line 4 is damaged: .*'x'"),
        (SINGLE.replace("tail", "eye") + "a.png,1,2,3,4\n", "the same heading"),
        ("scorer,me\nbodyparts,eye\ncoords,y\n", "no column of x"),
        ("scorer,me\nbodyparts,eye\ncoords,x\na.png,1\n", "is missing"),
        ("scorer,me,me\nbodyparts,,\ncoords,x,y\na.png,1,2\n", "not one line of text"),
    ],
)
def test_damaged_files(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        formats.read(tmp_path / "a.csv", "deeplabcut")
    assert "a.csv" in str(caught.value)


@pytest.mark.parametrize("skeleton", ["5", "[[a, b, c]]", "[1]"])
def test_a_damaged_config(tmp_path: Path, skeleton: str) -> None:
    folder = tmp_path / "labeled-data" / "v"
    folder.mkdir(parents=True)
    (tmp_path / "config.yaml").write_text(f"skeleton: {skeleton}")
    (folder / "a.csv").write_text(SINGLE + "img1.png,1,2,3,4\n")
    with pytest.raises(DataError, match=r"skeleton in .*config\.yaml"):
        formats.read(folder / "a.csv")
