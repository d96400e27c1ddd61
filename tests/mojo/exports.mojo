"""Exports in every spelling. This text is none: @export("in_text") def in_text() abi("C"):

    @export("in_indented_text")
    def in_indented_text(x: Int) abi("C") -> Int:
"""
# @export("in_comment")
from std.memory import Pointer
from std.sys import simd_width_of as lanes

from lookalikes import UInt8, Wide, not_here
from lookalikes import In as ForeignIn
import lookalikes
from mojoview import Out, Status
from mojoview import In as Reads
import mojoview as mv

comptime NOTE = '@export("in_string")'
comptime Doubles = Pointer[Float64, ImmutAnyOrigin]
comptime Real = DType.float64
comptime Code = Int32


# ---- kernels
@export
def plain(x: Int) abi("C") -> Int:
    """Twice x.

    And a second paragraph.
    """
    return 2 * x


@export("renamed")
def inner(x: Int) abi("C") -> Int:
    return x + not_here(x)


@export("crossed_a")
def crossed_b(x: Int32) abi("C") -> Int32:
    return x


@export("crossed_b")
def crossed_a(x: Float32) abi("C") -> Float32:
    return x


@no_inline
@export(
    r'spread'  # a bracket ( in a comment
    "_\x6fut"
)
def spread_out(
    n: Int,  # and another )
    x: Doubles,
    y: Optional[Pointer[Scalar[DType.uint16], MutAnyOrigin]],
) abi("C") -> Code:
    return 0


@export("aliased")
def aliased(x: Reads[Real], y: mv.InOut[DType.bool, 2], z: Out[Real, ndim=3]) abi("C") -> mv.Status:
    return mv.OK


@export("keyword_only")
def keyword_only(x: Float64, *, scale: Float64 = 2.5, times: UInt8_ = 3) abi("C") -> Float64:
    return x * scale * Float64(times)


comptime UInt8_ = UInt16


@export("with masks")
def `with masks`(x: Reads[Real, masked=True], y: Out[Real]) abi("C") -> Status:
    return mv.OK


# ---- exports that are no kernels
@export("overloaded_i")
def overloaded(x: Int) abi("C") -> Int:
    return x


@export("overloaded_f")
def overloaded(x: Float64) abi("C") -> Float64:
    return x


@export("_hidden_name")
def _hidden_name(x: Int) abi("C") -> Int:
    return x


@doc_hidden
@export("hidden")
def hidden(x: Int) abi("C") -> Int:
    return x


struct Box:
    @staticmethod
    @export("method")
    def method(x: Int) abi("C") -> Int:
        return x


@export("holds_nested")
def holds_nested(x: Int) abi("C") -> Int:
    @export("nested")
    def nested(y: Int) abi("C") -> Int:
        return y + 1

    return nested(x)


@export("no_abi")
def no_abi(x: Int) -> Int:
    return x


@export("takes_mut")
def takes_mut(mut x: Pointer[Float64, MutAnyOrigin]) abi("C"):
    x[unsafe_offset=0] += 1


@export("takes_string")
def takes_string(s: String) abi("C") -> Int:
    return s.byte_length()


@export("takes_vector")
def takes_vector(x: SIMD[DType.float32, 4]) abi("C") -> Float32:
    return x.reduce_add()


@export("takes_half")
def takes_half(x: Float16) abi("C") -> Float32:
    return x.cast[DType.float32]()


@export("takes_function")
def takes_function(f: def(Float64) abi("C") thin -> Float64) abi("C") -> Float64:
    return f(1)


@export("takes_many")
def takes_many(*x: Int) abi("C") -> Int:
    return 0


@export("takes_pointer_to_pointer")
def takes_pointer_to_pointer(x: Pointer[Doubles, MutAnyOrigin]) abi("C") -> Int:
    return 0


@export("takes_bfloat")
def takes_bfloat(x: Reads[DType.bfloat16]) abi("C") -> Status:
    return mv.OK


@export("takes_foreign_in")
def takes_foreign_in(x: ForeignIn[Real]) abi("C") -> Int:
    return 0


@export("mixed_masks")
def mixed_masks(x: Reads[Real, masked=True], y: Reads[Real]) abi("C") -> Status:
    return mv.OK


@export("returns_bool")
def returns_bool(x: Int) abi("C") -> Bool:
    return x > 0


@export("returns_pair")
def returns_pair(x: Int) abi("C") -> Tuple[Int, Int]:
    return (x, x)


@export("returns_pointer")
def returns_pointer(x: Doubles) abi("C") -> Doubles:
    return x


@export("returns_lookalike")
def returns_lookalike(x: Int) abi("C") -> UInt8:
    return -1


@export("returns_wide")
def returns_wide(x: Int) abi("C") -> Wide:
    return 1


comptime Column = Reads[Real]
comptime Table[dt: DType] = Reads[dt, 2]


@export("own_alias")
def own_alias(x: Column, y: Table[DType.int8], k: Int = 1, z: Int = 2) abi("C") -> Status:
    return mv.OK


@export("default_first")
def default_first(k: Int = 1, *, x: Float32) abi("C") -> Int:
    return k


@export("takes_lookalike")
def takes_lookalike(x: lookalikes.UInt16) abi("C") -> Int:
    return 0
