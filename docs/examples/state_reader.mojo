"""A kernel that reads a State: `memory` is its `State.memory()` as 64-bit words.

Publication n is in slot n mod K; after the copy the mark of the slot must be 2n. latch.h explains each of the memory orders.
"""
from mojoview import E_EMPTY, E_SHAPE, In, OK, Out, Status, atomics
from mojoview.atomics import Ordering, fence


@export("newest")
def newest(memory: In[DType.uint64], record: Out[DType.uint64], number: Out[DType.uint64]) abi("C") -> Status:
    """Copy the newest publication into `record` and its number into `number`; E_EMPTY before the first."""
    var latch = Int(memory[40 // 8]) // 8  # from the header: offset of the payload
    var slots = memory[400 // 8]
    var stride = Int(memory[408 // 8]) // 8
    if len(record) != Int(memory[416 // 8]) // 8 or len(number) != 1:
        return E_SHAPE
    while True:
        var n = atomics.load[order=Ordering.ACQUIRE](memory, latch)
        if n == 0:
            return E_EMPTY
        var slot = latch + 16 + Int(n & (slots - 1)) * stride  # `latest` occupies 128 bytes
        for i in range(len(record)):
            record[i] = atomics.load[order=Ordering.RELAXED](memory, slot + 2 + i)
        fence[ordering=Ordering.ACQUIRE]()
        if atomics.load[order=Ordering.RELAXED](memory, slot) == 2 * n:
            number[0] = n
            return OK
