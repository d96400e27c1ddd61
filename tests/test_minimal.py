"""The one file to run if only one is run: it touches every public feature, in a few seconds.

`test_house.py` checks that every name of `mojoview.__all__` is used here.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import os
import sys

import numpy as np
import pandas as pd
import pytest

import mojoview as mv
from mojoview.cli.main import main
from mojoview.memory._lease import live_leases

MOJO = """
from mojoview import E_USER, In, InOut, OK, Status

comptime E_COLD = Status(E_USER + 1)
\"\"\"ValueError: the sample is too cold.\"\"\"


@export("scale_f64")
def scale_f64(a: Float64, x: InOut[DType.float64]) abi("C") -> Status:
    for i in range(len(x)):
        x[i] = a * x[i]
    return OK


@export("scale_f32")
def scale_f32(a: Float32, x: InOut[DType.float32]) abi("C") -> Status:
    for i in range(len(x)):
        x[i] = a * x[i]
    return OK


@export("probe")
def probe(x: In[DType.float64]) abi("C") -> Status:
    for i in range(len(x)):
        if x[i] < 0:
            return E_COLD.at(i)
    return OK
"""


@pytest.fixture(scope="module", autouse=True)
def private_directories(tmp_path_factory):
    """Keep the names of shared memory and the compiled kernels apart from those of other programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOJOVIEW_SHM_DIR", str(tmp_path_factory.mktemp("shm")))
        patch.setenv("MOJOVIEW_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def test_version_and_build():
    assert mv.__version__[0].isdigit()
    assert mv.build_config()["c_compiler"]
    assert os.path.exists(os.path.join(mv.get_include(), "abi.h"))
    assert (mv.get_mojo_include() / "mojoview").is_dir()


@pytest.mark.parametrize(
    "obj",
    [np.arange(6.0).reshape(2, 3), b"bytes", bytearray(8), memoryview(b"12345678").cast("d"), np.zeros(2, "M8[ns]")],
    ids=lambda obj: type(obj).__name__,
)
def test_view_shares_and_releases(obj):
    before = live_leases()
    view = mv.view(obj)
    assert isinstance(view, mv.View)
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


def test_slices_and_reshapes_share():
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


def test_pointer_tables_mapped_files_and_borrow_checking(tmp_path):
    columns = [np.arange(3.0), np.ones(3)]
    with mv.PointerTable(columns) as table:
        assert np.asarray(table).tolist() == [column.ctypes.data for column in columns]
    np.arange(10.0).tofile(tmp_path / "numbers")
    with mv.map_file(tmp_path / "numbers", "f8", 3, offset=16) as view:
        assert np.asarray(view).tolist() == [2, 3, 4]
    array = np.zeros(3)
    with mv.borrow_check(True), mv.view(array, writable=True), pytest.raises(mv.BorrowError):
        mv.view(array)


def test_exchange():
    array = np.arange(6, dtype="f4")
    view = mv.view(array)
    for shared in (np.asarray(view), np.from_dlpack(view), np.asarray(memoryview(view))):
        assert np.shares_memory(shared, array)
    assert view.__array_interface__["data"][0] == array.ctypes.data
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow.array(view).to_pylist() == array.tolist()
    assert np.asarray(mv.view(pyarrow.array([1.5, 2.5]))).tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("call", "error", "builtin"),
    [
        (lambda: mv.view(object()), mv.MojoViewError, TypeError),
        (lambda: mv.view(b"x", writable=True), mv.ReadOnlyError, BufferError),
        (lambda: mv.view(np.arange(6).reshape(2, 3).T).reshape(6), mv.ZeroCopyError, ValueError),
        (lambda: memoryview(mv.view(np.zeros(1, "M8[s]"))), mv.ZeroCopyError, BufferError),
        (lambda: mv.view(np.arange(4, dtype="i4")[::2]).cast("i2"), mv.LayoutError, ValueError),
        (lambda: mv.view(np.arange(3)).reshape(2), mv.ShapeError, ValueError),
        (lambda: mv.view(np.arange(3))[5], mv.MojoViewError, IndexError),
        (lambda: np.asarray(mv.view(np.ma.array([1.0, 2.0], mask=[0, 1]))), mv.MaskError, ValueError),
        (lambda: mv.kernels.sum(np.array(["a"])), mv.DTypeError, TypeError),
        (lambda: mv.attach("missing"), mv.MojoViewError, FileNotFoundError),
    ],
)
def test_errors_are_of_one_tree_and_of_the_builtins(call, error, builtin):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, mv.MojoViewError)
    assert isinstance(caught.value, builtin)


def test_errors_that_need_a_special_machine_are_of_the_tree_too():
    for error, builtin in [
        (mv.StaleError, BufferError),
        (mv.CompilerNotFound, ImportError),
        (mv.KernelCompileError, RuntimeError),
        (mv.KernelMemoryError, MemoryError),
    ]:
        assert issubclass(error, mv.MojoViewError)
        assert issubclass(error, builtin)


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
    with pytest.raises(mv.ShapeError):
        mv.kernels.add(x, np.ones(5), out)
    with pytest.raises(mv.OverlapError):
        mv.kernels.add(x[1:], x[1:], x[:-1])
    signature = mv.kernels.axpy.signature
    assert isinstance(signature, mv.Signature)
    assert [parameter.name for parameter in signature.params] == ["a", "x", "y"]
    assert all(isinstance(parameter, mv.Param) for parameter in signature.params)


def test_asynchronous_calls_and_canaries():
    x = np.ones(100_000)
    assert mv.kernels.sum.submit(x).result(timeout=30) == x.sum()

    async def both():
        return await asyncio.gather(mv.kernels.sum.aio(x), mv.kernels.mean.aio(x))

    assert asyncio.run(both()) == [x.sum(), 1]
    assert mv.kernels.dot.canary(lambda a, b: float(a @ b), sample=1)(x, x) == x.size


def test_c_functions():
    libm = mv.load_library("libm.so.6", "double hypot(double x, double y)")
    assert isinstance(libm, mv.KernelModule)
    assert libm.hypot(3.0, 4.0) == 5
    ldexp = mv.from_function(ctypes.CDLL("libm.so.6").ldexp, "double ldexp(double x, int exponent)")
    assert ldexp(0.75, 4) == 12


def test_python_beside_kernels():
    @mv.native(mv.kernels.axpy)
    def add_scaled(a: float, x: np.ndarray, y: np.ndarray) -> None:
        y += a * x

    class Signal:
        energy_of = mv.kernels.dot
        reference = mv.python_attribute(lambda x: float(x @ x))

        def __init__(self, samples):
            self.samples = samples

        @mv.python_callable
        def energy(self):
            return self.energy_of(self.samples, self.samples)

    x, native, python = np.arange(3.0), np.zeros(3), np.zeros(3)
    add_scaled(2.0, x, native)
    add_scaled.reference(2.0, x, python)
    assert native.tolist() == python.tolist() == [0, 2, 4]
    signal = Signal(x)
    assert signal.energy == signal.reference(x) == 5


def test_safe_calls():
    libc = ctypes.CDLL(None)
    x = np.arange(4.0)
    assert mv.safe_call(mv.kernels.sum, x, safety="strict") == 6
    assert mv.safe_call(mv.kernels.sum, x, timeout=60) == 6
    with pytest.raises(mv.KernelCrashed) as caught:
        mv.safe_call(mv.from_function(libc.abort, "void abort(void)"), isolate=True)
    assert isinstance(caught.value, mv.MojoSafetyError)
    with pytest.raises(mv.KernelTimeout):
        mv.safe_call(mv.from_function(libc.pause, "int pause(void)"), timeout=0.1)


@pytest.mark.mojo
def test_mojo_kernels(tmp_path, monkeypatch):
    (tmp_path / "minimal_kernels.mojo").write_text(MOJO)
    module = mv.load(tmp_path / "minimal_kernels.mojo")
    assert isinstance(module, mv.KernelModule)
    assert isinstance(module.scale, mv.KernelFamily)
    assert isinstance(module.errors, mv.ErrorTable)
    for dtype in ("f4", "f8"):
        x = np.arange(3, dtype=dtype)
        module.scale(2.0, x)
        assert x.tolist() == [0, 2, 4]
    with pytest.raises(mv.KernelError, match="too cold") as caught:
        module.probe(np.array([1.0, -1.0]))
    assert isinstance(caught.value, ValueError)
    monkeypatch.syspath_prepend(tmp_path)
    with mv.enable_hook():
        assert importlib.import_module("minimal_kernels").probe(np.ones(2)) is None
    del sys.modules["minimal_kernels"]


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
    finished = np.arange(4.0)
    frame.mojo.assign("c", finished)
    assert np.shares_memory(frame["c"].to_numpy(), finished)
    fresh = pd.DataFrame({"a": np.arange(2.0)}).copy()
    with fresh.mojo.lease("a") as a:
        a[0] = 7
    assert fresh["a"].tolist() == [7, 1]
    assert frame.mojo.iview(0).ptr == frame.mojo.view("a").ptr
    assert frame.mojo.block("i8").shape[1] == 4
    assert frame[["a", "b"]].mojo.describe().loc["a", "mean"] == frame["a"].mean()
    assert pd.Index([1.5, 2.5]).mojo.view().size == 2


def test_shared_arrays():
    array = np.arange(3.0)
    with mv.share(array, "minimal") as shared:
        assert isinstance(shared, mv.SharedArray)
        with mv.attach("minimal") as reader:
            assert np.asarray(reader.read()).tolist() == array.tolist()
        (found,) = mv.segments()
        assert isinstance(found, mv.SegmentInfo)
        assert (found.name, found.state) == ("minimal", "live")
        mv.unlink("minimal")
    assert mv.cleanup() == []
    with mv.Pool() as pool, pool.share(array) as shared:
        assert np.asarray(shared.read()).tolist() == array.tolist()
    with pd.DataFrame({"a": array}).mojo.share() as shared:
        assert isinstance(shared, mv.SharedFrame)


def test_states_and_snapshots():
    with mv.State.create("state", [("t", "i8"), ("q", "f8", 4)]) as writer, mv.State.attach("state") as state:
        writer.out["q"] = 1, 2, 3, 4
        writer.publish()
        assert state.poll()
        assert state.out["q"].tolist() == [1, 2, 3, 4]
    with mv.Snapshot.create("snapshot", (2, 3), "f8") as writer, mv.Snapshot.attach("snapshot") as snapshot:
        with writer.write() as array:
            array[:] = 5
        assert snapshot.read()[1, 2] == 5


def test_rings():
    with mv.Ring.create("ring", dtype=[("t", "f8"), ("n", "i4")]) as ring, mv.Ring.attach("ring") as reader:
        ring.write(np.array([(0.5, 3)], ring.dtype))
        with reader.read() as frames:
            assert [(frame.seq, frame.view["n"][0]) for frame in frames] == [(0, 3)]


def test_shared_frames():
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"price": [1.5, 2.5], "city": pd.Categorical(["Rome", "Oslo"])})
    with frame.mojo.share("prices"), mv.attach("prices") as reader:
        pd.testing.assert_frame_equal(reader.read(), frame)


def test_commands(capsys):
    assert main(["cache", "info"]) == 0
    assert "entries" in capsys.readouterr().out
    with mv.Ring.create("listed"):
        assert main(["shm", "list"]) == 0
    assert "listed" in capsys.readouterr().out
