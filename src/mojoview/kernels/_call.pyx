"""Kernel: the checked call of native functions on arrays. The only place that reads NumPy's own structs."""

cimport cython
from cpython.buffer cimport PyBUF_FULL_RO, Py_buffer
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.string cimport memset

from mojoview.kernels._pool cimport mv_run, mv_task, run_parallel, thread_count
from mojoview.kernels._sizes cimport fill_sizes, learn_sizes
from mojoview.memory.abi cimport (
    MV_ALIGNED, MV_BOOL, MV_BYTE_STRIDES, MV_C_CONTIGUOUS, MV_DATETIME, MV_E_DTYPE, MV_E_INTERRUPTED, MV_E_STRIDE, MV_F_CONTIGUOUS,
    MV_FLOAT, MV_HAS_MASK, MV_INT, MV_MAX_NDIM, MV_OK, MV_READONLY, MV_SWAPPED, MV_TIMEDELTA, MV_UINT, mv_desc, mv_value,
)
from mojoview.memory._lease cimport borrow, give_back
from mojoview.views._view cimport View, view_enter, view_leave

import array
import mmap
from operator import index

import numpy as np

from mojoview.kernels.arguments import Plan, outcome, told
from mojoview.kernels.asynchrony import calls
from mojoview.kernels.binding import COMPARISONS, bind, call_form, failure, number_refusal, refusal
from mojoview.kernels.signature import check_signature
from mojoview.memory._dtype import dtype_of_code
from mojoview.memory.errors import ArgumentError, DTypeError, KernelError, KernelOverflowError, KernelValueError, ShapeError
from mojoview.views import view
from mojoview.views._protocols import has_accessor

cnp.import_array()


cdef extern from "Python.h":
    size_t PyVectorcall_NARGS(size_t nargsf)
    object PyVectorcall_Call(object callable, object args, object kwargs)
    PyObject **PySequence_Fast_ITEMS(object)
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
    int raise_pending "mv_raise_pending"() except -1
    void mv_desc_from_array(mv_desc *d, void *data, int ndim, const int64_t *shape, const int64_t *strides, int code, int log2item,
                            uint64_t flags)

cdef extern from "plain.h":
    void mv_plain_learn(object dtype, int number, int code, int bits, int letter)
    void mv_plain_plan(mv_plain *plain, const mv_spec *spec, const uint8_t *array_at, bint descriptors_only)
    bint mv_plain_frame(mv_frame *frame, const mv_plain *plain, PyObject *const *args, type ndarray, const Py_buffer *buffers)
    int64_t mv_plain_run(mv_desc *d, int n, uintptr_t address)
    bint mv_plain_call(const mv_plain *plain, uintptr_t address, PyObject *const *args, type ndarray, int64_t most, mv_value *returned)

cdef enum:
    NO_AXIS = -1


# -- arguments ----------------------------------------------------------------------------------------------------------------

# Type code and log2 of the item size by NumPy's type number; -1: not a plain number.
cdef signed char array_code[32]
cdef signed char array_log2[32]
memset(array_code, -1, sizeof(array_code))
for _dtype in map(np.dtype, "?bhilqBHILQefd"):
    array_code[_dtype.num] = {"b": MV_BOOL, "i": MV_INT, "u": MV_UINT, "f": MV_FLOAT}[_dtype.kind]
    array_log2[_dtype.num] = _dtype.itemsize.bit_length() - 1
    mv_plain_learn(_dtype, _dtype.num, array_code[_dtype.num], _dtype.itemsize * 8, ord(_dtype.char))


cdef inline bint fill_from_array(cnp.ndarray source, mv_desc *d) noexcept:
    """False where the array is none of plain numbers in native order: then the long way knows what to say."""
    cdef int number = cnp.PyArray_TYPE(source)
    cdef int ndim = cnp.PyArray_NDIM(source)
    cdef int flags = cnp.PyArray_FLAGS(source)
    cdef uint64_t mine = 0
    if not 0 <= number < <int>sizeof(array_code) or array_code[number] < 0 or not cnp.PyArray_ISNOTSWAPPED(source) or ndim > MV_MAX_NDIM:
        return False
    if flags & cnp.NPY_ARRAY_C_CONTIGUOUS:
        mine |= MV_C_CONTIGUOUS
    if flags & cnp.NPY_ARRAY_F_CONTIGUOUS:
        mine |= MV_F_CONTIGUOUS
    if flags & cnp.NPY_ARRAY_ALIGNED:
        mine |= MV_ALIGNED
    if not flags & cnp.NPY_ARRAY_WRITEABLE:
        mine |= MV_READONLY
    mv_desc_from_array(d, cnp.PyArray_DATA(source), ndim, <int64_t *>cnp.PyArray_DIMS(source), <int64_t *>cnp.PyArray_STRIDES(source),
                       array_code[number], array_log2[number], mine)
    return True


cdef bint fill_from_buffer(const Py_buffer *buffer, mv_desc *d) noexcept:
    """False where the buffer is none of plain native numbers, or does not hang together."""
    cdef const char *format = b"B"
    cdef int64_t shape = 0, stride = buffer.itemsize
    cdef int code, log2item
    if buffer.format is not NULL:
        format = buffer.format
    if format[0] in (c"@", c"=", c"<"):
        format += 1
    if format[0] == 0 or format[1] != 0 or buffer.ndim > MV_MAX_NDIM or buffer.suboffsets is not NULL:
        return False
    if format[0] in (c"b", c"h", c"i", c"l", c"q", c"n"):
        code = MV_INT
    elif format[0] in (c"B", c"H", c"I", c"L", c"Q", c"N"):
        code = MV_UINT
    elif format[0] in (c"e", c"f", c"d"):
        code = MV_FLOAT
    elif format[0] == c"?":
        code = MV_BOOL
    else:
        return False
    log2item = 3 if stride == 8 else 2 if stride == 4 else 1 if stride == 2 else 0
    if stride != 1 << log2item:
        return False
    if buffer.ndim == 1 and (buffer.strides is NULL or buffer.strides[0] == stride):
        shape = buffer.len >> log2item
        if buffer.shape is not NULL and buffer.shape[0] != shape:
            return False
        mv_desc_from_array(d, buffer.buf, 1, &shape, &stride, code, log2item, MV_C_CONTIGUOUS | MV_F_CONTIGUOUS
                           | (MV_ALIGNED if <uintptr_t>buffer.buf & (stride - 1) == 0 else 0))
    elif buffer.shape is NULL or buffer.strides is NULL:
        return False
    else:
        mv_desc_from_array(d, buffer.buf, buffer.ndim, <int64_t *>buffer.shape, <int64_t *>buffer.strides, code, log2item, 0)
        if mv_desc_derive(d, stride) or d.size << log2item != buffer.len:
            return False
    if buffer.readonly:
        d.flags |= MV_READONLY
    return True


cdef inline int enter(mv_frame *frame, int at, View entered) except -1:
    frame.args[at] = view_enter(entered)
    Py_INCREF(entered)
    frame.view[frame.views] = <PyObject *>entered
    frame.views += 1
    return 0


cdef void let_go(mv_frame *frame) noexcept:
    """Ends what the call took."""
    cdef int k
    for k in range(frame.views):
        view_leave(<View>frame.view[k])
        Py_DECREF(<View>frame.view[k])
    for k in range(frame.buffers):
        give_back(&frame.buffer[k])
    frame.views = frame.buffers = 0


# Exporters of the standard library, which have no other way to be looked for.
cdef object ARRAY = array.array, MMAP = mmap.mmap


cdef inline bint is_plain_exporter(object obj) noexcept:
    return (type(obj) is ARRAY or type(obj) is memoryview or type(obj) is bytes or type(obj) is bytearray or type(obj) is MMAP)


cdef inline bint borrow_plain(Kernel self, PyObject *const *args, mv_frame *frame) except -1:
    """The buffers of all arguments that are no ndarrays; False where one is no exporter of the standard library."""
    cdef int k
    if self.plain.arrays == 0:
        return False
    for k in range(self.plain.arrays):
        obj = <object>args[self.array_at[k]]
        if type(obj) is not cnp.ndarray:
            if not is_plain_exporter(obj):
                return False
            borrow(obj, &frame.buffer[frame.buffers], PyBUF_FULL_RO)
            frame.buffers += 1
    return True


cdef inline bint take_buffer(object obj, bint writes, mv_frame *frame, int at) except -1:
    """False where view() has to look."""
    borrow(obj, &frame.buffer[frame.buffers], PyBUF_FULL_RO)
    frame.buffers += 1
    return not (writes and frame.buffer[frame.buffers - 1].readonly) and fill_from_buffer(&frame.buffer[frame.buffers - 1],
                                                                                        frame.args[at])


cdef int acquire(object obj, bint writes, bint masks, mv_frame *frame, int at, str operation) except -1:
    """Fills frame.args[at] from an array of any kind; what it takes is held until let_go()."""
    frame.args[at] = &frame.desc[at]
    if type(obj) is cnp.ndarray and fill_from_array(<cnp.ndarray>obj, frame.args[at]):
        return 0
    if is_plain_exporter(obj):
        if take_buffer(obj, writes, frame, at):
            return 0
    elif isinstance(obj, View):
        return enter(frame, at, <View>obj)
    elif has_accessor(obj):
        column = obj.mojo.view(na="mask") if masks else obj.mojo.view()
        if not isinstance(column, View):
            raise ArgumentError(f"{operation}(): expected one array or column, got a {type(obj).__name__}")
        return enter(frame, at, <View>column)
    shared = view(obj, writable=writes)
    if not isinstance(shared, View):  # Arrow's strings, bits, lists and chunks have no array of their own
        raise DTypeError(f"{operation}(): expected one array whose items have their bytes in place, got a "
                         f"{type(shared).__name__}; take its parts or its chunks, or mojoview.view(obj, copy='if_needed')")
    return enter(frame, at, <View>shared)


cdef dict NO_OPTIONS = {}
cdef dict RANGES = {str(np.dtype(c)): (int(np.iinfo(c).min), int(np.iinfo(c).max)) for c in "bhiqBHIQ"}


cdef inline bint is_number(object obj):
    return isinstance(obj, (float, int, np.generic))


cdef object scalar_name(Kernel self, int param):
    """-1 stands for the option ddof."""
    return self.signature.params[param].name if param >= 0 else "ddof"


cdef int convert(Kernel self, int param, object obj, int code, int bits, mv_value *value) except -1:
    """A Python number as a scalar of the dtype: integers exactly, and never through a float."""
    if type(obj) is float and code == MV_FLOAT and bits > 16:
        value.f64 = <double>obj
        return 0
    if code == MV_FLOAT:
        if not isinstance(obj, (float, int, np.floating, np.integer, np.bool_)):
            raise number_refusal(self.signature, scalar_name(self, param), f"float{bits}", obj, True)
        try:
            value.f64 = float(obj)
        except OverflowError:
            raise number_refusal(self.signature, scalar_name(self, param), f"float{bits}", obj, False) from None
        if bits == 16:  # rounded once, as NumPy does: kernels compute in float32
            with np.errstate(over="ignore", under="ignore"):
                value.f64 = float(np.float16(value.f64))
        return 0
    if code == MV_BOOL:
        if not isinstance(obj, (bool, np.bool_)):
            raise number_refusal(self.signature, scalar_name(self, param), "bool", obj, True)
        value.i64 = 1 if obj else 0
        return 0
    name = f"{'u' if code == MV_UINT else ''}int{bits}"
    if not isinstance(obj, (int, np.integer)):
        raise number_refusal(self.signature, scalar_name(self, param), name, obj, True)
    number = int(obj)
    low, high = RANGES[name]
    if not low <= number <= high:
        raise number_refusal(self.signature, scalar_name(self, param), name, obj, False)
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
    if kwnames is NULL and given == self.params:
        if mv_plain_call(&self.plain, self.foreign.address, args, cnp.ndarray, GIL_WORTH, &option):
            return finish_plain(self, option)
        if self.handler is not None or self.helped or (self.foreign.address and any_of_python(self, args)):
            return call_slowly(self, args, given, kwnames)
        run.threads = 0 if self.foreign.address == 0 else 1
        run.axis = NO_AXIS
        option.i64 = 0  # ddof 0.0, and the first comparison
        return invoke(self, args, &run, option, None)
    return call_slowly(self, args, given, kwnames)


cdef inline object finish_plain(Kernel self, mv_value returned):
    cdef int64_t word = mv_foreign_word(&self.foreign, returned)
    if word & 0xff:
        raise_failure(self, word)
    return None


cdef inline bint any_of_python(Kernel self, PyObject *const *args) noexcept:
    """Whether an array argument is a list, a tuple or a dict, or an output is left to be made."""
    cdef int k
    for k in range(self.spec.arrays):
        obj = <object>args[self.array_at[k]]
        if type(obj) is list or type(obj) is tuple or type(obj) is dict or obj is None:
            return True
    return False


cdef object call_unmade(object callable, PyObject *const *args, size_t nargsf, PyObject *kwnames):
    """What Kernel.__new__() alone makes has no function to call."""
    raise ArgumentError("Kernel() is not called by hand: use mojoview.load(path) or Kernel.from_address(...)")


cdef object call_slowly(Kernel self, PyObject *const *args, Py_ssize_t given, PyObject *kwnames):
    """With keywords, defaults or options."""
    cdef Py_ssize_t k
    positional = tuple([<object>args[k] for k in range(given)])
    keywords = {name: <object>args[given + k] for k, name in enumerate(<tuple>kwnames)} if kwnames is not NULL else {}
    own, options = None if keywords or self.plan is None else self.plan.fill(positional), NO_OPTIONS
    if own is None:
        own, options = bind(self.signature, self.call_form, positional, keywords)
    if self.handler is not None:
        return self.handler(*own, **options)
    back, message = None, None
    if self.foreign.address and (self.helped or any_of_python(self, PySequence_Fast_ITEMS(own))):
        own, back, message = self.plan.prepare(own)
    try:
        result = invoke_bound(self, own, options)
    except BaseException as error:
        raise told(error, message)
    return outcome(result, back) if back else result


cdef object invoke_bound(Kernel self, tuple own, dict options):
    """`own`: one object for each parameter, prepared; `options`: those of the kernel, all of them."""
    cdef mv_run run
    cdef mv_value option
    threads = options.get("threads")
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
    if mv_plain_frame(&frame, &self.plain, args, cnp.ndarray, NULL):
        return run_checked(self, args, &frame, run, option, asked)
    return invoke_slowly(self, args, &frame, run, option, asked)


cdef object invoke_slowly(Kernel self, PyObject *const *args, mv_frame *frame, mv_run *run, mv_value option, object asked):
    """Arrays of any kind, with the whole check."""
    cdef mv_fault fault
    cdef int k, status, common = -1, numbers = 0
    frame.views = frame.buffers = 0
    try:
        if run is not NULL and borrow_plain(self, args, frame) and mv_plain_frame(frame, &self.plain, args, cnp.ndarray, frame.buffer):
            if self.plain.direct and frame.desc[0].size < GIL_WORTH:
                option.i64 = mv_plain_run(frame.desc, self.plain.direct, self.foreign.address)
                return finish_plain(self, option)
            return run_checked(self, args, frame, run, option, asked)
        let_go(frame)
        for k in range(self.spec.arrays):
            obj = <object>args[self.array_at[k]]
            if self.spec.array[k].scalar and is_number(obj):
                frame.args[k] = NULL
                numbers += 1
                continue
            acquire(obj, self.spec.array[k].writes, self.spec.flags & MV_TAKES_MASKS != 0, frame, k, self.signature.name)
            if common < 0 and self.spec.array[k].bits == 0:
                common = k
        if numbers:
            fill_numbers(self, args, common, frame)
        status = mv_check_call(&self.spec, frame.args, &fault)
        if status:
            raise refuse(self, args, frame, status, fault)
        return run_checked(self, args, frame, run, option, asked)
    finally:
        let_go(frame)


cdef inline object run_checked(Kernel self, PyObject *const *args, mv_frame *frame, mv_run *run, mv_value option, object asked):
    cdef int k
    for k in range(self.values):
        if self.value_bits[k]:
            convert(self, self.value_at[k], <object>args[self.value_at[k]], self.value_code[k], self.value_bits[k], &frame.values[k])
        else:
            convert(self, self.value_at[k], <object>args[self.value_at[k]], frame.args[self.common].dtype_code,
                    frame.args[self.common].dtype_bits, &frame.values[k])
    if run is NULL:  # check_bound()
        return None
    if self.foreign.address:
        return run_foreign(self, frame, run, asked)
    frame.values[self.values] = option
    return run_builtin(self, frame, run, asked)


cdef int fill_numbers(Kernel self, PyObject *const *args, int common, mv_frame *frame) except -1:
    cdef int k
    for k in range(self.spec.arrays):
        if frame.args[k] is NULL:
            stand_in(self, k, self.array_at[k], <object>args[self.array_at[k]], frame.args[common], frame)
    return 0


cdef refuse(Kernel self, PyObject *const *args, mv_frame *frame, int status, mv_fault fault):
    """The exception for arguments that the check or the kernel's table of loops refused."""
    cdef const mv_array_param *wanted = &self.spec.array[fault.which]
    arrays = [p for p in self.signature.params if p.role != "value"]
    objects = [<object>args[self.array_at[k]] for k in range(self.spec.arrays)]
    wants = arrays[fault.which].dtype
    if wants == "T":
        first = next(k for k, p in enumerate(arrays) if p.dtype == "T")
        wants = None if fault.which == first else str(dtype_of_desc(frame.args[first]))
    return refusal(self.signature, status, f"argument '{arrays[fault.which].name}'", described(objects[fault.which], frame.args[fault.which]),
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


cdef int raise_status(object signature, int64_t word) except -1:
    """The exception for a failure word; an interrupt has set its own."""
    cdef int status = <int>(word & 0xff)
    if status == MV_E_INTERRUPTED and PyErr_Occurred() is not NULL:
        raise_pending()
    raise failure(signature, status, (word >> 8) - 1 if word >> 8 > 0 else None)


cdef int raise_failure(Kernel self, int64_t word) except -1:
    """The same for a function that may know where its source stands."""
    cdef int status = <int>(word & 0xff)
    if self.origin is None or status == MV_E_INTERRUPTED:
        return raise_status(self.signature, word)
    raise self.origin.failure(self.signature, status, (word >> 8) - 1 if word >> 8 > 0 else None)


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
        raise no_loop(self.signature, f"argument '{self.signature.params[self.array_at[0]].name}'", d)
    if status:
        raise_status(self.signature, status)
    if self.result_type is NULL:
        return None
    if out is not None:
        return out
    return scalar_result(self.result_type(self.context, type), result, d)


cdef object no_loop(object signature, str name, const mv_desc *d):
    return refusal(signature, MV_E_DTYPE, name, described(None, d), None, None, None, 0, False, False)


cdef int check_input(object signature, str name, object obj, mv_desc *d) except -1:
    """One array of any shape, strides and mask that is only read."""
    cdef mv_spec spec
    cdef mv_fault fault
    memset(&spec, 0, sizeof(spec))
    spec.arrays = 1
    spec.flags = MV_TAKES_MASKS | MV_TAKES_STRIDES
    spec.array[0].ndim = -1
    cdef int status = mv_check_call(&spec, &d, &fault)
    if status:
        raise refusal(signature, status, name, described(obj, d), None, None, None, -1, d.flags & MV_SWAPPED != 0, False)
    if mv_type_index(d) < 0:
        raise no_loop(signature, name, d)
    return 0


cdef int normal_axis(str name, object axis, int ndim) except? -1:
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


cdef object python_value(mv_value value, const mv_desc *d):
    """An element that an accumulator held, as the array's dtype has it."""
    return scalar_result(mv_type_index(d), value, d)


cdef object run_foreign(Kernel self, mv_frame *frame, mv_run *run, object asked):
    cdef mv_value returned
    cdef int64_t word = 0, size = 0
    cdef int k, unused
    cdef bint split = asked is not None and asked[1] is not None
    returned.i64 = 0
    if self.sizes.count:
        fill_sizes(&self.sizes, self.signature, frame.args, frame.values, self.values)
    for k in range(self.spec.arrays):
        if frame.args[k].flags & MV_HAS_MASK and not self.spec.flags & MV_TAKES_MASKS:
            # nothing is missing: the kernel need not know that there is a mask
            frame.desc[k] = frame.args[k][0]
            frame.desc[k].flags &= ~MV_HAS_MASK
            frame.desc[k].mask = NULL
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
    if dtype.kind not in "biuf" or dtype.itemsize > 8 or not dtype.isnative:
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
        if param.role != "value":
            if bits == 0 and self.common < 0:
                self.common = arrays
            self.array_at[arrays] = k
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
            self.value_at[values] = k
            self.foreign.pass_[k] = MV_PASS_INT if code != MV_FLOAT else MV_PASS_F64 if bits == 64 else MV_PASS_F32
            values += 1
    if self.common < 0 and any([self.value_bits[k] == 0 for k in range(values)]):
        raise KernelValueError(f"{signature.name}: a scalar of dtype 'T' needs an array of dtype 'T'")
    self.params = self.foreign.params = len(signature.params)
    self.spec.arrays = arrays
    self.values = values
    self.signature = signature
    self.vectorcall = call_kernel
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
        self.vectorcall = call_unmade
        self.common = -1

    @staticmethod
    def from_address(signature, address, *, owner, origin=None):
        """from_address(signature, address, *, owner, origin=None)

        A kernel from the address of a function with a C ABI.

        Parameters
        ----------
        signature : Signature
            How it is called. Arrays travel as ``const mv_desc *`` (``passing="descriptor"``) or as bare element pointers.
        address : int
        owner : object
            Kept for as long as the kernel lives, so that the code stays loaded; required.
        origin : Origin, optional
            Makes the exceptions of failures: `origin.failure(signature, code, index)`.

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
        check_signature(signature)
        if owner is None:
            raise ArgumentError(f"{signature.name}: owner: expected what keeps the code loaded, got None")
        if not hasattr(address, "__index__") or isinstance(address, bool) or not 0 < index(address) < 2**63:
            raise ArgumentError(f"{signature.name}: address: expected a positive int, got {address!r}")
        learn(self, signature)
        learn_sizes(&self.sizes, signature, self.foreign.pass_, &self.foreign.params, MV_PASS_INT)
        self.foreign.address = index(address)
        self.spec.flags = (MV_TAKES_MASKS if signature.masks else 0) | (MV_EQUAL_SHAPES if signature.shapes == "equal" else 0)
        gives = {"none": MV_GIVES_NOTHING, "status": MV_GIVES_STATUS, "status_index": MV_GIVES_STATUS_INDEX}
        self.foreign.gives = gives.get(signature.result, MV_GIVES_VALUE)
        if self.foreign.gives == MV_GIVES_VALUE:
            self.return_code, self.return_bits = number_code(f"{signature.name}: result", signature.result)
            if self.return_bits == 0:
                raise DTypeError(f"{signature.name}: result: expected a scalar's dtype, got 'T'")
        float_result = self.foreign.gives == MV_GIVES_VALUE and self.return_code == MV_FLOAT
        if (float_result and self.return_bits == 16) or any([p.role == "value" and p.dtype in ("float16", "T") for p in signature.params]):
            raise DTypeError(f"{signature.name}: scalars of type float16 or 'T' cannot be passed to a foreign function")
        self.foreign.returns = (MV_RETURN_NOTHING if self.foreign.gives == MV_GIVES_NOTHING else MV_RETURN_INT if not float_result
                                else MV_RETURN_F64 if self.return_bits == 64 else MV_RETURN_F32)
        if MV_INT_REGISTERS == 0:
            raise KernelError(f"{signature.name}: foreign functions can be called on x86-64 (System V) and aarch64 (AAPCS64) only")
        if not mv_foreign_fits(&self.foreign):
            raise KernelValueError(f"{signature.name}: more arguments than the calling convention has room for")
        mv_plain_plan(&self.plain, &self.spec, self.array_at,
                      self.foreign.gives != MV_GIVES_VALUE and all([p.passing == "descriptor" for p in signature.params]))
        self.plan = Plan(signature)
        self.call_form = call_form(signature, (("threads", None),), True, self.plan.left_out)
        self.helped = self.plan.helped
        self.origin = origin
        self.keeper = owner
        return self

    def canary(self, reference, *, sample=0.01, rtol=None, atol=0.0, on_mismatch="fallback", promote_after=None, directory=None,
               seed=None):
        """canary(reference, *, sample=0.01, rtol=None, atol=0.0, on_mismatch="fallback", promote_after=None, directory=None, seed=None)

        The kernel, with a Python reference run beside it on a sample of the calls: see `mojoview.kernels.canary.watch`.
        """
        from mojoview.kernels.canary import watch
        return watch(self, reference, sample=sample, rtol=rtol, atol=atol, on_mismatch=on_mismatch, promote_after=promote_after,
                     directory=directory, seed=seed)

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

    def submit(self, *args, **options):
        """submit(*args, **options)

        Begins a call on a thread of mojoview's own; the arguments are those of the call.

        Returns
        -------
        KernelFuture
            A `concurrent.futures.Future` with a `.state`. It holds the arguments until the call has ended.

        Raises
        ------
        QueueFull
            The queue had no room for as long as a caller may wait.

        Notes
        -----
        Nobody may write to the arrays before the call has ended. A call on so little data that another thread gains nothing
        (4096 elements; 65,536 for built-in kernels) runs at once. Thread safety: any thread.

        Examples
        --------
        >>> import numpy as np, mojoview as mv
        >>> mv.kernels.sum.submit(np.arange(5.0)).result()
        10.0
        """
        return calls().submit(self, args, options)

    def aio(self, *args, **options):
        """aio(*args, **options)

        The call for `await`: as `submit()`, with the result delivered to the running event loop.

        Returns
        -------
        coroutine
            Its result is the call's.

        Notes
        -----
        Where the queue is full the coroutine waits for room, and the loop goes on. Cancelling takes a call that waits out
        of the queue; one that runs goes on to its end, and its arrays are held until then. Thread safety: any thread with
        a running loop.

        Examples
        --------
        >>> import asyncio, numpy as np, mojoview as mv
        >>> async def main():
        ...     return await mv.kernels.sum.aio(np.arange(5.0))
        >>> asyncio.run(main())
        10.0
        """
        return calls().aio(self, args, options)

    def __repr__(self):
        return f"<mojoview kernel {self.signature.name}{self.call_form}>"

    def __reduce_ex__(self, protocol):
        raise ArgumentError("a Kernel cannot be pickled or copied: it stands for code loaded into this process")


cdef int check_bound(Kernel self, tuple own) except -1:
    """The check of a call alone."""
    cdef mv_frame frame
    cdef mv_value option
    option.i64 = 0
    if self.handler is None:
        invoke_slowly(self, PySequence_Fast_ITEMS(own), &frame, NULL, option, None)
    return 0


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
    mv_plain_plan(&self.plain, &self.spec, self.array_at, False)
    options = (("axis", None),) if result_type is not NULL else ()
    options += (("ddof", 0),) if option == OPTION_DDOF else (("op", "lt"),) if option == OPTION_COMPARISON else ()
    self.call_form = call_form(signature, options + (("threads", None),), False)
    return self


def handled_kernel(signature, handler):
    """handled_kernel(signature, handler)

    A kernel whose calls go to a Python function, with `threads` as its option.

    Parameters
    ----------
    signature : Signature
    handler : callable
        Takes the signature's parameters and `threads`.

    Returns
    -------
    Kernel

    Raises
    ------
    DTypeError, KernelValueError
        The signature has something that cannot be passed.

    Notes
    -----
    Thread safety: any thread.

    Examples
    --------
    >>> from mojoview.kernels.signature import Param, Signature
    >>> handled_kernel(Signature("twice", (Param("x", "in", "T", None),)), lambda x, threads: 2 * x)(4)
    8
    """
    cdef Kernel self = Kernel.__new__(Kernel)
    learn(self, signature)
    self.handler = handler
    self.call_form = call_form(signature, (("threads", None),), False)
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
