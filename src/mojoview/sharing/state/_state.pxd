from libc.stdint cimport uint64_t

from mojoview.sharing.segment._publication cimport Publication
from mojoview.sharing.state.latch cimport mv_latch_ref


cdef class State(Publication):
    cdef mv_latch_ref latch         # base is NULL once closed
    cdef char *record               # the memory of `out`
    cdef readonly uint64_t number   # of the publication that `record` holds
    cdef bint reads                 # made as a reader: `out` is only written by refresh()
    cdef object number_object       # `counted` as a Python integer, made by refresh()
    cdef uint64_t counted
    cdef uint64_t time_ns           # when it was made
    cdef uint64_t retried
    cdef bint sleepers_known
    cdef void *mutex                # native lock of several writer threads; NULL without
    cdef readonly object out        # ndarray on memory that we own, so that nobody can resize it away
    cdef readonly object lock       # RLock, with lock=True
    cdef object store               # what owns `record`
