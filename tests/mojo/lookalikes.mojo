"""Imported by exports.mojo: names that look like others'."""
from std.memory import Pointer

comptime UInt8 = Int8  # same machine type, another sign
comptime Wide = Int64


struct In[dt: DType, ndim: Int = 1](TrivialRegisterPassable):
    var data: Pointer[Scalar[Self.dt], MutUntrackedOrigin]


@export("not_here")
def not_here(x: Int) abi("C") -> Int:
    return x + 1


struct UInt16(TrivialRegisterPassable):
    var bits: Int16
