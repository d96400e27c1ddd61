from libc.stdint cimport uint64_t

from mojoview.sharing.segment._publication cimport Publication
from mojoview.sharing.state.latch cimport mv_latch_ref


cdef class State(Publication):
    cdef mv_latch_ref latch         # base is NULL once closed
    cdef char *record               # memory of `out`
    cdef readonly uint64_t number   # number of the publication in `record`
    cdef bint reads                 # a reader: only refresh() writes to `out`
    cdef object number_object       # `counted` as a Python integer, made by refresh()
    cdef uint64_t counted
    cdef uint64_t time_ns           # time of that publication
    cdef uint64_t retried
    cdef object agreed              # dtype of the last target of read_into(), which is that of the State
    cdef bint waiters_known
    cdef void *mutex                # native lock of several writer threads; NULL without
    cdef readonly object out        # ndarray on memory of this handle, which cannot be resized
    cdef readonly object lock       # RLock, with lock=True
    cdef object store               # owner of `record`
