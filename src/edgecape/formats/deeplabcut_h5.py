"""DeepLabCut's .h5: a table of pandas in either of its layouts, read without pandas, which unpickles what it finds.

"fixed", of labels: arrays of numbers and names, one for each level of the headings. "table", of predictions: one array
of rows; its headings stand in an attribute that is a pickle, of which only plain lists of texts and numbers are taken,
one instruction after the other (`plain_values`). Whatever holds Python objects is refused.
"""

from __future__ import annotations

import base64
import pickletools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgecape.formats.hdf5 import opened

KEY = "df_with_missing"  # what DeepLabCut calls its table
REMEDY = "give the .csv of this table instead"

Heading = tuple[str, ...]
Parts = tuple[list[Heading], list[Heading], list[tuple[list[Heading], NDArray[Any]]]]  # rows, columns, blocks of values


def table(path: str) -> dict[str, Any]:
    """files, columns as (individual or "", body part, coordinate), and values (files, columns), packed by `pack`."""
    with opened(path) as file:
        groups = [name for name in file if "pandas_type" in file[name].attrs]
        if len(groups) != 1 and KEY not in groups:
            raise ValueError(f"it holds {len(groups)} tables of pandas, none called {KEY}")
        group = file[KEY if KEY in groups else groups[0]]
        kind = _text(group.attrs["pandas_type"])
        if kind not in ("frame", "frame_table"):
            raise ValueError(f"it holds a '{kind}' of pandas; expected a frame")
        index, columns, blocks = (_fixed if kind == "frame" else _compound)(group)
    depths = {len(column) for column in columns}
    if not depths <= {3, 4} or len(depths) > 1:
        raise ValueError("its headings are not scorer, (individuals,) bodyparts, coords")
    place = {column: number for number, column in enumerate(columns)}
    if len(place) < len(columns):
        raise ValueError("two columns have the same heading")
    values = np.full((len(index), len(columns)), np.nan)
    for members, block in blocks:
        if block.shape != (len(index), len(members)):
            raise ValueError(f"a block of its values is {block.shape}, but its headings {(len(index), len(members))}")
        values[:, [place[column] for column in members]] = block
    return {
        "files": ["/".join(row) for row in index],
        "columns": [("" if len(column) == 3 else column[1], *column[-2:]) for column in columns],
        "values": pack(values),
    }


def pack(values: NDArray[np.float64]) -> str:
    """Numbers as a text: hours of video are millions of them, which JSON would take long for."""
    return base64.b64encode(values.astype("<f8").tobytes()).decode()


def unpack(packed: str) -> NDArray[np.float64]:
    return np.frombuffer(base64.b64decode(packed), "<f8").astype(np.float64)


def _fixed(group: Any) -> Parts:
    index, columns = _axis(group, "axis1"), _axis(group, "axis0")
    blocks = []
    for number in range(int(group.attrs["nblocks"])):
        block = _array(group, f"block{number}_values")
        as_seen = group[f"block{number}_values"].attrs.get("transposed", False)
        blocks.append((_axis(group, f"block{number}_items"), block if as_seen else block.T))
    return index, columns, blocks


def _compound(group: Any) -> Parts:
    rows = _array(group, "table")
    names = rows.dtype.names or ()
    if "index" not in names:
        raise ValueError("its table has no column 'index'")
    ((_, columns),) = plain_values(group.attrs["non_index_axes"])
    attributes = group["table"].attrs
    blocks: list[tuple[list[Heading], NDArray[Any]]] = [
        (_headings(plain_values(attributes[f"{name}_kind"])), rows[name].reshape(len(rows), -1))
        for name in names
        if name != "index"
    ]
    return [(name,) for name in _names(rows["index"])], _headings(columns), blocks


def _headings(columns: Any) -> list[Heading]:
    return [tuple(map(str, column)) for column in columns]


def _axis(group: Any, key: str) -> list[Heading]:
    """Headings of one axis: of one level, or of several, each as its names and the number of a name for each place."""
    if _text(group.attrs[f"{key}_variety"]) != "multi":
        return [(name,) for name in _names(_array(group, key))]
    levels = []
    for level in range(int(group.attrs[f"{key}_nlevels"])):
        names, codes = _names(_array(group, f"{key}_level{level}")), _array(group, f"{key}_label{level}")
        if codes.dtype.kind not in "iu" or (codes >= len(names)).any():
            raise ValueError(f"'{key}_label{level}' does not fit its names")
        levels.append([names[code] if code >= 0 else "" for code in codes.ravel()])
    return list(zip(*levels, strict=True))


def _array(group: Any, name: str) -> NDArray[Any]:
    dataset = group[name]
    if dataset.dtype.hasobject or "PSEUDOATOM" in dataset.attrs:
        raise ValueError(f"'{name}' holds Python objects, which could run code and are not read; {REMEDY}")
    return dataset[()]


def _names(values: NDArray[Any]) -> list[str]:
    if values.dtype.kind not in "Siu":
        raise ValueError(f"names are of type {values.dtype}")
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values.ravel().tolist()]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def plain_values(pickled: bytes) -> Any:
    """The lists, tuples, texts and numbers that a pickle spells out; anything else in it is refused, nothing is run."""
    stack: list[Any] = []
    marks: list[int] = []
    memory: dict[Any, Any] = {}

    def since_mark() -> list[Any]:
        start = marks.pop()
        found = stack[start:]
        del stack[start:]
        return found

    for code, value, _ in pickletools.genops(pickled):
        match code.name:
            case "PROTO" | "FRAME":
                pass
            case "UNICODE" | "BINUNICODE" | "SHORT_BINUNICODE" | "INT" | "BININT" | "BININT1" | "BININT2" | "LONG1":
                stack.append(value)
            case "MARK":
                marks.append(len(stack))
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_TUPLE":
                stack.append(())
            case "LIST":
                stack.append(since_mark())
            case "TUPLE":
                stack.append(tuple(since_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                number = int(code.name[-1])
                stack[-number:] = [tuple(stack[-number:])]
            case "APPEND":
                last = stack.pop()
                stack[-1].append(last)
            case "APPENDS":
                members = since_mark()
                stack[-1].extend(members)
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                memory[value] = stack[-1]
            case "MEMOIZE":
                memory[len(memory)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(memory[value])
            case "STOP":
                return stack.pop()
            case _:
                raise ValueError(f"its headings hold Python objects, which could run code and are not read; {REMEDY}")
    raise ValueError("its headings are not complete")
