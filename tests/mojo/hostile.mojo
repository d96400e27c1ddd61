"""Mojo kernels that do what a kernel must not."""
from std.os import abort
from mojoview import *


@export("spins")
def spins(y: InOut[DType.float64]) abi("C") -> Status:
    var k = Int64(0)
    while True:
        k += 1
        y[0] = Float64(k)


@export("gives_up")
def gives_up(y: InOut[DType.float64]) abi("C") -> Status:
    y[0] = -1
    abort("nothing to be done")
    return OK


@export("out_of_range")
def out_of_range(y: InOut[DType.float64], index: Int) abi("C") -> Status:
    y[0] = -1
    var numbers: List[Int] = [1, 2, 3]
    y[1] = Float64(numbers[index])
    return OK


@export("past_the_end")
def past_the_end(p: Pointer[Float64, MutAnyOrigin], index: Int) abi("C") -> Int32:
    p[unsafe_offset=index] = 7
    return 0


@export("hoards")
def hoards(y: InOut[DType.float64], count: Int) abi("C") -> Status:
    y[0] = -1
    var numbers = List[Float64](length=count, fill=1.0)
    y[1] = numbers[count - 1]
    return OK
