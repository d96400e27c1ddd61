"""What type checkers see of the public names. Checked by mypy, never run."""

from collections.abc import Iterator
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import mojoview as mv
from mojoview.calls._overloads import KernelFamily
from mojoview.memory.errors import MojoViewError, ZeroCopyError
from mojoview.views import View, from_ptr, view

array: NDArray[np.float64] = np.zeros((3, 4))
v = view(array)

assert_type(v, View)
assert_type(mv.view(b"bytes", writable=False, copy="if_needed"), View)
assert_type(from_ptr(array.ctypes.data, (3, 4), "f8", owner=array), View)
assert_type(from_ptr(array.ctypes.data, 12, np.float64, strides=(8,), owner=array, readonly=False), View)

assert_type(v.ptr, int)
assert_type(v.shape, tuple[int, ...])
assert_type(v.strides, tuple[int, ...])
assert_type(v.ndim + v.size + v.nbytes + v.itemsize, int)
assert_type(v.dtype, np.dtype[Any])
assert_type(v.readonly and v.contiguous and v.f_contiguous and v.aligned and v.closed, bool)
assert_type(v.device, str)
assert_type(v.mask, View | None)
assert_type(v.data, View)
assert_type(v.T, View)
assert_type(v.reshape(12), View)
assert_type(v.reshape((3, -1)), View)
assert_type(v.cast("i8"), View)
assert_type(v.release(), None)
assert_type(v["field"], View)
assert_type(v[["a", "b"]], View)
assert_type(v[0], Any)
assert_type(v[..., ::2, None], Any)
assert_type(len(v), int)
assert_type(iter(v), Iterator[Any])
assert_type(v.__array_interface__, dict[str, Any])
assert_type(np.asarray(v), NDArray[Any])
assert_type(memoryview(v), memoryview[int])

with view(array) as opened:
    assert_type(opened, View)

try:
    view(object())
except MojoViewError as error:
    assert_type(error, MojoViewError)
except ValueError:
    pass

failure: BufferError = ZeroCopyError("x")
same: ValueError = ZeroCopyError("x")

view(array, copy="sometimes")  # type: ignore[arg-type]
view(array, writable="yes")  # type: ignore[arg-type]
from_ptr(0, 0, "f8")  # type: ignore[call-arg]
v.ptr = 5  # type: ignore[misc]
View(array)  # type: ignore[call-arg]


@mv.native(mv.kernels.dot)
def dot(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    return float((x * y).sum())


assert_type(dot(array, array), float)
assert_type(dot.reference(array, array), float)
assert_type(dot.kernel, mv.kernels.Kernel | KernelFamily)
dot(array)  # type: ignore[call-arg]


class Member:
    scale = mv.python_attribute(2.5)
    order = mv.python_attribute(factory=lambda cls: len(cls.__name__))

    @mv.python_callable
    def energy(self) -> float:
        return 1.0


assert_type(Member().scale, float)
assert_type(Member.order, int)
assert_type(Member().energy, float)
with mv.enable_hook() as hook:
    assert_type(hook.enabled, bool)
