"""A third-party module that reads a State without the GIL; `memory` is its `State.memory()`."""

from libc.stdint cimport uint64_t

from mojoview cimport mv_desc, mv_view_drop, mv_view_hold
from mojoview.sharing.state.latch cimport MV_LATCH_READ, mv_latch_of_segment, mv_latch_read, mv_latch_ref


def follow(memory, uint64_t last):
    """Read until publication `last`; return how many reads were torn or went back.

    Each word of a record is its number.
    """
    cdef const mv_desc *d = mv_view_hold(memory)
    cdef mv_latch_ref latch
    cdef uint64_t record[512]
    cdef uint64_t number = 0, before = 0, time_ns = 0, retries = 0, wrong = 0, k
    try:
        if mv_latch_of_segment(d.data, d.size, &latch) != 0:
            raise TypeError("expected the memory of a State")
        with nogil:
            while number < last:
                if mv_latch_read(&latch, record, &number, &time_ns, &retries) != MV_LATCH_READ:
                    continue
                wrong += number < before
                before = number
                for k in range(latch.bytes // 8):
                    wrong += record[k] != number
        return wrong
    finally:
        mv_view_drop(memory)
