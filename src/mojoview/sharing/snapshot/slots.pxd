"""Declarations of slots.h."""

from libc.stdint cimport int64_t, uint64_t


cdef extern from "sharing/snapshot/slots.h" nogil:
    enum:
        MV_OS_LOCKS
        MV_SLOTS_BUSY
        MV_SLOTS_DAMAGED
        MV_SLOTS_MAX
        MV_SLOTS_NONE
        MV_SLOTS_PINNED
    ctypedef struct mv_slots_head:
        pass
    ctypedef struct mv_pin_row:
        pass
    ctypedef struct mv_slots_ref:
        mv_slots_head *head
        mv_pin_row *rows
        uint64_t row_count
        uint64_t slot_limit
    ctypedef struct mv_slot:
        uint64_t bytes
        uint64_t time_ns
    int64_t mv_slots_acquire(const mv_slots_ref *r)
    uint64_t mv_slots_publish(const mv_slots_ref *r, uint64_t slot, uint64_t bytes, uint64_t time_ns)
    int mv_slots_reap(const mv_slots_ref *r, int any)
    int mv_slots_wait_free(const mv_slots_ref *r, int64_t ns, int64_t *slot)
    uint64_t mv_slots_map(const mv_slots_ref *r)
    uint64_t mv_slots_count(const mv_slots_ref *r)
    void mv_slots_set_count(const mv_slots_ref *r, uint64_t n)
    int mv_slots_pin(const mv_slots_ref *r, uint64_t row, uint64_t *map)
    void mv_slots_unpin(const mv_slots_ref *r, uint64_t row)
    int64_t mv_slots_claim_row(const mv_slots_ref *r, int any, int *fd)
    void mv_slots_drop_row(const mv_slots_ref *r, uint64_t row)
    mv_slot *mv_slot_at(const mv_slots_ref *r, uint64_t slot)
    void *mv_slots_map_word(const mv_slots_ref *r)
    void *mv_slots_waiters(const mv_slots_ref *r)
