"""Pointer tables: addresses side by side, in use until released, the last view first."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import buffers
from support.arrays import arrays
from support.threads import run_threaded

import mojoview as mv
from mojoview.memory.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    ExportedError,
    LayoutError,
    MaskError,
    ReadOnlyError,
    ReleasedError,
    ShapeError,
)
from mojoview.views._construct import with_device


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
def test_addresses_side_by_side_on_a_cache_line(count):
    columns = [np.full(3, float(k)) for k in range(count)]
    with mv.PointerTable(columns) as table:
        assert len(table) == count
        assert table.address % 64 == 0
        pointers = (ctypes.POINTER(ctypes.c_double) * count).from_address(table.address)
        assert [p[2] for p in pointers] == [float(k) for k in range(count)]
        window = np.asarray(table)
        assert window.dtype == np.uint64
        assert window.ctypes.data == table.address or not count
        assert window.tolist() == [column.ctypes.data for column in columns]
        assert not window.flags.writeable
        del window


@given(st.lists(arrays(), max_size=5))
def test_descriptors_of_any_views(sources):
    views = [mv.view(source) for source in sources]
    with mv.PointerTable(views, to="descriptors") as table:
        for source, address in zip(sources, np.asarray(table).tolist(), strict=True):
            data, size = (ctypes.c_int64 * 2).from_address(address)
            assert address % 64 == 0
            assert size == source.size
            assert data == source.ctypes.data or not size
        assert (table.dtype, table.rows) == (None, None)


@pytest.mark.parametrize(("shape", "rows"), [((5,), 5), ((2, 3), 2), ((0, 3), 0), ((), None)])
def test_rows_is_the_length_of_the_first_axis(shape, rows):
    with mv.PointerTable([np.zeros(shape)] * 3) as table:
        assert (len(table), table.rows, table.dtype) == (3, rows, np.float64)
    with mv.PointerTable([]) as table:
        assert (len(table), table.rows, table.dtype) == (0, None, None)


def test_views_stay_in_use_until_the_table_lets_go():
    view = mv.view(np.arange(3.0))
    table = mv.PointerTable([view, view, view[:]])
    for _ in range(2):
        with pytest.raises(ExportedError, match="2 consumer"):
            view.release()
    assert table.views[0] is view
    table.release()
    table.release()
    assert table.closed
    view.release()
    for use in (
        lambda: table.address,
        lambda: len(table),
        lambda: table.views,
        lambda: memoryview(table),
        table.__enter__,
    ):
        with pytest.raises(ReleasedError):
            use()
    assert "released" in repr(table)


@pytest.mark.parametrize("how", ["release", "drop", "cycle"])
def test_views_go_in_the_reverse_order(how):
    class Memory(bytearray):
        pass

    gone = []
    owners = [Memory(8) for _ in range(6)]
    for k, owner in enumerate(owners):
        weakref.finalize(owner, gone.append, k)
    table = mv.PointerTable(owners)
    owners.clear()
    del owner
    assert gone == []
    if how == "release":
        table.release()
    elif how == "cycle":
        table.views[0].owner.cycle = [table]
    del table
    gc.collect()
    assert (gone if how != "cycle" else sorted(gone, reverse=True)) == [5, 4, 3, 2, 1, 0]  # the collector has its own


def test_a_table_that_is_used_is_not_released():
    table = mv.PointerTable([np.arange(3)])
    window = memoryview(table)
    with pytest.raises(ExportedError, match="1 consumer"):
        table.release()
    with pytest.raises(ZeroDivisionError), table:
        raise ZeroDivisionError
    assert not table.closed
    window.release()
    table.release()


@pytest.mark.parametrize("flags", range(512))
def test_every_request_for_a_buffer(flags):
    if flags == 0x100:
        pytest.skip("PyBUF_READ, no request")
    table = mv.PointerTable([np.arange(3)] * 2)
    if flags & buffers.WRITABLE:
        with pytest.raises(ReadOnlyError):
            buffers.probe(table, flags)
    else:
        got = buffers.probe(table, flags)
        assert (got.buf, got.len, got.itemsize, got.ndim, got.readonly) == (table.address, 16, 8, 1, True)
        assert got.format == (b"L" if flags & buffers.FORMAT else None)
        assert got.shape == ((2,) if flags & buffers.ND else None)
        assert got.strides == ((8,) if flags & 0x18 == 0x18 else None)
    table.release()


DENSE = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("objects", "options", "error", "words"),
    [
        ([DENSE, DENSE.T], {}, LayoutError, "view 1 has strides"),
        ([DENSE, DENSE.astype("f4")], {}, DTypeError, "view 1 is of dtype float32"),
        ([DENSE, DENSE[:1]], {}, ShapeError, "view 1 is of shape"),
        ([DENSE.astype(">f8")], {}, DTypeError, "byte order"),
        ([np.ma.array([1, 2], mask=[0, 1])], {}, MaskError, "view 0 has a mask"),
        ([mv.view(DENSE)], {"writable": True}, ReadOnlyError, "view 0 is read-only"),
        ([with_device(mv.view(DENSE), 2, 0)], {"to": "descriptors"}, DeviceError, "cuda:0"),
        ([None], {}, ArgumentError, "view"),
        (3, {}, ArgumentError, "iterable"),
        ([DENSE], {"to": "rows"}, ArgumentError, "'descriptors'"),
        ([DENSE], {"to": None}, ArgumentError, "'descriptors'"),
        ([DENSE], {"writable": 1}, ArgumentError, "expected a bool"),
    ],
)
def test_refusals_hold_nothing(objects, options, error, words):
    with pytest.raises(error, match=words):
        mv.PointerTable(objects, **options)


def test_views_before_the_refused_one_are_let_go():
    first = mv.view(DENSE)
    with pytest.raises(ShapeError):
        mv.PointerTable([first, DENSE[:1]])
    first.release()


def test_writable_tables():
    columns = [np.zeros(3), np.zeros(3)]
    with mv.PointerTable(columns, writable=True) as table:
        assert not table.readonly
        for address in np.asarray(table).tolist():
            (ctypes.c_double * 3).from_address(address)[1] = 5.0
    assert columns[0].tolist() == columns[1].tolist() == [0, 5, 0]


def test_released_views_are_refused_and_tables_cannot_be_copied():
    view = mv.view(DENSE)
    view.release()
    other = mv.view(DENSE)
    with pytest.raises(ReleasedError):
        mv.PointerTable([other, view])
    other.release()
    table = mv.PointerTable([DENSE])
    for copier in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ArgumentError, match="cannot be pickled"):
            copier(table)


def test_one_table_in_many_threads():
    table = mv.PointerTable([np.full(4, float(k)) for k in range(5)])

    def use(_):
        for _ in range(200):
            memoryview(table).release()
            assert mv.kernels.max(table) >= table.views[0].ptr

    run_threaded(use)
    table.release()
