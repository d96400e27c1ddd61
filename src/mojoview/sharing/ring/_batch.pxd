from mojoview.memory._lease cimport Lease
from mojoview.sharing.ring.operations cimport mv_ring_frame


cdef class Batch:
    cdef object __weakref__      # the reader finds batches that are held while it waits
    cdef mv_ring_frame *frames
    cdef int count
    cdef Lease lease             # on the region, or on the copy; None once released
    cdef list views              # weak references to the views that were handed out
    cdef object dtype            # the ring's records; None: bytes
    cdef Py_ssize_t exports      # consumers of a frame's own buffer


cdef class Frame:
    cdef Batch batch
    cdef mv_ring_frame *info          # in the batch
    cdef Py_ssize_t shape[1]


cdef Batch make_batch(object owner, const mv_ring_frame *frames, int count, object dtype)
cdef int detach(Batch batch) except -1
cdef Frame one_frame(Batch batch, int k)
