"""The buffer protocol out: for every combination of request flags what NumPy's own export says."""

from __future__ import annotations

import array
import hashlib
import io
import itertools
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import buffers
from support.arrays import DTYPES, PLAIN, arrays, assert_error_like, filled, outcome

import mojoview as mv
from mojoview.memory.errors import ExportedError, LayoutError, ReadOnlyError, ZeroCopyError

BITS = [buffers.WRITABLE, buffers.FORMAT, buffers.ND, 0x10, 0x20, 0x40, 0x80, 0x100]
ALL_FLAGS = [sum(bits) for n in range(len(BITS) + 1) for bits in itertools.combinations(BITS, n)]
ALL_FLAGS.remove(0x100)  # alone it is PyBUF_READ, no request, which Python 3.13 refuses for the exporter


def check_request(source, flags, writable):
    view = mv.view(source, writable=writable)
    expected, got = outcome(buffers.probe, source, flags), outcome(buffers.probe, view, flags)
    assert got[0] == expected[0], (hex(flags), source.shape, source.strides, got, expected)
    if got[0] == "error":
        assert_error_like(got[1], expected[1])
        return
    ours, theirs = got[1], expected[1]
    assert ours._replace(format=None, strides=None, buf=None, ndim=0) == theirs._replace(
        format=None, strides=None, buf=None, ndim=0
    )
    assert ours.ndim == (
        source.ndim if flags & buffers.ND else 1
    )  # of a request without a shape NumPy's releases say 0, or ndim
    assert (ours.format is None) == (theirs.format is None)
    if ours.format is not None and source.dtype.names is None:
        assert ours.format.lstrip(b"@=^") in (theirs.format.lstrip(b"@=^"), b"l", b"L")
    assert (ours.strides is None) == (theirs.strides is None)
    if source.size:
        assert ours.buf == theirs.buf
        if ours.strides is not None:
            assert all(a == b for n, a, b in zip(ours.shape, ours.strides, theirs.strides, strict=True) if n > 1)


LAYOUTS = {
    "0-d": lambda: np.array(1.0),
    "empty": lambda: np.zeros((2, 0)),
    "1-d": lambda: np.arange(4.0),
    "C": lambda: np.ones((2, 3)),
    "F": lambda: np.ones((2, 3), order="F"),
    "strided": lambda: np.ones((4, 4))[::2, ::-1],
    "one": lambda: np.ones((1, 1)),
    "row": lambda: np.ones((4, 4))[1:2, ::2],
    "negative": lambda: np.arange(4.0)[::-1],
    "3-d": lambda: np.ones((2, 3, 2)).swapaxes(0, 1),
}


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_flag_combinations(layout, writable):
    source = LAYOUTS[layout]()
    source.flags.writeable = writable
    for flags in ALL_FLAGS:
        check_request(source, flags, writable)


@given(arrays(st.sampled_from([*PLAIN, np.dtype(">f8"), np.dtype("S3"), np.dtype("U2")])), st.sampled_from(ALL_FLAGS))
def test_any_layout_and_flags(source, flags):
    source.flags.writeable = False
    check_request(source, flags, False)


def reads_back(dtype):
    """Whether NumPy's own export says exactly this dtype."""
    try:
        return np.asarray(memoryview(np.zeros(1, dtype))).dtype == dtype
    except (ValueError, RuntimeError):
        return False


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_formats_are_numpys_or_refused(dtype):
    view = mv.view(filled((2, 3), dtype))
    if not reads_back(dtype):
        with pytest.raises(ZeroCopyError, match=r"np\.asarray\(view\)"):
            memoryview(view)
        return
    window = memoryview(view)
    assert np.asarray(window).dtype == dtype
    if window.format in "?bBhHiIlLqQefd":
        assert struct.calcsize(window.format) == dtype.itemsize


def test_datetimes_keep_their_dtype_or_are_refused():
    for dtype in ("M8[ns]", "m8[ns]", "M8[D]", [("t", "M8[s]")]):
        source = np.zeros(2, dtype)
        view = mv.view(source)
        with pytest.raises(ZeroCopyError, match=r"cast\('i8'\)|its fields"):
            memoryview(view)
        assert np.asarray(view).dtype == source.dtype
    source = np.array(["2024-01-01", "NaT"], "M8[ns]")
    view = mv.view(source)
    assert view.__array_interface__["typestr"] == "<M8[ns]"
    assert np.isnat(view[1])
    assert np.asarray(view).ctypes.data == source.ctypes.data
    assert memoryview(view.cast("i8")).tolist() == source.view("i8").tolist()


def test_requests_without_a_format_carry_any_dtype_as_numpy_does():
    source = np.array(["2024-01-01", "NaT"], "M8[ns]")
    assert hashlib.sha256(mv.view(source)).digest() == hashlib.sha256(source).digest()
    sink = io.BytesIO()
    sink.write(mv.view(source))
    assert sink.getvalue() == source.tobytes()


def test_refusals_name_what_was_wanted():
    view = mv.view(np.ones((2, 3))[:, ::2])
    for flags, words in [
        (0, "C order"),
        (buffers.C_ORDER, "C order"),
        (buffers.F_ORDER, "Fortran order"),
        (buffers.ANY_ORDER, "contiguous"),
    ]:
        with pytest.raises(LayoutError, match=words):
            buffers.probe(view, flags)
    with pytest.raises(ReadOnlyError, match="writable buffer"):
        buffers.probe(view, buffers.FULL_RO | buffers.WRITABLE)


def test_a_writable_export_writes_into_the_array():
    source = np.zeros(4)
    window = memoryview(mv.view(source, writable=True))
    window[2] = 5
    assert source[2] == 5
    assert memoryview(mv.view(source)).readonly
    with pytest.raises(TypeError):
        memoryview(mv.view(source))[2] = 5


def test_an_export_outlives_every_name():
    window = memoryview(mv.view(np.arange(1000.0))[::2])
    assert window[499] == 998.0
    assert array.array("d", window)[3] == 6.0


def test_release_waits_for_consumers():
    view = mv.view(np.arange(4))
    held = [buffers.acquire(view, buffers.FULL_RO) for _ in range(3)]
    for buffer in held:
        with pytest.raises(ExportedError, match="still use its memory"):
            view.release()
        buffers.release(buffer)
    view.release()
    assert view.closed


def test_failed_exports_leave_nothing_held():
    view = mv.view(np.ones((2, 3))[:, ::2])
    for flags in ALL_FLAGS:
        outcome(buffers.probe, view, flags)
    view.release()
