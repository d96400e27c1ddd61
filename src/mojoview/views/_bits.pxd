from libc.stdint cimport int64_t, uint8_t

from mojoview.memory._lease cimport Lease


cdef class Bits:
    cdef Lease _lease
    cdef const uint8_t *start     # byte of the first bit
    cdef readonly int64_t offset  # bits from `start` to the first bit
    cdef readonly int64_t size
    cdef readonly str device      # as View.device


cdef Bits make_bits(Lease lease, const uint8_t *start, int64_t offset, int64_t size, str device=*)
