from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from mojoview.memory.abi cimport mv_value


cdef extern from "safety/workers/channel.h" nogil:
    enum:
        MV_CHANNEL_VALUES
    ctypedef struct mv_crash_frame:
        uint64_t pc, base
        char module[1]  # the C header has the lengths
        char name[1]
    ctypedef struct mv_crash:
        uint64_t calls_started, arena
        uint64_t[2] failed_alloc
        uint32_t state
        int32_t signal, code, access
        uint64_t address, pc
        uint32_t frames
        mv_crash_frame *frame
    ctypedef struct mv_message:
        uint32_t count
        int64_t tag
        uint8_t kind[16]
        mv_value value[15]
    ctypedef struct mv_spin:
        pass
    ctypedef struct mv_channel:
        mv_crash crash
        mv_message request, reply


cdef class Channel:
    cdef mv_channel *memory
    cdef mv_message *outgoing
    cdef mv_message *incoming
    cdef uint64_t seen       # messages received
    cdef int socket
    cdef int process         # pidfd of the other process, or -1
    cdef mv_spin spin        # of mv_channel_wait(), as is the next
    cdef int polling
