"""Every kind of exporter: the standard library's, ctypes, Python-level ones, NumPy's scalars; all sorts of formats."""

from __future__ import annotations

import array
import ctypes
import mmap
import sys

import numpy as np
import pytest
from support.arrays import PLAIN, assert_same

import mojoview as mv
from mojoview.memory.errors import ArgumentError, DTypeError, MojoViewError, ReadOnlyError, ShapeError, ZeroCopyError

_testbuffer = pytest.importorskip("_testbuffer", reason="this Python was built without its test modules")


def same_as_memoryview(view, exporter):
    window = memoryview(exporter)
    assert view.shape == window.shape
    assert view.strides == window.strides or window.nbytes == 0
    assert view.itemsize == window.itemsize
    assert np.asarray(view).tobytes() == window.tobytes()
    assert view.readonly
    assert view.owner is exporter


@pytest.mark.parametrize(
    "exporter",
    [bytes(range(20)), b"", bytearray(b"abc"), memoryview(b"abcdefgh").cast("d"), memoryview(b"")],
    ids=["bytes", "no bytes", "bytearray", "memoryview of doubles", "memoryview of nothing"],
)
def test_bytes_and_memoryviews(exporter):
    same_as_memoryview(mv.view(exporter), exporter)


@pytest.mark.filterwarnings("ignore:The 'u' type code is deprecated")
@pytest.mark.parametrize("code", [c for c in array.typecodes if c != "w"])
def test_array_array(code):
    exporter = array.array(code, "ab" if code == "u" else [1, 2, 3])
    view = mv.view(exporter)
    same_as_memoryview(view, exporter)
    assert view.dtype == (np.dtype("U1") if code == "u" else np.dtype(code))
    with pytest.raises(BufferError):
        exporter.append(exporter[0])
    view.release()
    exporter.append(exporter[0])


def test_memoryview_casts_and_sub_views():
    data = memoryview(bytearray(range(48)))
    for exporter in (
        data[::2],
        data[::-3],
        data.cast("B", (4, 12)),
        data.cast("d", (2, 3)),
        data.cast("i", (2, 3, 2)),
        data.cast("B", ()[:0] or (48,)),
        data.cast("c"),
        data.cast("?"),
        data[5:6],
        data[5:5],
        data.cast("B", (48,)).toreadonly(),
    ):
        same_as_memoryview(mv.view(exporter), exporter)
    zero_d = memoryview(b"12345678").cast("B").cast("d", ())
    assert mv.view(zero_d).shape == ()
    assert mv.view(data.cast("c")).dtype == np.dtype("S1")


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_memoryviews_of_arrays(dtype):
    source = np.ones((4, 6), dtype)[::2, ::-3]
    assert_same(mv.view(memoryview(source)), source)


def test_mmap(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 16)
    with path.open("r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    view = mv.view(mapping)
    assert (view.size, int(view[255])) == (4096, 255)
    mv.view(mapping, writable=True)[0] = 9
    assert mapping[0] == 9
    view.release()
    mapping.close()


def test_ctypes():
    class Pair(ctypes.Structure):
        _fields_ = [("x", ctypes.c_int32), ("y", ctypes.c_double)]

    class Packed(ctypes.Structure):
        _pack_ = 1
        _layout_ = "ms"
        _fields_ = [("x", ctypes.c_int32), ("y", ctypes.c_double)]

    number = ctypes.c_double(2.5)
    assert mv.view(number).shape == ()
    assert float(mv.view(number)[()]) == 2.5
    grid = (ctypes.c_int16 * 3 * 2)((1, 2, 3), (4, 5, 6))
    assert np.asarray(mv.view(grid)).tolist() == [[1, 2, 3], [4, 5, 6]]
    mv.view(grid, writable=True)[1, 2] = 60
    assert grid[1][2] == 60
    pairs = (Pair * 2)((1, 2.0), (3, 4.0))
    view = mv.view(pairs)
    assert view.dtype.names == ("x", "y")
    assert np.asarray(view["y"]).tolist() == [2.0, 4.0]
    assert (view["y"].ptr - view.ptr, view.itemsize) == (Pair.y.offset, ctypes.sizeof(Pair))
    packed = mv.view((Packed * 2)())
    assert packed.itemsize == 12
    assert packed.dtype.fields["y"][1] == 4
    assert mv.view((ctypes.c_char * 4)(*b"abcd")).dtype == np.dtype("S1")
    assert mv.view((ctypes.c_double * 0)()).size == 0
    swapped = (ctypes.c_int32.__ctype_be__ * 2)(1, 2)
    assert mv.view(swapped).dtype == np.dtype(">i4")


def test_ctypes_that_contradict_themselves_or_hold_references():
    class Bits(ctypes.Structure):
        _fields_ = [("a", ctypes.c_uint32, 3), ("b", ctypes.c_uint32, 5)]

    class Either(ctypes.Union):
        _fields_ = [("i", ctypes.c_int32), ("d", ctypes.c_double)]

    for exporter in ((Bits * 2)(), (ctypes.py_object * 2)(), (ctypes.c_char_p * 2)(), ctypes.pointer(ctypes.c_int())):
        with pytest.raises(DTypeError):
            mv.view(exporter)
    assert mv.view((Either * 2)((5,), (7,)))["i"][1] == 7


@pytest.mark.parametrize("code", "?bhilqBHILQefdgFDG")
def test_numpy_scalars_are_read_only_and_live_on(code):
    scalar = np.dtype(code).type(3)
    view = mv.view(scalar)
    assert view.shape == ()
    assert view[()] == scalar
    with pytest.raises(ReadOnlyError):
        mv.view(scalar, writable=True)


def test_numpy_scalars_state_their_dtype():
    for scalar in (np.datetime64("2024-01-01"), np.timedelta64(3, "s")):
        for copy in ("never", "always"):
            view = mv.view(scalar, copy=copy)
            assert (view.dtype, view.shape) == (scalar.dtype, ())
            assert view[()] == scalar
    record = np.zeros(1, [("a", "i4"), ("b", "f8")])[0]
    assert mv.view(record).dtype.names == ("a", "b")
    assert mv.view(np.bytes_(b"abc")).nbytes == 3
    assert mv.view(np.str_("abc")).dtype == np.dtype("U3")


FORMATS = {
    "<i": "<i4",
    ">i": ">i4",
    "=i": "=i4",
    "@i": "i",
    "i": "i",
    "=l": "=i4",
    "@l": "l",
    "l": "l",
    "<q": "<i8",
    "n": "p",
    "N": "P",
    "@n": "p",
    ">d": ">f8",
    "<e": "<f2",
    "?": "?",
    "c": "S1",
    "B": "u1",
    "@b": "i1",
    ">H": ">u2",
    "f": "f4",
    "!i": ">i4",
}


@pytest.mark.parametrize("format", FORMATS)
def test_formats_with_and_without_prefixes(format):
    item = 0 if format[0] in "bB?c" else 1
    exporter = _testbuffer.ndarray([b"a" if format == "c" else item] * 3, shape=[3], format=format)
    view = mv.view(exporter)
    assert view.dtype == np.dtype(FORMATS[format].replace("p", "intp").replace("P", "uintp"))
    same_as_memoryview(view, exporter)


@pytest.mark.parametrize(
    ("format", "items", "dtype"),
    [
        ("3s", b"abc", "S3"),
        ("s", b"a", "S1"),
        ("4x", (), None),
        ("ii", (1, 2), [("f0", "i4"), ("f1", "i4")]),
        ("P", 0, None),
        ("2i", (1, 2), None),
        ("hxxi", (1, 2), None),
        ("5p", b"ab", None),
    ],
)
def test_structured_and_unknown_formats(format, items, dtype):
    exporter = _testbuffer.ndarray([items] * 2, shape=[2], format=format)
    try:
        view = mv.view(exporter)
    except DTypeError:
        assert dtype is None
    else:
        assert view.itemsize == memoryview(exporter).itemsize
        assert dtype is None or view.dtype == np.dtype(dtype)


def test_strides_offsets_and_suboffsets_of_a_c_exporter():
    nd = _testbuffer
    plain = nd.ndarray(list(range(12)), shape=[3, 4], format="i", flags=nd.ND_WRITABLE)
    assert np.asarray(mv.view(plain)).tolist() == plain.tolist()
    assert np.asarray(mv.view(plain[::-2])).tolist() == plain[::-2].tolist()
    mv.view(plain, writable=True)[0, 0] = 99
    assert plain.tolist()[0][0] == 99
    fortran = nd.ndarray(list(range(12)), shape=[3, 4], format="i", flags=nd.ND_FORTRAN)
    assert mv.view(fortran).f_contiguous
    assert np.asarray(mv.view(fortran)).tolist() == fortran.tolist()
    pointers = nd.ndarray(list(range(12)), shape=[3, 4], format="i", flags=nd.ND_PIL)
    with pytest.raises(ZeroCopyError, match="suboffsets"):
        mv.view(pointers)
    with pytest.raises(ReadOnlyError):
        mv.view(nd.ndarray([1], shape=[1], format="i"), writable=True)
    with pytest.raises(ShapeError, match="9 dimensions"):
        mv.view(nd.ndarray([1], shape=[1] * 9, format="i"))
    assert mv.view(nd.ndarray(7, shape=[], format="i")).shape == ()


@pytest.mark.parametrize(
    "obj",
    [
        None,
        1,
        1.5,
        "text",
        [1, 2],
        (1,),
        {1},
        {},
        object(),
        int,
        print,
        ...,
        range(3),
        10**5000,
        np.dtype("f8"),
        np,
        float("nan"),
    ],
    ids=lambda o: type(o).__name__,
)
def test_what_exports_nothing_is_an_argument_error(obj):
    with pytest.raises(ArgumentError, match="the buffer protocol, __array_interface__, __dlpack__"):
        mv.view(obj)


if sys.version_info >= (3, 12):

    class Export:
        """A Python-level exporter that allocates an export and notices when it comes back."""

        def __init__(self, size=64, error=None, result=None):
            self.size, self.error, self.result, self.live, self.flags = size, error, result, 0, []

        def __buffer__(self, flags):
            self.flags.append(flags)
            if self.error is not None:
                raise self.error
            if self.result is not None:
                return self.result
            self.live += 1
            return memoryview(bytearray(self.size))

        def __release_buffer__(self, view):
            self.live -= 1
            view.release()

    def test_a_python_exporter_is_held_exactly_once():
        exporter = Export()
        view = mv.view(exporter)
        assert (exporter.live, len(exporter.flags)) == (1, 1)
        parts = [view[::2], view.cast("f8"), view.reshape(8, 8).T]
        consumers = [memoryview(view), np.asarray(parts[1])]
        view = None
        assert exporter.live == 1
        parts.clear()
        assert exporter.live == 1
        consumers.pop()
        assert exporter.live == 1
        consumers.clear()
        assert exporter.live == 0

    def test_writable_memory_is_asked_for():
        class OnRequest:
            memory = bytearray(4)

            def __buffer__(self, flags):
                window = memoryview(self.memory)
                return window if flags & 1 else window.toreadonly()

        exporter = OnRequest()
        assert mv.view(exporter).readonly
        mv.view(exporter, writable=True)[2] = 7
        assert exporter.memory[2] == 7

    def test_refused_views_give_the_export_back():
        for options in ({"writable": 3}, {"copy": 5}):
            with pytest.raises(ArgumentError):
                mv.view(Export(), **options)
        exporter = Export(result=memoryview(bytes(8)))
        with pytest.raises(ReadOnlyError):
            mv.view(exporter, writable=True)

    @pytest.mark.parametrize(
        "error", [BufferError, ValueError, TypeError, RuntimeError, KeyError, ZeroDivisionError, AttributeError]
    )
    def test_errors_of_the_exporter_become_ours_with_its_words(error):
        for writable in (False, True):
            with pytest.raises(MojoViewError) as caught:
                mv.view(Export(error=error("its own words")), writable=writable)
            assert isinstance(caught.value.__cause__, error)

    @pytest.mark.parametrize("result", [5, b"bytes", None, "x"], ids=repr)
    def test_exporters_that_return_no_memoryview(result):
        class Bad:
            def __buffer__(self, flags):
                return result

        with pytest.raises(MojoViewError):
            mv.view(Bad())
