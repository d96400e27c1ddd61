"""Capsules built by hand: right ones of every kind, wrong ones of every kind, and what becomes of their deleters."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from producers import capsules
from producers.dlpack import (
    ALLOCATE,
    CUDA,
    CUDA_HOST,
    FROM_OBJECT,
    MANAGED,
    PADDED,
    READ_ONLY,
    SET_ERROR,
    STREAM,
    TO_OBJECT,
    Managed,
    Producer,
    Table,
    Tensor,
    consume,
    tensor_of,
)

import mojoview as mv
from mojoview.memory._lease import live_leases
from mojoview.memory.errors import (
    DeviceError,
    DTypeError,
    InterfaceError,
    LayoutError,
    MojoViewError,
    ReadOnlyError,
    ShapeError,
    ZeroCopyError,
)
from mojoview.views.dlpack._from_dlpack import from_dlpack


def doubles(n=12):
    return (ctypes.c_double * n)(*range(n))


@pytest.mark.parametrize("legacy", [False, True])
def test_the_deleter_runs_once_when_the_last_view_goes(legacy):
    producer = Producer(doubles(), (3, 4), (4, 1), legacy=legacy)
    v = mv.view(producer)
    part = v[1:, ::2]
    assert producer.deleted == 0
    v.release()
    assert producer.deleted == 0
    assert np.asarray(part).tolist() == [[4, 6], [8, 10]]
    part.release()
    del part
    gc.collect()
    assert producer.deleted == 1


@pytest.mark.parametrize("legacy", [False, True])
def test_null_strides_mean_row_major(legacy):
    producer = Producer(doubles(), (3, 4), None, legacy=legacy)
    assert mv.view(producer).strides == (32, 8)
    assert np.asarray(mv.view(producer))[2].tolist() == [8, 9, 10, 11]


def test_no_dimensions_without_arrays():
    producer = Producer(doubles(1), None, None)
    assert mv.view(producer).shape == ()
    assert float(np.asarray(mv.view(producer))) == 0.0


def test_byte_offset_and_missing_deleter():
    data = doubles()
    v = mv.view(Producer(data, (2,), (1,), byte_offset=24, no_deleter=True))
    assert v.ptr == ctypes.addressof(data) + 24
    assert list(v) == [3, 4]


def test_a_capsule_is_taken_once():
    producer = Producer(doubles(), (2,), (1,))
    capsule = producer.__dlpack__()
    once = type("Once", (), {"__dlpack__": lambda self, **_: capsule})()
    v = mv.view(once)
    assert capsules.is_valid(capsule, "used_dltensor_versioned")
    with pytest.raises(InterfaceError, match="was consumed"):
        mv.view(once)
    del v
    gc.collect()
    assert producer.deleted == 1


WRONG = {
    "no capsule": ({}, InterfaceError),
    "dimensions": ({"shape": (1,) * 9, "strides": (1,) * 9}, ShapeError),
    "negative dimensions": ({"ndim": -1}, ShapeError),
    "no shape": ({"shape": None, "ndim": 2}, InterfaceError),
    "negative size": ({"shape": (-1, 4)}, InterfaceError),
    "huge": ({"shape": (2**40, 2**40)}, InterfaceError),
    "huge item": ({"shape": (2**61,)}, InterfaceError),
    "stride": ({"shape": (3,), "strides": (2**61,)}, InterfaceError),
    "far stride": ({"shape": (2**20,), "strides": (2**50,)}, InterfaceError),
    "before memory": ({"shape": (2**30,), "strides": (-(2**40),)}, InterfaceError),
    "NULL": ({"data": None, "shape": (3,)}, InterfaceError),
    "offset": ({"shape": (3,), "byte_offset": 2**64 - 8}, InterfaceError),
    "no bits": ({"shape": (3,), "bits": 0}, DTypeError),
    "no lanes": ({"shape": (3,), "lanes": 0}, DTypeError),
    "packed": ({"shape": (3,), "code": 17, "bits": 4}, DTypeError),
    "packed 6": ({"shape": (3,), "code": 15, "bits": 6}, DTypeError),
    "major": ({"shape": (3,), "version": (2, 0)}, InterfaceError),
    "device 0": ({"shape": (3,), "device": (0, 0)}, DeviceError),
    "device 999": ({"shape": (3,), "device": (999, 0)}, DeviceError),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_tensors_are_refused_and_left_to_their_capsule(case):
    fields, error = WRONG[case]
    producer = Producer(**{"data": doubles(), **fields})
    if case == "no capsule":
        producer = type("Liar", (), {"__dlpack__": lambda self, **_: 5})()
    before = live_leases()
    with pytest.raises(error) as info:
        mv.view(producer)
    assert type(producer).__name__ in str(info.value)
    assert live_leases() == before
    assert getattr(producer, "deleted", 0) == 0  # not consumed: the capsule's own destructor is to delete it


def test_overlap_and_read_only_refuse_writing():
    with pytest.raises(LayoutError):
        mv.view(producer := Producer(doubles(), (3,), (0,)), writable=True)
    gc.collect()
    assert producer.deleted == 1  # the tensor was taken, so it is given back
    with pytest.raises(ReadOnlyError):
        mv.view(Producer(doubles(), (3,), (1,), flags=READ_ONLY), writable=True)
    assert mv.view(Producer(doubles(), (3,), (0,))).strides == (0,)


@pytest.mark.parametrize(
    ("code", "bits", "lanes", "flags", "itemsize"),
    [
        (4, 16, 1, 0, 2),
        (10, 8, 1, 0, 1),
        (14, 8, 1, 0, 1),
        (17, 4, 2, 0, 1),
        (17, 4, 1, PADDED, 1),
        (15, 6, 1, PADDED, 1),
        (2, 32, 4, 0, 16),
        (2, 128, 1, 0, 16),
        (2, 8, 1, 0, 1),
        (5, 32, 1, 0, 4),
        (0, 128, 1, 0, 16),
        (3, 64, 1, 0, 8),
        (6, 16, 1, 0, 2),
        (77, 24, 1, 0, 3),
    ],
)
def test_dtypes_unknown_to_numpy_stay_opaque(code, bits, lanes, flags, itemsize):
    producer = Producer(doubles(), (4,), (1,), code=code, bits=bits, lanes=lanes, flags=flags)
    v = mv.view(producer)
    assert v.dtype == np.dtype(("V", itemsize))
    assert np.asarray(v).tobytes() == bytes(producer.memory)[: 4 * itemsize]
    if flags & PADDED:
        return  # how it was padded is the producer's flag, which a view does not carry
    for options in ({}, {"copy": True}):
        _, tensor = tensor_of(capsule := v[1:].__dlpack__(max_version=(1, 3), **options))
        assert (tensor.code, tensor.bits, tensor.lanes) == (code, bits, lanes)
        assert tensor.strides[:1] == [1]
        assert capsule is not None
    assert v.cast("u1").dtype == np.uint8


@pytest.mark.parametrize("device", [(CUDA_HOST, 0), (MANAGED, 0), (11, 0)])
def test_memory_that_the_host_may_read_is_read(device):
    v = mv.view(Producer(doubles(), (3,), (1,), device=device))
    assert v.device == "cpu"
    assert list(v) == [0, 1, 2]


def test_device_memory_is_described_and_never_touched():
    producer = Producer(4096, (3,), (1,), device=(CUDA, 1))
    v = mv.view(producer)
    assert (v.device, v.__dlpack_device__(), v.ptr) == ("cuda:1", (2, 1), 4096)
    for touch in (
        np.asarray,
        memoryview,
        list,
        bytes,
        lambda v: v[0],
        lambda v: v.__array_interface__,
        lambda v: mv.view(v, copy="always"),
        lambda v: v.__dlpack__(copy=True),
        lambda v: v.__arrow_c_array__(),
    ):
        with pytest.raises(DeviceError, match="cuda:1"):
            touch(v)
    _, tensor = tensor_of(capsule := v[1:].__dlpack__(max_version=(1, 0), stream=7))
    assert (tensor.data, tensor.device_type, tensor.device_id) == (4104, CUDA, 1)
    assert capsule is not None
    for stream in (0, -2, True, "1", 1.0):
        with pytest.raises(ValueError, match="stream"):
            v.__dlpack__(max_version=(1, 0), stream=stream)
    with pytest.raises(DeviceError):
        v.__dlpack__(max_version=(1, 0), dl_device=(1, 0))


def test_a_producer_that_refuses_is_quoted():
    class Refuses:
        def __dlpack__(self, **_):
            raise BufferError("not today")

    with pytest.raises(ZeroCopyError, match="not today"):
        mv.view(Refuses())
    assert Producer(doubles(), (1,)).calls == []
    producer = Producer(doubles(), (1,))
    mv.view(producer)
    assert producer.calls == [{"max_version": (1, 3), "copy": False}]


# -- our own deleters --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [(1, 0), None])
def test_the_deleter_may_run_on_a_foreign_thread_without_the_gil(version):
    a = np.arange(4.0)
    v = mv.view(a, writable=True)
    managed = consume(v.__dlpack__(max_version=version))
    # ctypes gives the GIL up around the call: the deleter has to take it
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.cast(managed.deleter, ctypes.c_void_p).value)
    with pytest.raises(BufferError):
        v.release()
    thread = threading.Thread(target=deleter, args=(ctypes.addressof(managed),))
    thread.start()
    thread.join()
    v.release()


AFTER_PYTHON = """
import ctypes, sys
import numpy as np, mojoview as mv
from producers.dlpack import consume
view = mv.view(np.zeros(3), writable=True)
libc = ctypes.CDLL(None)
libc.__cxa_atexit.argtypes = [ctypes.c_void_p] * 3
for version in (None, (1, 0)):
    managed = consume(view.__dlpack__(max_version=version))
    libc.__cxa_atexit(ctypes.cast(managed.deleter, ctypes.c_void_p), ctypes.addressof(managed), None)  # after Python
sys.kept = view.__dlpack__(), view
"""


def test_the_deleter_may_run_after_python_has_ended():
    done = subprocess.run(
        [sys.executable, "-c", AFTER_PYTHON],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])},
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- the C function table ----------------------------------------------------------------------------------------------


def view_table():
    return Table.from_address(capsules.pointer(mv.View.__dict__["__dlpack_c_exchange_api__"], "dlpack_exchange_api"))


def test_our_table_exports_and_imports():
    table = view_table()
    assert (table.major, table.minor, table.previous, table.borrow) == (1, 3, None, None)
    a = np.arange(6.0).reshape(2, 3)
    v = mv.view(a)
    out = ctypes.c_void_p()
    assert table.from_object(v, ctypes.byref(out)) == 0
    managed = Managed.from_address(out.value)
    assert (managed.tensor.data, managed.tensor.strides[:2], managed.flags) == (a.ctypes.data, [3, 1], READ_ONLY)
    made = ctypes.py_object()
    assert table.to_object(out, ctypes.byref(made)) == 0
    w = made.value
    assert isinstance(w, mv.View)
    assert (w.ptr, w.readonly, w.shape) == (v.ptr, True, (2, 3))
    with pytest.raises(BufferError):
        v.release()
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(w))  # the reference that the table handed out
    made = None
    del w
    gc.collect()
    v.release()


def test_our_table_reports_what_it_cannot_export():
    with pytest.raises(BufferError, match="byte order"):
        view_table().from_object(mv.view(np.zeros(2, ">f4")), ctypes.byref(ctypes.c_void_p()))
    with pytest.raises(BufferError, match="int"):
        view_table().from_object(7, ctypes.byref(ctypes.c_void_p()))


def test_our_table_allocates():
    table = view_table()
    errors = []
    report = SET_ERROR(lambda _, kind, message: errors.append((kind, message)))
    shape = (ctypes.c_int64 * 2)(3, 5)
    prototype = Tensor(None, 1, 0, 2, 2, 32, 1, ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)))
    out = ctypes.POINTER(Managed)()
    before = live_leases()
    assert table.allocate(ctypes.byref(prototype), ctypes.byref(out), None, ctypes.cast(report, ctypes.c_void_p)) == 0
    tensor = out.contents.tensor
    assert tensor.data % 64 == 0
    assert (tensor.shape[:2], tensor.strides[:2], out.contents.flags) == ([3, 5], [5, 1], 0)
    ctypes.memset(tensor.data, 1, 60)
    out.contents.deleter(out)
    assert live_leases() == before
    prototype.device_type = CUDA
    assert table.allocate(ctypes.byref(prototype), ctypes.byref(out), None, ctypes.cast(report, ctypes.c_void_p)) == -1
    assert errors[0][0] == b"BufferError"


def tabled(producer, *, stream=None, fails=False, version=1, previous=None):
    """A type whose function table hands out the producer's tensor."""

    def from_object(obj, out):
        out[0] = ctypes.addressof(producer.structure)
        return 0

    def current_stream(kind, index, out):
        out[0] = stream
        return 0

    # No exception leaves a ctypes callback. Our own function, which fails with one for what is no View, stands in.
    failing = FROM_OBJECT(ctypes.cast(view_table().from_object, ctypes.c_void_p).value)
    table = Table(
        version,
        3,
        previous,
        ALLOCATE(),
        failing if fails else FROM_OBJECT(from_object),
        TO_OBJECT(),
        None,
        STREAM(current_stream),
    )
    kind = type(
        "Tabled",
        (),
        {
            "__dlpack_c_exchange_api__": capsules.new(ctypes.addressof(table), "dlpack_exchange_api"),
            "table": table,
            "__dlpack__": lambda self, **_: producer.__dlpack__(**_),
        },
    )
    return kind()


def test_a_type_with_a_table_is_read_through_it():
    producer = Producer(doubles(), (3,), (2,))
    v = mv.view(tabled(producer))
    assert producer.calls == []
    assert list(v) == [0, 2, 4]
    del v
    gc.collect()
    assert producer.deleted == 1


def test_tables_of_another_major_version_are_walked_past():
    producer = Producer(doubles(), (3,), (1,))
    obj = tabled(producer)
    newer = Table(2, 0, ctypes.addressof(obj.table))
    type(obj).__dlpack_c_exchange_api__ = capsules.new(ctypes.addressof(newer), "dlpack_exchange_api")
    assert list(mv.view(obj)) == [0, 1, 2]
    assert producer.calls == []
    newer.previous = None
    assert list(mv.view(obj)) == [0, 1, 2]
    assert len(producer.calls) == 1


def test_the_table_of_a_device_tells_its_stream():
    producer = Producer(4096, (3,), (1,), device=(CUDA, 0))
    v = mv.view(tabled(producer, stream=77))
    assert v.__cuda_array_interface__["stream"] == 77
    assert v.__dlpack__(max_version=(1, 0), stream=77) is not None
    assert v.__dlpack__(max_version=(1, 0), stream=-1) is not None
    for stream in (None, 1, 78):
        with pytest.raises(DeviceError, match="77"):
            v.__dlpack__(max_version=(1, 0), stream=stream)


def test_refusals_of_a_table_are_quoted_and_tensors_released():
    with pytest.raises(ZeroCopyError, match="Tabled"):
        mv.view(tabled(Producer(doubles(), (3,), (1,)), fails=True))
    producer = Producer(doubles(), (-3,), (1,))
    with pytest.raises(InterfaceError):
        mv.view(tabled(producer))
    gc.collect()
    assert producer.deleted == 1


def test_our_own_views_cross_through_the_table():
    a = np.arange(4.0)
    v = mv.view(a, writable=True)
    w = from_dlpack(v, True)
    w[0] = 9
    assert a[0] == 9
    assert w.owner is v


# -- anything at all ---------------------------------------------------------------------------------------------------

EXTENTS = st.one_of(st.integers(-2, 5), st.sampled_from([2**31, 2**62, 2**63 - 1, -(2**63)]))


@given(
    shape=st.lists(EXTENTS, max_size=9),
    strides=st.one_of(st.none(), st.lists(EXTENTS, max_size=9)),
    code=st.integers(0, 30),
    bits=st.sampled_from([0, 1, 4, 6, 8, 16, 32, 64, 128, 255]),
    lanes=st.sampled_from([0, 1, 2, 65535]),
    ndim=st.integers(-3, 10),
    device=st.sampled_from([0, 1, 1, 1, 2, 3, 13, 300, -1]),
    offset=st.sampled_from([0, 0, 8, 2**63, 2**64 - 1]),
    null=st.booleans(),
    legacy=st.booleans(),
    flags=st.integers(0, 7),
    version=st.sampled_from([0, 1, 1, 1, 2]),
    writable=st.booleans(),
)
def test_any_tensor_is_viewed_or_refused(
    shape, strides, code, bits, lanes, ndim, device, offset, null, legacy, flags, version, writable
):
    ndim = min(ndim, len(shape), len(strides) if strides is not None else 9)
    memory = (ctypes.c_char * 4096)()
    producer = Producer(
        None if null else memory,
        shape,
        strides,
        ndim=ndim,
        code=code,
        bits=bits,
        lanes=lanes,
        device=(device, 0),
        byte_offset=offset,
        legacy=legacy,
        flags=flags,
        version=(version, 0),
    )
    before = live_leases()
    taken = 0
    try:
        v = mv.view(producer, writable=writable)
    except MojoViewError:
        pass
    else:
        taken = 1
        assert v.ndim == ndim
        assert v.readonly is not writable
        repr(v)
        del v
    gc.collect(0)
    assert producer.deleted in ((taken,) if taken else (0, 1))
    assert live_leases() == before
