from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "abi.h" nogil:
    enum:
        MV_ABI_VERSION
        MV_MAX_NDIM
        MV_DESC_ALIGN
        MV_INT
        MV_UINT
        MV_FLOAT
        MV_OPAQUE
        MV_BFLOAT
        MV_COMPLEX
        MV_BOOL
        MV_PLAIN
        MV_DATETIME
        MV_TIMEDELTA
        MV_BYTES
        MV_TEXT
        MV_VOID
        MV_RECORD
        MV_OK
        MV_E_NULL
        MV_E_ABI
        MV_E_NDIM
        MV_E_DTYPE
        MV_E_SHAPE
        MV_E_STRIDE
        MV_E_ALIGN
        MV_E_READONLY
        MV_E_MASK
        MV_E_DEVICE
        MV_E_OVERLAP
        MV_E_MEMORY
        MV_E_OVERFLOW
        MV_E_VALUE
        MV_E_INDEX
        MV_E_DIVIDE
        MV_E_EMPTY
        MV_E_INTERRUPTED
        MV_E_USER
        MV_DEVICE_SHIFT

    const uint64_t MV_READONLY
    const uint64_t MV_C_CONTIGUOUS
    const uint64_t MV_F_CONTIGUOUS
    const uint64_t MV_ALIGNED
    const uint64_t MV_HAS_MASK
    const uint64_t MV_MASK_BITS
    const uint64_t MV_BYTE_STRIDES
    const uint64_t MV_SWAPPED
    const uint64_t MV_DEVICE_MASK

    ctypedef struct mv_desc:
        void *data
        int64_t size
        int64_t stride[2]
        int32_t ndim
        uint8_t dtype_code
        uint8_t dtype_bits
        uint16_t dtype_lanes
        uint64_t flags
        uint64_t generation
        uint32_t itemsize
        uint16_t struct_bytes
        uint16_t abi_version
        int64_t shape[8]
        int64_t strides[8]
        const uint8_t *mask
        int64_t mask_offset
        int32_t device_id
        int32_t logical
        int64_t mask_stride[2]
        uint64_t reserved[3]

    ctypedef union mv_value:
        int64_t i64
        uint64_t u64
        double f64
        float f32
