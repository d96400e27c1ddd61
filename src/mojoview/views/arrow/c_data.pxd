from libc.stdint cimport int32_t, int64_t


cdef extern from "views/arrow/c_data.h" nogil:
    enum:
        MV_ARROW_ORDERED
        MV_ARROW_NULLABLE
        MV_ARROW_CPU

    ctypedef struct mv_arrow_schema:
        const char *format
        const char *name
        const char *metadata
        int64_t flags
        int64_t n_children
        mv_arrow_schema **children
        mv_arrow_schema *dictionary
        void (*release)(mv_arrow_schema *) noexcept nogil
        void *private_data

    ctypedef struct mv_arrow_array:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void **buffers
        mv_arrow_array **children
        mv_arrow_array *dictionary
        void (*release)(mv_arrow_array *) noexcept nogil
        void *private_data

    ctypedef struct mv_arrow_stream:
        int (*get_schema)(mv_arrow_stream *, mv_arrow_schema *) noexcept nogil
        int (*get_next)(mv_arrow_stream *, mv_arrow_array *) noexcept nogil
        const char *(*get_last_error)(mv_arrow_stream *) noexcept nogil
        void (*release)(mv_arrow_stream *) noexcept nogil
        void *private_data

    ctypedef struct mv_arrow_device_array:
        mv_arrow_array array
        int64_t device_id
        int32_t device_type
        void *sync_event
        int64_t reserved[3]

    ctypedef struct mv_arrow_device_stream:
        int32_t device_type
        int (*get_schema)(mv_arrow_device_stream *, mv_arrow_schema *) noexcept nogil
        int (*get_next)(mv_arrow_device_stream *, mv_arrow_device_array *) noexcept nogil
        const char *(*get_last_error)(mv_arrow_device_stream *) noexcept nogil
        void (*release)(mv_arrow_device_stream *) noexcept nogil
        void *private_data
