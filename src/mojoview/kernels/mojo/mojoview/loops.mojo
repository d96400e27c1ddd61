"""Elementwise loops over vectors, the last of which may be a part of one."""
from std.sys import simd_width_of

from .arrays import ArrayArgument, Writable
from .status import E_SHAPE, OK, Status


@always_inline
def apply[
    X: ArrayArgument, Y: Writable, //, f: def[dt: DType, w: SIMDLength, //](SIMD[dt, w]) thin -> SIMD[dt, w]
](x: X, y: Y) -> Status:
    """y[i] = f(x[i]) for 1-D arrays of one dtype; E_SHAPE where their lengths differ.

    `f` is a function of any dtype and width, as those of `mojoview.math` are.
    """
    comptime assert X.dtype == Y.dtype, "apply: the arrays have different dtypes"
    comptime w = simd_width_of[X.dtype]()
    var n = len(x)
    if n != len(y):
        return E_SHAPE
    var i = 0
    while i < n:
        # one place that calls f: a long body is compiled once
        var whole = i + w <= n
        var r = f(x.load[w](i) if whole else x.load_part[w](i, n - i)).cast[Y.dtype]()
        if whole:
            y.store(i, r)
        else:
            y.store_part(i, r, n - i)
        i += w
    return OK


@always_inline
def apply[
    X: ArrayArgument,
    Y: ArrayArgument,
    Z: Writable,
    //,
    f: def[dt: DType, w: SIMDLength, //](SIMD[dt, w], SIMD[dt, w]) thin -> SIMD[dt, w],
](x: X, y: Y, z: Z) -> Status:
    """z[i] = f(x[i], y[i]) for 1-D arrays of one dtype; E_SHAPE where their lengths differ."""
    comptime assert X.dtype == Y.dtype and Y.dtype == Z.dtype, "apply: the arrays have different dtypes"
    comptime w = simd_width_of[X.dtype]()
    var n = len(x)
    if n != len(y) or n != len(z):
        return E_SHAPE
    var i = 0
    while i < n:
        var whole = i + w <= n
        var a = x.load[w](i) if whole else x.load_part[w](i, n - i)
        var b = y.load[w](i) if whole else y.load_part[w](i, n - i)
        var r = f(a, b.cast[X.dtype]()).cast[Z.dtype]()
        if whole:
            z.store(i, r)
        else:
            z.store_part(i, r, n - i)
        i += w
    return OK
