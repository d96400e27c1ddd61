from libc.stdint cimport int64_t, uint8_t

from mojoview.memory._lease cimport Lease
from mojoview.views._view cimport View


cdef View with_bits(View values, Lease lease, const uint8_t *bits, int64_t offset)
