"""Declarations of latch.h, for readers without the GIL. Compile with -I of `mojoview.get_include()`.

    from mojoview.sharing.state.latch cimport MV_LATCH_READ, mv_latch_of_segment, mv_latch_read, mv_latch_ref

Find the latch once, in the bytes of `State.memory()`, and keep that view while reading.
"""

from libc.stdint cimport uint64_t


cdef extern from "../sharing/state/latch.h" nogil:
    ctypedef struct mv_latch_ref:
        char *base
        uint64_t mask
        uint64_t stride
        uint64_t bytes
    enum:
        MV_LATCH_NONE
        MV_LATCH_READ
        MV_LATCH_BUSY
        MV_LATCH_GONE
    uint64_t mv_latch_stride(uint64_t bytes)
    uint64_t mv_latch_latest(const mv_latch_ref *r)
    uint64_t mv_latch_write(const mv_latch_ref *r, const void *record, uint64_t time_ns)
    int mv_latch_read_at(const mv_latch_ref *r, uint64_t n, void *record, uint64_t *time_ns)
    int mv_latch_read(const mv_latch_ref *r, void *record, uint64_t *number, uint64_t *time_ns, uint64_t *retries)
    int mv_latch_of_segment(const void *base, uint64_t mapped_bytes, mv_latch_ref *r)
