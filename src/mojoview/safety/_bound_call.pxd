cdef class Argument:
    cdef readonly int index
    cdef readonly str name
    cdef readonly bint writes
    cdef readonly object array, mask


cdef class BoundCall:
    cdef readonly object kernel
    cdef readonly list arguments
    cdef readonly tuple values, scalars
    cdef readonly dict options
    cdef readonly bint prepared, masked
    cdef readonly object allocated, message
    cdef object borrow
