"""The one file to run if only one is run: it touches every public feature, in a few seconds."""

from __future__ import annotations

import gc

import numpy as np
import pandas as pd
import pytest

import mojoview as mv
from mojoview.memory._lease import live_leases


def test_version_and_build():
    assert mv.__version__[0].isdigit()
    assert mv.build_config()["c_compiler"]


@pytest.mark.parametrize(
    "obj",
    [np.arange(6.0).reshape(2, 3), b"bytes", bytearray(8), memoryview(b"12345678").cast("d"), np.zeros(2, "M8[ns]")],
    ids=lambda obj: type(obj).__name__,
)
def test_view_shares_and_lets_go(obj):
    before = live_leases()
    view = mv.view(obj)
    assert view.owner is obj
    assert view.readonly
    array = obj if isinstance(obj, np.ndarray) else np.asarray(memoryview(obj))
    assert np.shares_memory(np.asarray(view), array)
    assert view.shape == array.shape
    del array
    assert "at 0x" in repr(view)
    assert "<table" in view._repr_html_()
    del view
    gc.collect()
    assert live_leases() == before


def test_windows():
    array = np.arange(24, dtype="i4").reshape(4, 6)
    view = mv.view(array)
    for window, expected in [
        (view[1:, ::-2], array[1:, ::-2]),
        (view.T, array.T),
        (view.reshape(6, 4), array.reshape(6, 4)),
        (view.cast("u2"), array.view("u2")),
        (mv.view(np.zeros(3, [("a", "i4"), ("b", "f8")]))["b"], np.zeros(3)),
    ]:
        np.testing.assert_array_equal(np.asarray(window), expected)
    assert view[2, 3] == array[2, 3]


def test_writing_copying_and_masks():
    array = np.arange(3.0)
    mv.view(array, writable=True)[1] = 9
    assert array[1] == 9
    copied = mv.view([1, 2], copy="if_needed")
    assert copied.ptr % 64 == 0
    masked = mv.view(np.ma.array([1, 2], mask=[False, True]))
    assert (masked[0], masked[1]) == (1, None)
    window = mv.from_ptr(array.ctypes.data, 3, "f8", owner=array)
    assert float(window[1]) == 9


def test_errors_are_of_one_tree_and_of_the_builtins():
    for call, builtin in [
        (lambda: mv.view(object()), TypeError),
        (lambda: mv.view(b"x", writable=True), BufferError),
        (lambda: memoryview(mv.view(np.zeros(1, "M8[s]"))), BufferError),
        (lambda: mv.view(np.arange(6).reshape(2, 3).T).reshape(6), ValueError),
        (lambda: mv.view(np.arange(3))[5], IndexError),
    ]:
        with pytest.raises(mv.MojoViewError) as caught:
            call()
        assert isinstance(caught.value, builtin)


def test_release():
    with mv.view(bytearray(8)) as view:
        assert not view.closed
    assert view.closed
    with pytest.raises(mv.ReleasedError):
        _ = view.shape


def test_kernels():
    x, y = np.arange(6.0), np.ones(6)
    out = np.empty(6)
    assert mv.kernels.sum(x) == 15
    assert mv.kernels.dot(x, mv.view(y)) == 15
    mv.kernels.add(x, y, out)
    np.testing.assert_array_equal(out, x + y)
    assert mv.kernels.mean(mv.view(np.ma.array([1.0, 9.0], mask=[False, True]))) == 1
    with pytest.raises(mv.MojoViewError):
        mv.kernels.add(x, np.ones(5), out)


def test_frames():
    frame = pd.DataFrame({"a": np.arange(4.0), "b": np.arange(4), "t": pd.date_range("2024", periods=4)})
    column = frame.mojo.view("a")
    assert np.shares_memory(np.asarray(column), frame["a"].to_numpy())
    assert mv.kernels.sum(column) == 6
    assert np.asarray(frame.mojo.view("t")).dtype.kind == "M"
    assert list(frame.mojo.view().columns) == ["a", "b", "t"]
    assert mv.view(frame["b"]).size == 4
    assert frame["a"].mojo.view().readonly
    assert len(frame.mojo.explain()) == 3
