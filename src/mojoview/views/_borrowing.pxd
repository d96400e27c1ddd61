from mojoview.memory.abi cimport mv_desc
from mojoview.memory._lease cimport Lease


cdef bint checking  # whether new views are checked

cdef int enter_borrow(Lease lease, const mv_desc *d) except -1
