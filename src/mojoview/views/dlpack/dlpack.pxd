from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from mojoview.memory.abi cimport mv_desc


cdef extern from "views/dlpack/dlpack.h" nogil:
    enum:
        MV_DL_MAJOR
        MV_DL_MINOR
        MV_DL_CPU
        MV_DL_CUDA
        MV_DL_ROCM

    const uint64_t MV_DL_READ_ONLY
    const uint64_t MV_DL_IS_COPIED
    const uint64_t MV_DL_SUBBYTE_PADDED

    ctypedef struct mv_dl_version:
        uint32_t major
        uint32_t minor

    ctypedef struct mv_dl_tensor:
        void *data
        int32_t device_type
        int32_t device_id
        int32_t ndim
        uint8_t code
        uint8_t bits
        uint16_t lanes
        int64_t *shape
        int64_t *strides
        uint64_t byte_offset

    ctypedef struct mv_dl_legacy:
        mv_dl_tensor tensor
        void *context
        void (*deleter)(mv_dl_legacy *) noexcept nogil

    ctypedef struct mv_dl_managed:
        mv_dl_version version
        void *context
        void (*deleter)(mv_dl_managed *) noexcept nogil
        uint64_t flags
        mv_dl_tensor tensor

    ctypedef struct mv_dl_table_header:
        mv_dl_version version
        mv_dl_table_header *previous

    ctypedef void (*mv_dl_set_error)(void *context, const char *kind, const char *message) noexcept nogil

    ctypedef struct mv_dl_table:
        mv_dl_table_header header
        int (*allocate)(mv_dl_tensor *prototype, mv_dl_managed **out, void *context,
                        mv_dl_set_error set_error) noexcept nogil
        int (*from_object)(void *obj, mv_dl_managed **out) noexcept
        int (*to_object)(mv_dl_managed *managed, void **out) noexcept
        int (*borrow)(void *obj, mv_dl_tensor *out) noexcept
        int (*current_stream)(int32_t device_type, int32_t device_id, void **out) noexcept

    ctypedef union mv_dl_face:
        mv_dl_legacy legacy
        mv_dl_managed managed

    ctypedef struct mv_dl_block:
        mv_dl_face face
        void *holder
        void *exports
        int64_t shape[8]
        int64_t strides[8]

    bint mv_dl_host_reads(int32_t device_type)
    void mv_dl_fill(mv_dl_tensor *t, int64_t *shape, int64_t *strides, const mv_desc *d)


cdef extern from "memory/gil_safe_decref.h" nogil:
    void mv_decref_any_thread(void *obj, void *consumers)
