"""A DataFrame as bytes that are read in place: a short description, then the frame's own buffers, 64-byte aligned.

`plan_layout()` assigns an offset to each buffer, `FrameLayout.write()` copies each buffer once, `rebuild()` makes a
DataFrame over the bytes without a copy. Blocks stay blocks. Arrow-backed columns are written in Arrow's stream format,
which is read in place too.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from mojoview.frames.blocks import assemble, index_values, masked_parts, zoned_array
from mojoview.frames.pins import pin_frame
from mojoview.frames.shared.json_values import decode, encode, zone_text
from mojoview.memory.errors import CorruptHeader, MojoViewError, ZeroCopyError
from mojoview.sharing.segment.schema import dtype_from_text, dtype_to_text
from mojoview.views import View

__all__ = ["FrameLayout", "plan_layout", "rebuild"]

PREFIX = 16  # bytes: length of the description, version of this layout
LAYOUT = 2
_MASKED = {
    "boolean": pd.arrays.BooleanArray,
    "Int": pd.arrays.IntegerArray,
    "UInt": pd.arrays.IntegerArray,
    "Float": pd.arrays.FloatingArray,
}


class FrameLayout:
    """The offsets of a frame's buffers, and the functions that write them; `nbytes` in all."""

    def __init__(self) -> None:
        self._pieces: list[tuple[int, int, Callable[[np.ndarray[Any, Any]], None]]] = []
        self._end = 0
        self._arrow: list[tuple[str, Any]] = []
        self.description: dict[str, Any] = {}
        self._text = b""

    def add(self, nbytes: int, write: Callable[[np.ndarray[Any, Any]], None]) -> int:
        """Reserve space for a buffer; returns its offset from the end of the description."""
        at = self._end
        self._pieces.append((at, nbytes, write))
        self._end = (at + nbytes + 63) // 64 * 64
        return at

    def describe(self, description: dict[str, Any]) -> None:
        """Set the description at the beginning, which replaces an earlier one."""
        self.description = description
        self._text = json.dumps(description, separators=(",", ":")).encode()

    @property
    def start(self) -> int:
        return (PREFIX + len(self._text) + 63) // 64 * 64

    @property
    def nbytes(self) -> int:
        return self.start + self._end

    def write(self, target: np.ndarray[Any, Any]) -> None:
        """Copy everything into `target`, a uint8 array of at least `nbytes`."""
        target[:PREFIX].view("<u8")[:] = len(self._text), LAYOUT
        target[PREFIX : PREFIX + len(self._text)] = np.frombuffer(self._text, np.uint8)
        for at, nbytes, write in self._pieces:
            write(target[self.start + at : self.start + at + nbytes])


def plan_layout(frame: pd.DataFrame) -> FrameLayout:
    """Plan the offset of each buffer of the frame.

    Raises
    ------
    ZeroCopyError
        A column, the index, a label or an attribute cannot be shared; the message names it, its dtype and the remedy.
    """
    layout = FrameLayout()
    flags: Any = frame.flags  # which pandas' stubs take for a column
    attributes = {"attrs": encode(frame.attrs, "its `attrs`")} if frame.attrs else {}
    arrow: list[tuple[int, Any]] = []
    blocks = []
    for values, positions in pin_frame(frame).arrays():
        name = frame.columns[positions[0]]
        if _is_arrow(values):
            arrow.append((positions[0], values))
            continue
        blocks.append({"at": positions, **_add_array(layout, values, f"column {name!r}")})
    layout.describe(
        {
            "schema": _schema(frame),
            "generation": 0,
            "rows": len(frame),
            "unique": not flags.allows_duplicate_labels,
            **attributes,
            "blocks": blocks,
            "arrow": _add_arrow(layout, arrow),
            "columns": _add_index(layout, frame.columns, "the column labels"),
            "index": _add_index(layout, frame.index, "the index"),
        }
    )
    return layout


def _schema(frame: pd.DataFrame) -> str:
    """Return a hash of columns, dtypes and kind of index."""
    what = (
        [repr(label) for label in frame.columns],
        [str(dtype) for dtype in frame.dtypes],
        type(frame.index).__name__,
        str(frame.index.dtype),
        [repr(name) for name in frame.index.names],
    )
    return hashlib.blake2b(repr(what).encode(), digest_size=8).hexdigest()


def rebuild(window: View) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Make a DataFrame over the bytes; returns it with their description. The frame keeps the bytes alive.

    Raises
    ------
    CorruptHeader
        The description does not fit the bytes.
    """
    prefix = np.asarray(window[:PREFIX]).view("<u8") if window.size >= PREFIX else (0, 0)
    length, version = int(prefix[0]), int(prefix[1])
    if version != LAYOUT or length > window.size - PREFIX:
        raise CorruptHeader(
            f"shared frame: expected layout {LAYOUT} and a description within {window.size} bytes, "
            f"got {version} and {length}"
        )
    try:
        description = json.loads(bytes(window[PREFIX : PREFIX + length]))
        # This view pins the version, and exists as long as any array over it: pandas counts it as a user of the blocks.
        pin = window[(PREFIX + length + 63) // 64 * 64 :]
        data = np.asarray(pin)
        pieces = [(_read_array(data, spec), pin, spec["at"]) for spec in description["blocks"]]
        pieces += _read_arrow(data, description["arrow"])
        index, columns = _read_index(data, description["index"]), _read_index(data, description["columns"])
        _check_pieces(pieces, index, columns)
        frame = assemble(pieces, index, columns)
        if "attrs" in description:
            frame.attrs = decode(description["attrs"])
        if description["unique"]:
            flags: Any = frame.flags  # which pandas' stubs take for a column
            flags.allows_duplicate_labels = False
        return frame, description
    except MojoViewError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise CorruptHeader(
            f"shared frame: its description does not fit its bytes ({type(error).__name__}: {error})"
        ) from error


def _check_pieces(pieces: list[tuple[Any, Any, list[int]]], index: pd.Index, columns: pd.Index) -> None:
    """Raise CorruptHeader if blocks and axes do not fit together: pandas does not check them, and would crash later."""
    places = sorted(place for _, _, at in pieces for place in at)
    shapes = [(array.shape[-1], array.shape[0] if array.ndim == 2 else 1, len(at)) for array, _, at in pieces]
    if places != list(range(len(columns))) or any(rows != len(index) or have != want for rows, have, want in shapes):
        raise CorruptHeader(
            f"shared frame: blocks of shapes {[array.shape for array, _, _ in pieces]} do not make up {len(columns)} "
            f"columns of {len(index)} rows"
        )


# -- arrays ------------------------------------------------------------------------------------------------------------


def _share_error(what: str, dtype: Any, reason: str, remedy: str) -> ZeroCopyError:
    return ZeroCopyError(f"sharing a frame: {what} of dtype {dtype}: {reason}; {remedy}")


def _add_array(layout: FrameLayout, values: Any, what: str) -> dict[str, Any]:
    dtype = values.dtype
    if isinstance(values, np.ndarray):
        return _add_numpy(layout, values, what)
    if isinstance(dtype, pd.DatetimeTZDtype):
        zone = zone_text(dtype.tz)
        if zone is None:
            raise _share_error(
                what, dtype, f"its time zone {dtype.tz!r} has no name", "use tz_convert() to a zone of the database"
            )
        return {
            "kind": "zoned",
            "unit": dtype.unit,
            "tz": zone,
            "values": _add_numpy(layout, np.asarray(values.tz_convert(None)), what),
        }
    if isinstance(dtype, np.dtype):  # naive datetimes and timedeltas, and NumPy extension arrays
        return _add_numpy(layout, np.asarray(values), what)
    if isinstance(dtype, pd.CategoricalDtype):
        return {
            "kind": "categorical",
            "codes": _add_numpy(layout, values.codes, what),
            "ordered": bool(dtype.ordered),
            "categories": _add_index(layout, dtype.categories, f"the categories of {what}"),
        }
    if isinstance(dtype, pd.IntervalDtype):
        ends = {side: _add_array(layout, index_values(getattr(values, side)), what) for side in ("left", "right")}
        return {"kind": "interval", "closed": dtype.closed, **ends}
    if isinstance(dtype, pd.PeriodDtype):
        return {"kind": "period", "dtype": str(dtype), "values": _add_numpy(layout, values.asi8, what)}
    if isinstance(dtype, pd.api.extensions.ExtensionDtype) and str(dtype).startswith(tuple(_MASKED)):
        parts = masked_parts(values)
        if parts is not None:
            return {
                "kind": "masked",
                "dtype": str(dtype),
                "values": _add_numpy(layout, parts[0], what),
                "mask": _add_numpy(layout, parts[1], what),
            }
    raise _share_error(what, dtype, "other processes cannot read its memory in place", "convert it with astype() first")


def _add_numpy(layout: FrameLayout, values: np.ndarray[Any, Any], what: str) -> dict[str, Any]:
    if values.dtype.hasobject or values.dtype.kind == "T":
        raise _share_error(
            what,
            values.dtype,
            "its items are Python objects",
            "convert it with astype('str'), astype('category') or to numbers",
        )
    fortran = values.flags.f_contiguous and not values.flags.c_contiguous
    source = values.T if fortran else values

    def write(target: np.ndarray[Any, Any]) -> None:
        np.copyto(target.view(source.dtype).reshape(source.shape), source)

    at = layout.add(values.nbytes, write)
    return {
        "kind": "numpy",
        "dtype": dtype_to_text(values.dtype).decode(),
        "shape": values.shape,
        "fortran": bool(fortran),
        "offset": at,
    }


def _read_array(data: np.ndarray[Any, Any], spec: dict[str, Any]) -> Any:
    """Make an array over `data`, the frame's buffers."""
    kind = spec["kind"]
    if kind == "numpy":
        dtype = dtype_from_text(spec["dtype"].encode())
        order: Any = "F" if spec["fortran"] else "C"
        # ndarray checks the extent against the buffer, and rejects negative offsets and sizes
        return np.ndarray(tuple(spec["shape"]), dtype, data, spec["offset"], order=order)
    if kind == "zoned":
        values = _read_array(data, spec["values"])
        return zoned_array(values, pd.DatetimeTZDtype(spec["unit"], spec["tz"]))
    if kind == "categorical":
        codes = _read_array(data, spec["codes"])
        dtype_ = pd.CategoricalDtype(_read_index(data, spec["categories"]), spec["ordered"])
        if codes.size and not -1 <= int(codes.min()) <= int(codes.max()) < len(dtype_.categories):
            raise CorruptHeader("shared frame: a category code outside the categories")
        return pd.Categorical.from_codes(codes, dtype=dtype_, validate=False)
    if kind == "interval":
        left, right = (pd.Index(_read_array(data, spec[side]), copy=False) for side in ("left", "right"))
        return pd.arrays.IntervalArray.from_arrays(left, right, spec["closed"])
    if kind == "period":
        values = _read_array(data, spec["values"])
        freq: Any = pd.api.types.pandas_dtype(spec["dtype"])
        return pd.arrays.PeriodArray(values, dtype=freq)
    if kind == "masked":
        values = _read_array(data, spec["values"])
        mask = _read_array(data, spec["mask"])
        cls = next(cls for prefix, cls in _MASKED.items() if spec["dtype"].startswith(prefix))
        return cls(values, mask, copy=False)
    raise CorruptHeader(f"shared frame: an array of kind {kind!r}")


# -- Arrow -------------------------------------------------------------------------------------------------------------


def _is_arrow(values: Any) -> bool:
    dtype = values.dtype
    return isinstance(dtype, pd.ArrowDtype) or (
        isinstance(dtype, pd.StringDtype) and dtype.storage.startswith("pyarrow")  # "pyarrow_numpy" in pandas 2.2
    )


def _add_arrow(layout: FrameLayout, columns: list[tuple[int, Any]]) -> dict[str, Any] | None:
    """Reserve space for all Arrow-backed columns, as one stream."""
    if not columns:
        return None
    import pyarrow as pa

    arrays = [values.__arrow_array__() for _, values in columns]
    table = pa.table(
        [array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array for array in arrays],
        names=[str(k) for k in range(len(columns))],
    )

    def stream(sink: Any) -> None:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)

    measure = pa.MockOutputStream()
    stream(measure)
    at = layout.add(measure.size(), lambda target: stream(pa.FixedSizeBufferWriter(pa.py_buffer(target))))
    return {
        "offset": at,
        "nbytes": measure.size(),
        "at": [position for position, _ in columns],
        "dtypes": [_arrow_dtype(values.dtype) for _, values in columns],
    }


def _arrow_dtype(dtype: Any) -> str:
    if isinstance(dtype, pd.StringDtype):
        return "str" if dtype.na_value is np.nan else "string"
    return "arrow"


def _string_dtype(storage: str, nan: bool) -> Any:
    """Return the dtype of text with a storage, whose missing values are NaN or NA; in Python without pyarrow."""
    try:
        return pd.StringDtype(storage, na_value=np.nan if nan else pd.NA)
    except TypeError:  # pandas 2.2
        return pd.StringDtype("pyarrow_numpy" if nan else storage)
    except ImportError:
        return _string_dtype("python", nan)


def _read_arrow(data: np.ndarray[Any, Any], spec: dict[str, Any] | None) -> list[tuple[Any, Any, list[int]]]:
    if spec is None:
        return []
    import pyarrow as pa

    piece = data[spec["offset"] : spec["offset"] + spec["nbytes"]]
    try:
        table = pa.ipc.open_stream(pa.py_buffer(piece)).read_all()
        table.validate()
    except (pa.ArrowException, OSError) as error:
        raise CorruptHeader(f"shared frame: its Arrow columns cannot be read ({error})") from error
    columns: list[tuple[Any, Any, list[int]]] = []
    for k, (position, dtype) in enumerate(zip(spec["at"], spec["dtypes"], strict=True)):
        array: Any = pd.arrays.ArrowExtensionArray(table.column(k))
        if dtype != "arrow":
            array = _string_dtype("pyarrow", dtype == "str").__from_arrow__(table.column(k))
        columns.append((array, None, [position]))
    return columns


# -- indexes -----------------------------------------------------------------------------------------------------------


def _add_index(layout: FrameLayout, index: pd.Index, what: str) -> dict[str, Any]:
    names = [encode(name, f"the name of {what}") for name in index.names]
    if isinstance(index, pd.RangeIndex):
        return {"kind": "range", "start": index.start, "stop": index.stop, "step": index.step, "name": names[0]}
    if isinstance(index, pd.MultiIndex):
        return {
            "kind": "multi",
            "names": names,
            "levels": [_add_index(layout, level, what) for level in index.levels],
            "codes": [_add_numpy(layout, np.asarray(codes), what) for codes in index.codes],
        }
    if isinstance(index.dtype, pd.StringDtype):
        values = [None if pd.isna(label) else label for label in index]
        text: Any = [index.dtype.storage.removesuffix("_numpy"), index.dtype.na_value is not pd.NA]
        return {"kind": "labels", "values": json.dumps(values), "string": text, "name": names[0]}
    if index.dtype == object:
        values = [encode(label, f"a label of {what}") for label in index]
        return {"kind": "labels", "values": json.dumps(values), "string": None, "name": names[0]}
    array = index_values(index)
    if _is_arrow(array):
        raise _share_error(
            what, index.dtype, "labels that Arrow holds are not shared", "use astype(object), also on its categories"
        )
    return {"kind": "array", "values": _add_array(layout, array, what), "name": names[0]}


@functools.lru_cache(maxsize=64)
def _labels(text: str, storage: str | None, nan: bool) -> Any:
    """Make the Index of labels; cached, since an Index of strings costs more than the rest of a small frame.

    By their text: of labels, 1, True and 1.0 are equal.
    """
    labels = [decode(code) for code in json.loads(text)]
    dtype: Any = object if storage is None else _string_dtype(storage, nan)
    return pd.Index(labels, dtype=dtype, tupleize_cols=False)


def _read_index(data: np.ndarray[Any, Any], spec: dict[str, Any]) -> Any:
    if spec["kind"] == "multi":
        return pd.MultiIndex(
            [_read_index(data, level) for level in spec["levels"]],
            [_read_array(data, codes) for codes in spec["codes"]],
            names=[decode(name) for name in spec["names"]],
        )
    name = decode(spec["name"])
    if spec["kind"] == "range":
        return pd.RangeIndex(spec["start"], spec["stop"], spec["step"], name=name)
    if spec["kind"] == "labels":
        text, (storage, nan) = spec["values"], spec["string"] or (None, False)
        labels = (_labels if len(text) <= 20_000 else _labels.__wrapped__)(text, storage, nan)
        # A new Index object for each frame, since its name can be set.
        return labels.view() if name is None else labels.rename(name)
    return pd.Index(_read_array(data, spec["values"]), name=name, copy=False)
