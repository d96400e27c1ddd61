"""Kernel: the checked call of native functions on arrays. The only place that reads NumPy's own structs."""

cimport cython
from cpython.buffer cimport PyBUF_FULL_RO, Py_buffer
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.string cimport memset

from mojoview.memory.abi cimport (
    MV_ALIGNED, MV_BOOL, MV_BYTE_STRIDES, MV_C_CONTIGUOUS, MV_DATETIME, MV_E_DTYPE, MV_E_INTERRUPTED, MV_E_STRIDE, MV_F_CONTIGUOUS,
    MV_FLOAT, MV_HAS_MASK, MV_INT, MV_MAX_NDIM, MV_OK, MV_READONLY, MV_SWAPPED, MV_TIMEDELTA, MV_UINT, mv_desc, mv_value,
)
from mojoview.memory._lease cimport Lease, lease_buffer
from mojoview.views._view cimport View, view_enter, view_leave

import atexit
import inspect
import os

import numpy as np

from mojoview.kernels.binding import COMPARISONS, bind, call_form, failure, number_refusal, refusal
from mojoview.memory._dtype import dtype_of_code
from mojoview.memory.errors import ArgumentError, DTypeError, KernelError, KernelOverflowError, KernelValueError, ShapeError
from mojoview.views import view

cnp.import_array()


cdef extern from "Python.h":
    size_t PyVectorcall_NARGS(size_t nargsf)
    object PyVectorcall_Call(object callable, object args, object kwargs)
    PyObject **PySequence_Fast_ITEMS(object)
    int PyErr_CheckSignals()            # both leave the exception set, for `raise_pending`
    void PyErr_SetString(object kind, const char *message)
    PyObject *PyErr_Occurred()
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    void PyType_Modified(type)
    ctypedef struct CallableType "PyTypeObject":
        Py_ssize_t tp_vectorcall_offset
        unsigned long tp_flags
        object (*tp_call)(object, object, object)

cdef extern from "numeric.h" nogil:
    enum:
        MV_NTYPES
    int mv_type_index(const mv_desc *d)
    void mv_store_value(char *p, int type, mv_value v)

cdef extern from "layout.h" nogil:
    int mv_desc_derive(mv_desc *d, int64_t alignment)
    void mv_c_strides(int ndim, const int64_t *shape, int64_t itemsize, int64_t *strides)

cdef extern from "checks.h" nogil:
    int32_t mv_check_call(const mv_spec *spec, mv_desc *const *d, mv_fault *fault)

cdef extern from "foreign.h" nogil:
    enum:
        MV_INT_REGISTERS
        MV_PASS_DESC
        MV_PASS_POINTER
        MV_PASS_INT
        MV_PASS_F64
        MV_PASS_F32
        MV_GIVES_NOTHING
        MV_GIVES_STATUS
        MV_GIVES_STATUS_INDEX
        MV_GIVES_VALUE
        MV_RETURN_NOTHING
        MV_RETURN_INT
        MV_RETURN_F64
        MV_RETURN_F32
    bint mv_foreign_fits(const mv_foreign *f)
    mv_value mv_foreign_call(const mv_foreign *f, mv_desc *const *arrays, const mv_value *scalars)
    int64_t mv_foreign_word(const mv_foreign *f, mv_value returned)
    int64_t mv_foreign_run(const mv_foreign *f, mv_desc *const *arrays, const mv_value *scalars, int count, const mv_run *run)

cdef extern from "frame.h" nogil:
    void mv_desc_clear(mv_desc *d)
    int raise_pending "mv_raise_pending"() except -1
    void mv_desc_from_array(mv_desc *d, void *data, int ndim, const int64_t *shape, const int64_t *strides, int code, int log2item,
                            uint64_t flags)

cdef extern from "pool.h" nogil:
    ctypedef int (*mv_poll)(int forked) noexcept nogil
    int64_t mv_pool_run(int threads, int64_t chunks, mv_task task, void *state, mv_poll poll)
    void mv_pool_stop()
    int mv_pool_cpus()
    ctypedef struct pool_t:
        int limit
    pool_t mv_pool

cdef enum:
    GIL_WORTH = 4096  # elements of the largest array from which the GIL is let go: that and taking it back costs some 40 ns
    NO_AXIS = -1


# -- the pool -----------------------------------------------------------------------------------------------------------------

cdef int poll_signals(int forked) noexcept with gil:
    """Nonzero, with an exception set, to stop the job."""
    if forked:
        PyErr_SetString(KernelError, b"the process was forked while a kernel ran: in the child its workers are gone")
        return 1
    return PyErr_CheckSignals()


cdef int64_t run_parallel(const mv_run *run, int64_t chunks, mv_task task, void *state) noexcept nogil:
    return mv_pool_run(run.threads, chunks, task, state, poll_signals)


cdef int thread_count(object threads) except -1:
    """The `threads=` argument; 0 leaves the choice to the pool."""
    if threads is None:
        return 0
    if not hasattr(threads, "__index__") or isinstance(threads, bool):
        raise ArgumentError(f"threads: expected None or an int, got {type(threads).__name__}")
    if threads < 1:
        raise KernelValueError(f"threads: expected at least 1, got {threads}")
    return min(threads, 1024)


def _stop_pool():
    with nogil:
        mv_pool_stop()


def _open_pool():
    setting = os.environ.get("MOJOVIEW_THREADS", "")
    if setting:
        if not setting.isdecimal() or int(setting) < 1:
            raise KernelValueError(f"environment variable MOJOVIEW_THREADS: expected an int from 1, got {setting!r}")
        mv_pool.limit = min(int(setting), 1024)
    atexit.register(_stop_pool)


_open_pool()


# -- arguments ----------------------------------------------------------------------------------------------------------------

# Type code and log2 of the item size by NumPy's type number; -1: not a plain number.
cdef signed char array_code[32]
cdef signed char array_log2[32]
memset(array_code, -1, sizeof(array_code))
for _dtype in map(np.dtype, "?bhilqBHILQefd"):
    array_code[_dtype.num] = {"b": MV_BOOL, "i": MV_INT, "u": MV_UINT, "f": MV_FLOAT}[_dtype.kind]
    array_log2[_dtype.num] = _dtype.itemsize.bit_length() - 1


cdef inline bint fill_from_array(cnp.ndarray array, mv_desc *d) noexcept:
    """False where the array is none of plain numbers in native order: then the long way knows what to say."""
    cdef int number = cnp.PyArray_TYPE(array)
    cdef int ndim = cnp.PyArray_NDIM(array)
    cdef int flags = cnp.PyArray_FLAGS(array)
    cdef uint64_t mine = 0
    if not 0 <= number < <int>sizeof(array_code) or array_code[number] < 0 or not cnp.PyArray_ISNOTSWAPPED(array) or ndim > MV_MAX_NDIM:
        return False
    if flags & cnp.NPY_ARRAY_C_CONTIGUOUS:
        mine |= MV_C_CONTIGUOUS
    if flags & cnp.NPY_ARRAY_F_CONTIGUOUS:
        mine |= MV_F_CONTIGUOUS
    if flags & cnp.NPY_ARRAY_ALIGNED:
        mine |= MV_ALIGNED
    if not flags & cnp.NPY_ARRAY_WRITEABLE:
        mine |= MV_READONLY
    mv_desc_from_array(d, cnp.PyArray_DATA(array), ndim, <int64_t *>cnp.PyArray_DIMS(array), <int64_t *>cnp.PyArray_STRIDES(array),
                       array_code[number], array_log2[number], mine)
    return True


cdef bint fill_from_buffer(const Py_buffer *buffer, mv_desc *d) noexcept:
    """False where the buffer is none of plain native numbers, or does not hang together."""
    cdef const char *format = b"B"
    cdef int64_t size = 1
    cdef int k
    if buffer.format is not NULL:
        format = buffer.format
    if format[0] in (c"@", c"=", c"<"):
        format += 1
    if format[0] == 0 or format[1] != 0 or buffer.ndim > MV_MAX_NDIM or buffer.itemsize not in (1, 2, 4, 8):
        return False
    if buffer.suboffsets is not NULL or (buffer.shape is NULL and buffer.ndim != 1):
        return False
    mv_desc_clear(d)
    if format[0] in (c"b", c"h", c"i", c"l", c"q", c"n"):
        d.dtype_code = MV_INT
    elif format[0] in (c"B", c"H", c"I", c"L", c"Q", c"N"):
        d.dtype_code = MV_UINT
    elif format[0] in (c"e", c"f", c"d"):
        d.dtype_code = MV_FLOAT
    elif format[0] == c"?":
        d.dtype_code = MV_BOOL
    else:
        return False
    d.data = buffer.buf
    d.ndim = buffer.ndim
    d.itemsize = buffer.itemsize
    d.dtype_bits = buffer.itemsize * 8
    d.dtype_lanes = 1
    d.struct_bytes = sizeof(mv_desc)
    d.abi_version = 1
    d.flags = MV_READONLY if buffer.readonly else 0
    if buffer.shape is NULL:
        d.shape[0] = buffer.len // buffer.itemsize
    for k in range(d.ndim if buffer.shape is not NULL else 0):
        d.shape[k] = buffer.shape[k]
        if d.shape[k] < 0:
            return False
    if buffer.strides is NULL:
        mv_c_strides(d.ndim, d.shape, buffer.itemsize, d.strides)
    else:
        for k in range(d.ndim):
            d.strides[k] = buffer.strides[k]
    return mv_desc_derive(d, buffer.itemsize) == 0 and d.size * buffer.itemsize == buffer.len


cdef inline int hold(mv_frame *frame, object kept) noexcept:
    Py_INCREF(kept)
    frame.held[frame.holding] = <PyObject *>kept
    frame.holding += 1
    return 0


cdef void let_go(mv_frame *frame) noexcept:
    """Ends the views and leases that the call took."""
    cdef int k
    for k in range(frame.holding):
        kept = <object>frame.held[k]
        if isinstance(kept, View):
            view_leave(<View>kept)
        Py_DECREF(kept)
    frame.holding = 0


cdef int acquire(object obj, bint writes, mv_frame *frame, int at, str operation) except -1:
    """Fills frame.args[at] from an array of any kind; what it takes is held until let_go()."""
    cdef mv_desc *d = &frame.desc[at]
    cdef Lease lease
    frame.args[at] = d
    if type(obj) is cnp.ndarray and fill_from_array(<cnp.ndarray>obj, d):
        return 0
    return acquire_other(obj, writes, frame, at, operation)


cdef int acquire_other(object obj, bint writes, mv_frame *frame, int at, str operation) except -1:
    cdef mv_desc *d = &frame.desc[at]
    cdef Lease lease
    if not isinstance(obj, View):
        if hasattr(type(obj), "mojo"):
            obj = obj.mojo.view()
            if not isinstance(obj, View):
                raise ArgumentError(f"{operation}: expected one array or column, got a {type(obj).__name__}")
        elif hasattr(type(obj), "__array_interface__") or isinstance(obj, np.ndarray):
            obj = view(obj, writable=writes)
        else:
            try:
                lease = lease_buffer(obj, obj, PyBUF_FULL_RO)
            except (TypeError, BufferError, ValueError):
                lease = None  # view() finds the words
            if lease is not None and not (writes and lease.buffer.readonly) and fill_from_buffer(&lease.buffer, d):
                hold(frame, lease)
                return 0
            obj = view(obj, writable=writes)
    frame.args[at] = view_enter(<View>obj)
    hold(frame, obj)
    return 0


cdef dict RANGES = {str(np.dtype(c)): (int(np.iinfo(c).min), int(np.iinfo(c).max)) for c in "bhiqBHIQ"}


cdef inline bint is_number(object obj):
    return isinstance(obj, (float, int, np.generic))


cdef int convert(Kernel self, int param, object obj, int code, int bits, mv_value *value) except -1:
    """A Python number as a scalar of the dtype: integers exactly, and never through a float."""
    if type(obj) is float and code == MV_FLOAT:
        value.f64 = <double>obj
        return 0
    if code == MV_FLOAT:
        if not isinstance(obj, (float, int, np.floating, np.integer, np.bool_)):
            raise number_refusal(self.signature, self.signature.params[param].name, f"float{bits}", obj, True)
        try:
            value.f64 = float(obj)
        except OverflowError:
            raise number_refusal(self.signature, self.signature.params[param].name, f"float{bits}", obj, False) from None
        return 0
    if code == MV_BOOL:
        if not isinstance(obj, (bool, np.bool_)):
            raise number_refusal(self.signature, self.signature.params[param].name, "bool", obj, True)
        value.i64 = 1 if obj else 0
        return 0
    name = f"{'u' if code == MV_UINT else ''}int{bits}"
    if not isinstance(obj, (int, np.integer)):
        raise number_refusal(self.signature, self.signature.params[param].name, name, obj, True)
    number = int(obj)
    low, high = RANGES[name]
    if not low <= number <= high:
        raise number_refusal(self.signature, self.signature.params[param].name, name, obj, False)
    if code == MV_UINT:
        value.u64 = number
    else:
        value.i64 = number
    return 0


cdef int stand_in(Kernel self, int at, int param, object obj, mv_desc *like, mv_frame *frame) except -1:
    """An array of the shape of `like` whose elements are all one number."""
    cdef mv_value value
    cdef mv_desc *d = &frame.desc[at]
    cdef int k
    convert(self, param, obj, like.dtype_code, like.dtype_bits, &value)
    d[0] = like[0]
    mv_store_value(<char *>&frame.number[at], mv_type_index(like), value)
    d.data = &frame.number[at]
    for k in range(d.ndim):
        d.strides[k] = 0
    d.stride[0] = d.stride[1] = 0
    d.flags = MV_ALIGNED | MV_READONLY
    frame.args[at] = d
    return 0


# -- the call -----------------------------------------------------------------------------------------------------------------

cdef object call_kernel(object callable, PyObject *const *args, size_t nargsf, PyObject *kwnames):
    cdef Kernel self = <Kernel>callable
    cdef Py_ssize_t given = PyVectorcall_NARGS(nargsf)
    cdef mv_run run
    cdef mv_value option
    if self.handler is None and kwnames is NULL and given == self.params:
        run.threads = 0 if self.foreign.address == 0 else 1
        run.axis = NO_AXIS
        option.i64 = 0  # ddof 0.0, and the first comparison
        return invoke(self, args, &run, option, None)
    return call_slowly(self, args, given, kwnames)


cdef object call_slowly(Kernel self, PyObject *const *args, Py_ssize_t given, PyObject *kwnames):
    """With keywords, defaults or options."""
    cdef mv_run run
    cdef mv_value option
    cdef Py_ssize_t k
    positional = tuple([<object>args[k] for k in range(given)])
    keywords = {name: <object>args[given + k] for k, name in enumerate(<tuple>kwnames)} if kwnames is not NULL else {}
    own, options = bind(self.signature, self.call_form, positional, keywords)
    if self.handler is not None:
        return self.handler(*own, **options)
    threads = options["threads"]
    run.threads = thread_count(threads)
    if self.foreign.address and threads is None:
        run.threads = 1
    axis = options.get("axis")
    run.axis = NO_AXIS
    option.i64 = 0
    if self.option == OPTION_DDOF:
        convert(self, -1, options["ddof"], MV_FLOAT, 64, &option)
    elif self.option == OPTION_COMPARISON:
        if options["op"] not in COMPARISONS:
            raise KernelValueError(f"{self.signature.name}(): op: expected one of {', '.join(COMPARISONS)}, got {options['op']!r}")
        option.i64 = COMPARISONS.index(options["op"])
    return invoke(self, PySequence_Fast_ITEMS(own), &run, option, (axis, threads))


cdef object invoke(Kernel self, PyObject *const *args, mv_run *run, mv_value option, object asked):
    """`args`: one object for each parameter. `asked`: axis and threads as the caller gave them, or None."""
    cdef mv_frame frame
    cdef mv_fault fault
    cdef int k, arrays = 0, values = 0, status
    cdef int common = -1, numbers = 0
    cdef mv_desc *d
    frame.holding = 0
    try:
        for k in range(self.params):
            if not self.is_array[k]:
                continue
            if self.spec.array[arrays].scalar and type(<object>args[k]) is not cnp.ndarray and is_number(<object>args[k]):
                frame.args[arrays] = NULL
                numbers += 1
            else:
                acquire(<object>args[k], self.spec.array[arrays].writes, &frame, arrays, "")
                if common < 0 and self.spec.array[arrays].bits == 0:
                    common = arrays
            arrays += 1
        if numbers:
            fill_numbers(self, args, common, &frame)
        status = mv_check_call(&self.spec, frame.args, &fault)
        if status:
            raise refuse(self, args, &frame, status, fault)
        for k in range(self.params):
            if not self.is_array[k]:
                if self.value_bits[values]:
                    convert(self, k, <object>args[k], self.value_code[values], self.value_bits[values], &frame.values[values])
                else:
                    d = frame.args[common]
                    convert(self, k, <object>args[k], d.dtype_code, d.dtype_bits, &frame.values[values])
                values += 1
        if self.foreign.address:
            return run_foreign(self, &frame, run, asked)
        frame.values[values] = option
        return run_builtin(self, &frame, run, asked)
    finally:
        if frame.holding:
            let_go(&frame)


cdef int fill_numbers(Kernel self, PyObject *const *args, int common, mv_frame *frame) except -1:
    cdef int k, arrays = 0
    for k in range(self.params):
        if self.is_array[k]:
            if frame.args[arrays] is NULL:
                stand_in(self, arrays, k, <object>args[k], frame.args[common], frame)
            arrays += 1
    return 0


cdef refuse(Kernel self, PyObject *const *args, mv_frame *frame, int status, mv_fault fault):
    """The exception for arguments that the check or the kernel's table of loops refused."""
    cdef const mv_array_param *wanted = &self.spec.array[fault.which]
    arrays = [p for p in self.signature.params if p.role != "value"]
    objects = [<object>args[k] for k in range(self.params) if self.is_array[k]]
    wants = arrays[fault.which].dtype
    if wants == "T":
        first = next(k for k, p in enumerate(arrays) if p.dtype == "T")
        wants = None if fault.which == first else str(dtype_of_desc(frame.args[first]))
    return refusal(self.signature, status, arrays[fault.which].name, described(objects[fault.which], frame.args[fault.which]),
                   arrays[fault.other].name if fault.other >= 0 else None,
                   described(objects[fault.other], frame.args[fault.other]) if fault.other >= 0 else None,
                   wants, wanted.ndim, frame.args[fault.which].flags & MV_SWAPPED != 0, wanted.contiguous != 0)


cdef tuple described(object obj, const mv_desc *d):
    return (type(obj).__name__, d.dtype_code, d.dtype_bits, d.logical, tuple([d.shape[k] for k in range(d.ndim)]),
            tuple([d.strides[k] for k in range(d.ndim)]))


cdef object dtype_of_desc(const mv_desc *d):
    try:
        return dtype_of_code(d.dtype_code, d.dtype_bits, d.logical)
    except DTypeError:
        return "an opaque dtype"


cdef int raise_failure(Kernel self, int64_t word) except -1:
    cdef int status = <int>(word & 0xff)
    if status == MV_E_INTERRUPTED and PyErr_Occurred() is not NULL:
        raise_pending()
    raise failure(self.signature, status, (word >> 8) - 1 if word >> 8 > 0 else None)


cdef object run_builtin(Kernel self, mv_frame *frame, mv_run *run, object asked):
    cdef mv_desc *d = frame.args[0]
    cdef mv_value result
    cdef mv_fault fault
    cdef int32_t status
    cdef int type = 0
    out = None
    if self.result_type is not NULL:
        type = mv_type_index(d)
        if asked is not None and asked[0] is not None:
            run.axis = normal_axis(self.signature.name, asked[0], d.ndim)
        if type >= 0 and run.axis >= 0:
            out = output_along(self, frame, run.axis, self.result_type(self.context, type))
    if d.size >= GIL_WORTH:
        run.parallel = run_parallel
        with nogil:
            status = self.driver(self.context, frame.args, frame.values, &result, run)
    else:
        run.parallel = NULL
        status = self.driver(self.context, frame.args, frame.values, &result, run)
    if status == MV_E_DTYPE:
        raise no_loop(self, d)
    if status:
        raise_failure(self, status)
    if self.result_type is NULL:
        return None
    if out is not None:
        return out
    return scalar_result(self.result_type(self.context, type), result, d)


cdef object no_loop(Kernel self, mv_desc *d):
    name = next(p.name for p in self.signature.params if p.role != "value")
    return refusal(self.signature, MV_E_DTYPE, name, described(None, d), None, None, None, 0, False, False)


cdef int normal_axis(str name, object axis, int ndim) except -1:
    """NO_AXIS for the only axis of a 1-D array: its reduction is one number."""
    if not hasattr(axis, "__index__") or isinstance(axis, bool):
        raise ArgumentError(f"{name}(): axis: expected None or an int, got {axis.__class__.__name__}")
    number = axis.__index__()
    if not -ndim <= number < ndim:
        raise ShapeError(f"{name}(): axis {number} is out of range for {ndim} dimension(s)")
    return number % ndim if ndim > 1 else NO_AXIS


# NumPy dtypes in the order of MV_T_BOOL to MV_T_F64
cdef list DTYPES = [np.dtype(name) for name in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")]


cdef object output_along(Kernel self, mv_frame *frame, int axis, int type):
    """A fresh array for the result along an axis, set as the argument after the inputs."""
    cdef mv_desc *d = frame.args[0]
    shape = tuple([d.shape[k] for k in range(d.ndim) if k != axis])
    numbers = out = np.empty(shape, DTYPES[type] if type < len(DTYPES) else dtype_of_desc(d))
    if type >= len(DTYPES):
        numbers = out.view(np.int64)
    fill_from_array(<cnp.ndarray>numbers, &frame.desc[self.spec.arrays])
    frame.args[self.spec.arrays] = &frame.desc[self.spec.arrays]
    return out


cdef object scalar_result(int type, mv_value value, const mv_desc *d):
    if type == 0:
        return value.i64 != 0
    if type <= 4:
        return value.i64
    if type <= 8:
        return value.u64
    if type < len(DTYPES):
        return value.f64
    return np.int64(value.i64).view(dtype_of_desc(d))


cdef object run_foreign(Kernel self, mv_frame *frame, mv_run *run, object asked):
    cdef mv_value returned
    cdef int64_t word = 0, size = 0
    cdef int k, unused
    cdef bint split = asked is not None and asked[1] is not None
    returned.i64 = 0
    for k in range(self.spec.arrays):
        if frame.args[k].flags & MV_HAS_MASK and not self.spec.flags & MV_TAKES_MASKS:
            # nothing is missing: the kernel need not know that there is a mask
            frame.desc[k] = frame.args[k][0]
            frame.desc[k].flags &= ~MV_HAS_MASK
            frame.args[k] = &frame.desc[k]
        if frame.args[k].size > size:
            size = frame.args[k].size
    if split:
        check_splittable(self, frame)
        run.parallel = run_parallel
        with nogil:
            word = mv_foreign_run(&self.foreign, frame.args, frame.values, self.spec.arrays, run)
    elif size >= GIL_WORTH:
        with nogil:
            returned = mv_foreign_call(&self.foreign, frame.args, frame.values)
            word = mv_foreign_word(&self.foreign, returned)
    else:
        returned = mv_foreign_call(&self.foreign, frame.args, frame.values)
        word = mv_foreign_word(&self.foreign, returned)
    if word & 0xff:
        raise_failure(self, word)
    if self.foreign.gives != MV_GIVES_VALUE:
        return None
    if self.return_code == MV_FLOAT:
        return returned.f64
    if self.return_code == MV_BOOL:
        return (returned.i64 & 1) != 0  # of a returned bool only bit 0 is defined
    unused = 64 - self.return_bits  # above its width a register holds anything
    if self.return_code == MV_UINT:
        return returned.u64 << unused >> unused
    return <int64_t>(returned.u64 << unused) >> unused


cdef int check_splittable(Kernel self, mv_frame *frame) except -1:
    cdef int k
    name = self.signature.name
    if self.foreign.gives == MV_GIVES_VALUE:
        raise KernelValueError(f"{name}(): threads: a kernel that returns a {self.signature.result} cannot be split over rows")
    if self.spec.arrays == 0:
        raise KernelValueError(f"{name}(): threads: there is no array to split")
    for k in range(self.foreign.params):
        if self.foreign.pass_[k] == MV_PASS_POINTER:
            raise KernelValueError(f"{name}(): threads: only kernels that take descriptors can be split over rows")
    for k in range(self.spec.arrays):
        if frame.args[k].ndim < 1 or frame.args[k].shape[0] != frame.args[0].shape[0]:
            raise ShapeError(f"{name}(): threads: expected arrays of the same length to split")
    return 0


# -- kernels ------------------------------------------------------------------------------------------------------------------

cdef tuple number_code(str what, str name):
    """Type code and bits of a NumPy name; 0 bits for "T"."""
    if name == "T":
        return (MV_INT, 0)
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise DTypeError(f"{what}: expected a bool, integer or float dtype, got {name!r}")
    return ({"b": MV_BOOL, "i": MV_INT, "u": MV_UINT, "f": MV_FLOAT}[dtype.kind], dtype.itemsize * 8)


cdef int learn(Kernel self, object signature) except -1:
    """Reads a signature into the C fields that the call works with."""
    cdef int k, arrays = 0, values = 0
    cdef mv_array_param *array
    if len(signature.params) > MV_MAX_PARAMS:
        raise KernelValueError(f"{signature.name}: expected at most {MV_MAX_PARAMS} parameters, got {len(signature.params)}")
    for k, param in enumerate(signature.params):
        code, bits = number_code(f"{signature.name}: parameter '{param.name}'", param.dtype)
        self.is_array[k] = param.role != "value"
        if self.is_array[k]:
            array = &self.spec.array[arrays]
            memset(array, 0, sizeof(mv_array_param))
            array.code, array.bits = code, bits
            array.ndim = -1 if param.ndim is None else param.ndim
            array.writes = param.writes
            array.contiguous = param.passing == "pointer"
            self.foreign.pass_[k] = MV_PASS_POINTER if array.contiguous else MV_PASS_DESC
            arrays += 1
        else:
            self.value_code[values], self.value_bits[values] = code, bits
            self.foreign.pass_[k] = MV_PASS_INT if code != MV_FLOAT else MV_PASS_F64 if bits == 64 else MV_PASS_F32
            values += 1
    self.params = self.foreign.params = len(signature.params)
    self.spec.arrays = arrays
    self.values = values
    self.signature = signature
    return 0


@cython.final
cdef class Kernel:
    """Kernel()

    A native function that can be called on arrays. Built-in kernels are found in `mojoview.kernels`, those of a Mojo file come from
    `mojoview.load()`; `Kernel.from_address()` makes one from any function with a C ABI.

    A call takes ndarrays, views, Series and everything that `mojoview.view()` takes. It checks dtype, byte order, dimensions, strides,
    alignment, writability, sizes, overlap and masks before the function runs, and lets go of the GIL when the work is worth it.

    Attributes
    ----------
    name : str
    signature : Signature
    address : int
        Address of the native code. Borrowed: valid while the kernel lives.
    owner : object
        What keeps the code loaded; None for built-in kernels.

    Notes
    -----
    Thread safety: a kernel is immutable; calls may run in many threads at once. Nothing stops another thread from writing to the
    arrays of a running call.

    Examples
    --------
    >>> import numpy as np
    >>> from mojoview import kernels
    >>> x, y = np.arange(3.0), np.ones(3)
    >>> kernels.axpy(2.0, x, y)
    >>> y
    array([1., 3., 5.])
    """

    def __init__(self):
        raise ArgumentError("Kernel() is not called by hand: use mojoview.load(path) or Kernel.from_address(...)")

    def __cinit__(self):
        self.vectorcall = call_kernel

    @staticmethod
    def from_address(signature, address, *, owner):
        """from_address(signature, address, *, owner)

        A kernel from the address of a function with a C ABI.

        Parameters
        ----------
        signature : Signature
            How it is called. Arrays travel as ``const mv_desc *`` (``passing="descriptor"``) or as bare element pointers.
        address : int
        owner : object
            Kept for as long as the kernel lives, so that the code stays loaded; required.

        Returns
        -------
        Kernel
            Owns a reference to `owner`.

        Raises
        ------
        DTypeError, KernelValueError, ArgumentError
            The signature has something that cannot be passed.

        Notes
        -----
        ``threads=`` given at a call means that the kernel treats the elements along axis 0 independently: every array is then split
        along it, and each part is a call of its own. Only kernels on descriptors that return nothing or a status can be split. A
        kernel that does not stop by itself cannot be interrupted within one call; with ``threads=1`` Ctrl-C is seen between parts.

        Thread safety: any thread.
        """
        cdef Kernel self = Kernel.__new__(Kernel)
        if owner is None:
            raise ArgumentError(f"{signature.name}: owner: expected what keeps the code loaded, got None")
        if not hasattr(address, "__index__") or not 0 < address < 2**63:
            raise ArgumentError(f"{signature.name}: address: expected a positive int, got {address!r}")
        learn(self, signature)
        self.foreign.address = address
        self.spec.flags = (MV_TAKES_MASKS if signature.masks else 0) | (MV_EQUAL_SHAPES if signature.shapes == "equal" else 0)
        gives = {"none": MV_GIVES_NOTHING, "status": MV_GIVES_STATUS, "status_index": MV_GIVES_STATUS_INDEX}
        self.foreign.gives = gives.get(signature.result, MV_GIVES_VALUE)
        if self.foreign.gives == MV_GIVES_VALUE:
            self.return_code, self.return_bits = number_code(f"{signature.name}: result", signature.result)
        float_result = self.foreign.gives == MV_GIVES_VALUE and self.return_code == MV_FLOAT
        if (float_result and self.return_bits == 16) or any([p.role == "value" and p.dtype in ("float16", "T") for p in signature.params]):
            raise DTypeError(f"{signature.name}: scalars of type float16 or 'T' cannot be passed to a foreign function")
        self.foreign.returns = (MV_RETURN_NOTHING if self.foreign.gives == MV_GIVES_NOTHING else MV_RETURN_INT if not float_result
                                else MV_RETURN_F64 if self.return_bits == 64 else MV_RETURN_F32)
        if MV_INT_REGISTERS == 0:
            raise KernelError(f"{signature.name}: foreign functions can be called on x86-64 (System V) and aarch64 (AAPCS64) only")
        if not mv_foreign_fits(&self.foreign):
            raise KernelValueError(f"{signature.name}: more arguments than the calling convention has room for")
        self.call_form = call_form(signature, (("threads", None),), True)
        self.keeper = owner
        return self

    @property
    def name(self):
        return self.signature.name

    @property
    def __name__(self):
        return self.signature.name

    @property
    def __doc__(self):
        return self.signature.doc

    @property
    def __signature__(self):
        return self.call_form

    @property
    def address(self):
        return self.foreign.address if self.foreign.address else <uintptr_t>self.driver

    @property
    def owner(self):
        return self.keeper

    def __call__(self, *args, **kwargs):
        return PyVectorcall_Call(self, args, kwargs)

    def __repr__(self):
        return f"<mojoview kernel {self.signature.name}{self.call_form}>"

    def __reduce_ex__(self, protocol):
        raise ArgumentError("a Kernel cannot be pickled or copied: it stands for code loaded into this process")


cdef Kernel native_kernel(object signature, mv_driver driver, const void *context, mv_result_type result_type, int option, int flags):
    """A built-in kernel; any array may be strided and unaligned."""
    cdef Kernel self = Kernel.__new__(Kernel)
    learn(self, signature)
    self.driver = driver
    self.context = context
    self.result_type = result_type
    self.option = option
    self.spec.flags = flags | MV_TAKES_STRIDES
    self.spec.array[1].scalar = result_type is NULL and self.spec.arrays == 3  # the y of x and y into out
    options = (("axis", None),) if result_type is not NULL else ()
    options += (("ddof", 0),) if option == OPTION_DDOF else (("op", "lt"),) if option == OPTION_COMPARISON else ()
    self.call_form = call_form(signature, options + (("threads", None),), False)
    return self


cdef int install_vectorcall() except -1:
    """Calls of a Kernel go straight to call_kernel(), without a tuple of arguments."""
    cdef Kernel probe = Kernel.__new__(Kernel)
    cdef CallableType *kind = <CallableType *>Kernel
    kind.tp_vectorcall_offset = <char *>&probe.vectorcall - <char *><PyObject *>probe
    kind.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL
    PyType_Modified(Kernel)
    return 0


install_vectorcall()
