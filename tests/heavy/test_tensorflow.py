"""TensorFlow on the CPU, through its DLPack functions."""

from __future__ import annotations

import numpy as np
import pytest

import mojoview as mv

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.fixture
def tensorflow():
    return pytest.importorskip("tensorflow")


@pytest.mark.parametrize("dtype", DTYPES)
def test_there_and_back(tensorflow, dtype):
    dlpack = tensorflow.experimental.dlpack
    source = mv.view(np.arange(12).reshape(3, 4).astype(dtype), copy="always", writable=True)
    tensor = dlpack.from_dlpack(source.__dlpack__())
    np.testing.assert_array_equal(tensor.numpy(), np.asarray(source))
    back = mv.view(tensor)
    np.testing.assert_array_equal(np.asarray(back), np.asarray(source))
    assert back.ptr == source.ptr


def test_its_tensors_are_viewed_in_place(tensorflow):
    tensor = tensorflow.constant([[1.0, 2.0], [3.0, 4.0]])
    view = mv.view(tensor)
    assert np.asarray(view).tolist() == [[1, 2], [3, 4]]
    assert view.ptr == mv.view(tensor).ptr
