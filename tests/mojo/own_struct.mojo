"""Typed arguments declared by the author, on the first line of the descriptor."""
from std.memory import Pointer


struct Line(Movable):
    var data: UInt64
    var count: Int64
    var step: Int64
    var step1: Int64
    var ndim: Int32
    var code: UInt8
    var width: UInt8
    var lanes: UInt16
    var flags: UInt64


struct Wrong(Movable):
    var count: Int32
    var data: UInt64


struct In[dt: DType, ndim: Int = 1](Sized, TrivialRegisterPassable):
    var line: Pointer[Line, MutUntrackedOrigin]

    def __len__(self) -> Int:
        return Int(self.line[].count)

    def __getitem__(self, i: Int) -> Scalar[Self.dt]:
        var p = Pointer[Scalar[Self.dt], MutAnyOrigin](unsafe_from_address=Int(self.line[].data))
        return p[unsafe_offset = i * Int(self.line[].step)]


struct InOut[dt: DType, ndim: Int = 1](TrivialRegisterPassable):
    var line: Pointer[Wrong, MutUntrackedOrigin]


struct Out[width: Int, dt: DType](TrivialRegisterPassable):
    var line: Pointer[Line, MutUntrackedOrigin]


struct Status(TrivialRegisterPassable):
    var bits: Int64

    def __init__(out self):
        self.bits = 1


@export("own_total")
def own_total(x: In[DType.float64]) abi("C") -> Float64:
    var s = Float64(0)
    for i in range(len(x)):
        s += x[i]
    return s


@export("wrong_layout")
def wrong_layout(x: InOut[DType.float64]) abi("C") -> Float64:
    return 0


@export("wrong_parameters")
def wrong_parameters(x: Out[1, DType.float64]) abi("C") -> Float64:
    return 0


@export("own_status")
def own_status(x: In[DType.float64]) abi("C") -> Status:
    return Status()
