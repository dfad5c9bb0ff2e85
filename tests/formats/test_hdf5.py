"""HDF5 from anywhere: nothing in it runs, and no damage reaches this process."""

from __future__ import annotations

import os
import pickle
import random
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgecape import formats
from edgecape.errors import DataError
from edgecape.formats import deeplabcut_h5, hdf5
from edgecape.formats.boxes import read_boxes

from labels_for_tests import cow

pandas = pytest.importorskip("pandas")
tables = pytest.importorskip("tables")


class Payload:
    """Whoever unpickles this makes a file."""

    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)


def frame(individuals: bool = False) -> Any:
    levels: list[list[str]] = [["me"], ["eye", "tail"], ["x", "y", "likelihood"]]
    names = ["scorer", "bodyparts", "coords"]
    if individuals:
        levels.insert(1, ["i1", "i2"])
        names.insert(1, "individuals")
    columns = pandas.MultiIndex.from_product(levels, names=names)
    values = np.arange(3.0 * len(columns)).reshape(3, -1)
    values[1, :2] = np.nan
    return pandas.DataFrame(values, index=["a.png", "b.png", "c.png"], columns=columns)


def save(table: Any, path: Path, layout: str = "fixed") -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that objects are pickled
        table.to_hdf(path, key="df_with_missing", mode="w", format=layout)
    return path


def poisoned_array(path: Path, target: Path) -> None:
    save(frame(), path)
    with tables.open_file(path, "a") as file:
        file.remove_node("/df_with_missing/block0_values")
        file.create_vlarray("/df_with_missing", "block0_values", tables.ObjectAtom()).append(Payload(target))


def poisoned_names(path: Path, target: Path) -> None:
    save(frame(), path)
    with tables.open_file(path, "a") as file:
        file.remove_node("/df_with_missing/axis1")
        array = file.create_vlarray("/df_with_missing", "axis1", tables.ObjectAtom())
        array.append(Payload(target))
        array.attrs.kind = "object"


def poisoned_attribute(path: Path, target: Path) -> None:
    save(frame(), path, "table")
    with tables.open_file(path, "a") as file:
        file.get_node("/df_with_missing")._v_attrs.non_index_axes = Payload(target)


@pytest.mark.parametrize("poison", [poisoned_array, poisoned_names, poisoned_attribute])
def test_nothing_in_a_file_runs(tmp_path: Path, poison: Any) -> None:
    target = tmp_path / "made"
    poison(tmp_path / "a.h5", target)
    for reader in (formats.read, read_boxes):
        with pytest.raises(DataError, match=r"a\.h5 .*Python objects, which could run code"):
            reader(tmp_path / "a.h5")
    assert not target.exists()
    with suppress(Exception):  # the payload is real: pandas runs it
        pandas.read_hdf(tmp_path / "a.h5")
    assert target.exists()


@pytest.mark.parametrize("value", [[1, "a", (2, "b", ())], [], [("me", "eye", "x")] * 300, [10**12, -5, 70000]])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_of_every_protocol(value: Any, protocol: int) -> None:
    if protocol < 2 and 10**12 in value:
        pytest.skip("long numbers of old protocols are refused")
    assert deeplabcut_h5.plain_values(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_other_values_are_refused(tmp_path: Path, protocol: int) -> None:
    for value in (Payload(tmp_path / "made"), os.mkdir, {1: 2}, [np.float64(1)]):
        with pytest.raises(ValueError, match="could run code"):
            deeplabcut_h5.plain_values(pickle.dumps(value, protocol))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("layout", ["fixed", "table"])
@pytest.mark.parametrize("individuals", [False, True])
@pytest.mark.parametrize("index", ["names", "numbers"])
def test_what_deeplabcut_writes(tmp_path: Path, layout: str, individuals: bool, index: str) -> None:
    table = frame(individuals)
    if index == "numbers":
        table.index = range(3)
    (labels,) = formats.read(save(table, tmp_path / "a.h5", layout))
    assert labels.names == ("eye", "tail")
    assert [image.file for image in labels.images] == [str(name) for name in table.index]
    assert [len(image.objects) for image in labels.images] == [2, 2, 2] if individuals else [1, 1, 1]
    np.testing.assert_array_equal(labels.images[0].objects[0].keypoints, [[0, 1], [3, 4]])
    assert labels.images[1].objects[0].visible.tolist() == [False, True]


def test_columns_of_several_types(tmp_path: Path) -> None:
    table = frame()
    whole = table.astype({table.columns[3]: "int64", table.columns[0]: "float32"})
    for layout in ("fixed", "table"):
        (labels,) = formats.read(save(whole, tmp_path / f"{layout}.h5", layout))
        np.testing.assert_array_equal(labels.images[2].objects[0].keypoints, [[12, 13], [15, 16]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda group: group.attrs.create("pandas_type", b"wide"), "holds a 'wide' of pandas"),
        (lambda group: group.attrs.pop("pandas_type"), "0 tables of pandas"),
        (lambda group: group.attrs.pop("nblocks"), "nblocks"),
        (lambda group: group.pop("axis1"), "axis1"),
        (lambda group: group["axis0_label1"].write_direct(np.full(6, 9, np.int8)), "does not fit its names"),
        (lambda group: group["axis0_label2"].write_direct(np.zeros(6, np.int8)), "same heading"),
    ],
)
def test_tables_that_are_not_deeplabcut_s(tmp_path: Path, change: Any, message: str) -> None:
    import h5py

    with h5py.File(save(frame(), tmp_path / "a.h5"), "a") as file:
        change(file["df_with_missing"])
    with pytest.raises(DataError, match=rf"a\.h5 is not a DeepLabCut table: .*{message}"):
        formats.read(tmp_path / "a.h5")


@pytest.mark.parametrize("suffix", [".h5", ".slp"])
def test_what_leads_out_of_the_file(tmp_path: Path, suffix: str) -> None:
    import h5py

    (tmp_path / "secret").write_bytes(b"12345678" * 8)
    for way in ("link", "raw", "virtual"):
        path = tmp_path / f"{way}{suffix}"
        save(frame(), path)
        with h5py.File(path, "a") as file:
            if way == "link":
                file["elsewhere"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/x")
            elif way == "raw":
                file.create_dataset("x", (8,), "f8", external=[(str(tmp_path / "secret"), 0, 64)])
            else:
                layout = h5py.VirtualLayout((8,), "f8")
                layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (8,))
                file.create_virtual_dataset("x", layout)
        with pytest.raises(DataError, match="another file"):
            formats.read(path)


def crash(path: str) -> None:
    os.abort()


def sleep(path: str) -> None:
    import time

    time.sleep(60)


def eat(path: str) -> int:
    return len(bytearray(hdf5.MEMORY))


def talk(path: str) -> str:
    print("a library that says\nthis and that")
    print("and warns", file=sys.stderr)
    return path


def test_what_happens_in_the_child_stays_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.h5"
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"a\.h5 is not a thing: it is damaged, the HDF5 library gave up on it"):
        hdf5.read_apart(crash, path, "a thing")
    if sys.platform == "linux":
        with pytest.raises(DataError, match="more than 4 GB of memory"):
            hdf5.read_apart(eat, path, "a thing")
    assert hdf5.read_apart(talk, path, "a thing") == str(path)
    monkeypatch.setattr(hdf5, "SECONDS", 1)
    with pytest.raises(DataError, match="took more than 1 seconds"):
        hdf5.read_apart(sleep, path, "a thing")


def test_the_child_imports_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(frame(), tmp_path / "a.h5")
    (tmp_path / "h5py.py").write_text(f"open({str(tmp_path / 'made')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    assert len(formats.read(path)) == 1
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("kind", ["fixed.h5", "table.h5", "cow.slp"])
def test_mutated_files_are_read_or_refused(tmp_path: Path, kind: str) -> None:
    """Some of these end in a segmentation fault inside HDF5."""
    source = tmp_path / kind
    if kind == "cow.slp":
        pytest.importorskip("sleap_io")
        formats.write(source, cow(), "sleap")
    else:
        save(frame(), source, kind.split(".")[0])
    generator, content = random.Random(kind), source.read_bytes()
    for number in range(12):
        mutated = bytearray(content)
        for _ in range(generator.choice([1, 8, 64])):
            mutated[generator.randrange(len(mutated))] = generator.randrange(256)
        path = tmp_path / f"{number}{source.suffix}"
        path.write_bytes(mutated)
        with suppress(DataError):
            assert formats.read(path)
