"""Elementwise loops over vectors, with a partial vector at the end."""
from std.sys import simd_width_of

from .lines import Elements, WritableElements
from .status import E_SHAPE, OK, Status


@always_inline
def apply[
    X: Elements, Y: WritableElements, //, f: def[dt: DType, w: SIMDLength, //](SIMD[dt, w]) thin -> SIMD[dt, w]
](x: X, y: Y) -> Status:
    """y[i] = f(x[i]) for elements of one dtype; E_SHAPE if their lengths differ.

    `f` is a function for any dtype and width, such as those of `mojoview.math`.
    """
    comptime assert X.dtype == Y.dtype, "apply: the arrays have different dtypes"
    comptime w = simd_width_of[X.dtype]()
    var a = x.line()
    var b = y.line()
    var n = len(a)
    if n != len(b):
        return E_SHAPE
    var i = 0
    if a.stride() == 1 and b.stride() == 1:  # checked once
        while i + w <= n:
            b.store(i, f(a.load[w](i)).cast[Y.dtype]())
            i += w
    while i < n:
        b.put_lanes(i, f(a.get_lanes[w](i, n - i)).cast[Y.dtype](), n - i)
        i += w
    return OK


@always_inline
def apply[
    X: Elements,
    Y: Elements,
    Z: WritableElements,
    //,
    f: def[dt: DType, w: SIMDLength, //](SIMD[dt, w], SIMD[dt, w]) thin -> SIMD[dt, w],
](x: X, y: Y, z: Z) -> Status:
    """z[i] = f(x[i], y[i]) for elements of one dtype; E_SHAPE if their lengths differ."""
    comptime assert X.dtype == Y.dtype and Y.dtype == Z.dtype, "apply: the arrays have different dtypes"
    comptime w = simd_width_of[X.dtype]()
    var a = x.line()
    var b = y.line()
    var c = z.line()
    var n = len(a)
    if n != len(b) or n != len(c):
        return E_SHAPE
    var i = 0
    if a.stride() == 1 and b.stride() == 1 and c.stride() == 1:  # checked once
        while i + w <= n:
            c.store(i, f(a.load[w](i), b.load[w](i).cast[X.dtype]()).cast[Z.dtype]())
            i += w
    while i < n:
        c.put_lanes(i, f(a.get_lanes[w](i, n - i), b.get_lanes[w](i, n - i).cast[X.dtype]()).cast[Z.dtype](), n - i)
        i += w
    return OK
