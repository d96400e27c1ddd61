"""float32 and float64 arguments and results: everything is computed in float64."""
from std.memory import bitcast
from std.utils.numerics import inf, nan

from .pairs import Lanes

comptime INF = inf[DType.float64]()
comptime NAN = nan[DType.float64]()


@always_inline
def wide[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> Lanes[w]:
    """The same numbers in float64."""
    comptime assert dt == DType.float64 or dt == DType.float32, "mojoview.math takes float32 and float64"
    return x.cast[DType.float64]()


@always_inline
def narrow[w: SIMDLength, //, dt: DType](x: Lanes[w]) -> SIMD[dt, w]:
    """Rounds a result to the argument's type."""
    return x.cast[dt]()


@always_inline
def nan_kept[w: SIMDLength, //](result: Lanes[w], x: Lanes[w]) -> Lanes[w]:
    """The result, or the argument if that is NaN."""
    return x.eq(x).select(result, x)


@always_inline
def with_sign_of[w: SIMDLength, //](magnitude: Lanes[w], x: Lanes[w]) -> Lanes[w]:
    """The magnitude with the sign of x, zeros included."""
    comptime SIGN = Int64.MIN
    return bitcast[DType.float64, w](bitcast[DType.int64, w](magnitude) | (bitcast[DType.int64, w](x) & SIGN))
