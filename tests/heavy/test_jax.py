"""JAX on the CPU: its arrays are read-only here, and ours are taken in place where they are aligned to 64 bytes."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import mojoview as mv
from mojoview.memory._lease import live_leases
from mojoview.memory.errors import ReadOnlyError

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "float16", "float32", "complex64"]


@pytest.fixture
def jax():
    return pytest.importorskip("jax")


@pytest.mark.parametrize("dtype", DTYPES)
def test_its_arrays_are_viewed_in_place_and_read_only(jax, dtype):
    array = jax.numpy.arange(12).reshape(3, 4).astype(dtype)
    view = mv.view(array)
    assert view.ptr == array.unsafe_buffer_pointer()
    assert view.readonly
    assert (view.shape, view.dtype) == ((3, 4), np.dtype(dtype))
    np.testing.assert_array_equal(np.asarray(view), np.asarray(array))
    with pytest.raises(ReadOnlyError):
        mv.view(array, writable=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ours_are_taken_in_place(jax, dtype):
    view = mv.view(np.arange(12).reshape(3, 4).astype(dtype), copy="always", writable=True)
    array = jax.dlpack.from_dlpack(view)
    assert array.unsafe_buffer_pointer() == view.ptr == mv.view(array).ptr
    np.testing.assert_array_equal(np.asarray(array), np.asarray(view))


def test_bfloat16_keeps_its_code(jax):
    array = jax.numpy.array([1.0, 2.5], dtype="bfloat16")
    view = mv.view(array)
    assert view.ptr == array.unsafe_buffer_pointer()
    assert view.itemsize == 2


def test_the_array_keeps_the_memory(jax):
    gc.collect()
    before = live_leases()
    array = jax.dlpack.from_dlpack(mv.view(np.arange(100, dtype="f4"), copy="always", writable=True))
    gc.collect()
    assert float(array[99]) == 99.0
    assert live_leases() == before + 1
    array.delete()
    del array
    gc.collect()
    assert live_leases() == before
