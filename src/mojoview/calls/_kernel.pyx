"""Kernel: the checked call of native functions on arrays."""

cimport cython
from cpython.buffer cimport Py_buffer
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t

from mojoview.calls._arrays cimport acquire, get_fast_buffers, release_arguments
from mojoview.calls._compiled_signature cimport compile_signature, compile_result
from mojoview.calls._pool cimport mv_run, run_parallel, thread_count
from mojoview.calls._argument_errors cimport no_loop_error, raise_status, argument_error_of
from mojoview.calls._scalars cimport dtype_of_type, is_number, returned_scalar, scalar_result, broadcast_scalar, convert_scalar
from mojoview.calls._sizes cimport fill_sizes, compile_sizes
from mojoview.calls.call_args cimport (
    MV_GIVES_VALUE, MV_PASS_INT, MV_PASS_POINTER, MV_TAKES_MASKS, MV_TAKES_STRIDES, mv_check_call, mv_fault, mv_foreign_call,
    mv_foreign_run, mv_foreign_word, mv_call_args, mv_fast_plan, mv_spec, mv_type_index,
)
from mojoview.memory.abi cimport MV_E_DTYPE, MV_FLOAT, MV_HAS_MASK, mv_desc, mv_value

from operator import index

import numpy as np

from mojoview.calls.arguments import ArgumentPlan, pack_results, with_kernel_message
from mojoview.calls.binding import COMPARISONS, bind, call_signature
from mojoview.calls.signature import Signature, check_signature
from mojoview.memory.errors import ArgumentError, KernelValueError, ShapeError
from mojoview.memory.extension_points import AWAIT_CALL, CANARY, SUBMIT_CALL, resolve


cdef extern from "Python.h":
    size_t PyVectorcall_NARGS(size_t nargsf)
    object PyVectorcall_Call(object callable, object args, object kwargs)
    PyObject **PySequence_Fast_ITEMS(object)
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    void PyType_Modified(type)
    ctypedef struct CallableType "PyTypeObject":
        Py_ssize_t tp_vectorcall_offset
        unsigned long tp_flags
        object (*tp_call)(object, object, object)

cdef extern from "calls/fast_path.h":
    void mv_fast_register_dtype(object dtype)
    void mv_fast_compile(mv_fast_plan *plain, const mv_spec *spec, const uint8_t *array_at, bint descriptors_only)
    bint mv_fast_fill(mv_call_args *frame, const mv_fast_plan *plain, PyObject *const *args, type ndarray, const Py_buffer *buffers)
    int64_t mv_fast_invoke(mv_desc *d, int n, uintptr_t address)
    bint mv_fast_call(const mv_fast_plan *plain, uintptr_t address, PyObject *const *args, type ndarray, int64_t most, int64_t *returned)
    bint mv_desc_of_ndarray(mv_desc *d, object source)

cdef enum:
    NO_AXIS = -1


cdef type NDARRAY = np.ndarray
cdef dict NO_OPTIONS = {}
cdef object UNINITIALISED = Signature("unmade", ()), NO_CALL_SIGNATURE = call_signature(UNINITIALISED, (), True)  # of what __new__() alone makes

for _dtype in map(np.dtype, "?bhilqBHILQefd"):
    mv_fast_register_dtype(_dtype)


# -- the call -----------------------------------------------------------------------------------------------------------------

cdef PyObject *call_kernel(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) except NULL:
    """The most frequent call goes without a reference taken: bare pointers, until something is out of the ordinary."""
    cdef mv_value returned
    if kwnames is NULL and <Py_ssize_t>PyVectorcall_NARGS(nargsf) == (<Kernel>callable).compiled.params and mv_fast_call(
            &(<Kernel>callable).plain, (<Kernel>callable).foreign.address, args, NDARRAY, GIL_WORTH, &returned.i64):
        if mv_foreign_word(&(<Kernel>callable).foreign, returned) & 0xff == 0:
            Py_INCREF(None)
            return <PyObject *>None
        raise_failure(<Kernel>callable, returned)
    return checked_entry(callable, args, nargsf, kwnames)


cdef PyObject *call_checked(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) except NULL:
    result = call_general(<Kernel>callable, args, PyVectorcall_NARGS(nargsf), kwnames)
    Py_INCREF(result)
    return <PyObject *>result


# Called through a pointer, so that compilers keep its registers and stack out of call_kernel().
cdef vectorcallfunc checked_entry = call_checked


cdef object call_general(Kernel self, PyObject *const *args, Py_ssize_t given, PyObject *kwnames):
    cdef mv_run run
    cdef mv_value option
    if (kwnames is not NULL or given != self.compiled.params or self.handler is not None or self.needs_conversion
            or (self.foreign.address and any_needs_conversion(self, args))):
        return call_with_keywords(self, args, given, kwnames)
    run.threads = 0 if self.foreign.address == 0 else 1
    run.axis = NO_AXIS
    option.i64 = 0  # ddof 0.0, and the first comparison
    return invoke(self, args, &run, option, None)


cdef int raise_failure(Kernel self, mv_value returned) except -1:
    return raise_status(self.signature, self.origin, mv_foreign_word(&self.foreign, returned))


cdef inline bint any_needs_conversion(Kernel self, PyObject *const *args) noexcept:
    """Whether an array argument is a list, a tuple or a dict, or an output is left to be made."""
    cdef int k
    for k in range(self.spec.arrays):
        obj = <object>args[self.compiled.array_at[k]]
        if type(obj) is list or type(obj) is tuple or type(obj) is dict or obj is None:
            return True
    return False


cdef PyObject *call_uninitialised(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) except NULL:
    """What Kernel.__new__() alone makes has no function to call."""
    Kernel.__init__(<object>callable)


cdef object call_with_keywords(Kernel self, PyObject *const *args, Py_ssize_t given, PyObject *kwnames):
    """With keywords, defaults or options."""
    cdef Py_ssize_t k
    positional = tuple([<object>args[k] for k in range(given)])
    keywords = {name: <object>args[given + k] for k, name in enumerate(<tuple>kwnames)} if kwnames is not NULL else {}
    own, options = None if keywords or self.plan is None else self.plan.fill(positional), NO_OPTIONS
    if own is None:
        own, options = bind(self.signature, self.call_signature, positional, keywords)
    if self.handler is not None:
        return self.handler(*own, **options)
    back, message = None, None
    if self.foreign.address and (self.needs_conversion or any_needs_conversion(self, PySequence_Fast_ITEMS(own))):
        own, back, message = self.plan.prepare(own)
    try:
        result = invoke_with_options(self, own, options)
    except BaseException as error:
        raise with_kernel_message(error, message)
    return pack_results(result, back) if back else result


cdef object invoke_with_options(Kernel self, tuple own, dict options):
    """`own`: one object for each parameter, prepared; `options`: those of the kernel, all of them."""
    cdef mv_run run
    cdef mv_value option
    threads = options.get("threads")
    run.threads = 1 if self.foreign.address and threads is None else thread_count(threads)
    axis = options.get("axis")
    run.axis = NO_AXIS
    option.i64 = 0
    if self.option == OPTION_DDOF:
        convert_scalar(self.signature, -1, options["ddof"], MV_FLOAT, 64, &option)
    elif self.option == OPTION_COMPARISON:
        if options["op"] not in COMPARISONS:
            raise KernelValueError(f"{self.signature.name}(): op: expected one of {', '.join(COMPARISONS)}, got {options['op']!r}")
        option.i64 = COMPARISONS.index(options["op"])
    return invoke(self, PySequence_Fast_ITEMS(own), &run, option, (axis, threads))


cdef object invoke(Kernel self, PyObject *const *args, mv_run *run, mv_value option, object asked):
    """`args`: one object for each parameter. `asked`: axis and threads as the caller gave them, or None."""
    cdef mv_call_args frame
    if mv_fast_fill(&frame, &self.plain, args, NDARRAY, NULL):
        return run_checked(self, args, &frame, run, option, asked)
    return invoke_general(self, args, &frame, run, option, asked)


cdef object invoke_general(Kernel self, PyObject *const *args, mv_call_args *frame, mv_run *run, mv_value option, object asked):
    """Arrays of any kind, with the whole check."""
    cdef mv_fault fault
    cdef int k, status, common = -1, numbers = 0
    frame.views = frame.buffers = 0
    try:
        if run is not NULL and get_fast_buffers(&self.plain, args, frame) and mv_fast_fill(frame, &self.plain, args, NDARRAY, frame.buffer):
            if self.plain.direct and frame.desc[0].size < GIL_WORTH:
                option.i64 = mv_fast_invoke(frame.desc, self.plain.direct, self.foreign.address)
                if mv_foreign_word(&self.foreign, option) & 0xff:
                    raise_failure(self, option)
                return None
            return run_checked(self, args, frame, run, option, asked)
        release_arguments(frame)
        for k in range(self.spec.arrays):
            obj = <object>args[self.compiled.array_at[k]]
            if self.spec.array[k].scalar and is_number(obj):
                frame.args[k] = NULL
                numbers += 1
                continue
            acquire(obj, self.spec.array[k].writes, self.spec.flags & MV_TAKES_MASKS != 0, frame, k, self.signature.name)
            if common < 0 and self.spec.array[k].bits == 0:
                common = k
        if numbers:
            broadcast_scalars(self, args, common, frame)
        status = mv_check_call(&self.spec, frame.args, &fault)
        if status:
            raise argument_error_of(self.signature, &self.spec, self.compiled.array_at, args, frame, status, fault)
        return run_checked(self, args, frame, run, option, asked)
    finally:
        release_arguments(frame)


cdef inline object run_checked(Kernel self, PyObject *const *args, mv_call_args *frame, mv_run *run, mv_value option, object asked):
    cdef int k, code, bits
    for k in range(self.compiled.values):
        code, bits = self.compiled.value_code[k], self.compiled.value_bits[k]
        if bits == 0:
            code, bits = frame.args[self.compiled.common].dtype_code, frame.args[self.compiled.common].dtype_bits
        convert_scalar(self.signature, self.compiled.value_at[k], <object>args[self.compiled.value_at[k]], code, bits, &frame.values[k])
    if run is NULL:  # validate_bound()
        return None
    if self.foreign.address:
        return run_foreign(self, frame, run, asked)
    frame.values[self.compiled.values] = option
    return run_builtin(self, frame, run, asked)


cdef int broadcast_scalars(Kernel self, PyObject *const *args, int common, mv_call_args *frame) except -1:
    cdef int k
    for k in range(self.spec.arrays):
        if frame.args[k] is NULL:
            broadcast_scalar(self.signature, k, self.compiled.array_at[k], <object>args[self.compiled.array_at[k]], frame.args[common], frame)
    return 0


cdef object run_builtin(Kernel self, mv_call_args *frame, mv_run *run, object asked):
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
        raise no_loop_error(self.signature, f"argument '{self.signature.params[self.compiled.array_at[0]].name}'", d)
    if status:
        raise_status(self.signature, None, status)
    if self.result_type is NULL:
        return None
    if out is not None:
        return out
    return scalar_result(self.result_type(self.context, type), result, d)


cdef int normal_axis(str name, object axis, int ndim) except? -1:
    """NO_AXIS for the only axis of a 1-D array: its reduction is one number."""
    if not hasattr(axis, "__index__") or isinstance(axis, bool):
        raise ArgumentError(f"{name}(): axis: expected None or an int, got {axis.__class__.__name__}")
    number = axis.__index__()
    if not -ndim <= number < ndim:
        raise ShapeError(f"{name}(): axis {number} is out of range for {ndim} dimension(s)")
    return number % ndim if ndim > 1 else NO_AXIS


cdef object output_along(Kernel self, mv_call_args *frame, int axis, int type):
    """A fresh array for the result along an axis, set as the argument after the inputs."""
    cdef mv_desc *d = frame.args[0]
    shape = tuple([d.shape[k] for k in range(d.ndim) if k != axis])
    out = np.empty(shape, dtype_of_type(type, d))
    mv_desc_of_ndarray(&frame.desc[self.spec.arrays], out.view(np.int64) if out.dtype.kind in "mM" else out)
    frame.args[self.spec.arrays] = &frame.desc[self.spec.arrays]
    return out


cdef object run_foreign(Kernel self, mv_call_args *frame, mv_run *run, object asked):
    cdef mv_value returned
    cdef int64_t word = 0, size = 0
    cdef int k
    cdef bint split = asked is not None and asked[1] is not None
    returned.i64 = 0
    if self.sizes.count:
        fill_sizes(&self.sizes, self.signature, frame.args, frame.values, self.compiled.values)
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
        raise_status(self.signature, self.origin, word)
    return returned_scalar(returned, self.compiled.return_code, self.compiled.return_bits) if self.foreign.gives == MV_GIVES_VALUE else None


cdef int check_splittable(Kernel self, mv_call_args *frame) except -1:
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

cdef int bind_signature(Kernel self, object signature) except -1:
    """From here on the kernel can be called."""
    compile_signature(signature, &self.compiled, &self.spec, &self.foreign)
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
        self.vectorcall = call_uninitialised
        self.compiled.common = -1
        self.signature, self.call_signature = UNINITIALISED, NO_CALL_SIGNATURE

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
        origin : SourceLocation, optional
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
        bind_signature(self, signature)
        compile_sizes(&self.sizes, signature, self.foreign.pass_, &self.foreign.params, MV_PASS_INT)
        self.foreign.address = index(address)
        compile_result(signature, &self.compiled, &self.spec, &self.foreign)
        mv_fast_compile(&self.plain, &self.spec, self.compiled.array_at,
                      self.foreign.gives != MV_GIVES_VALUE and all([p.passing == "descriptor" for p in signature.params]))
        self.plan = ArgumentPlan(signature)
        self.call_signature = call_signature(signature, (("threads", None),), True, self.plan.defaults)
        self.needs_conversion = self.plan.needs_conversion
        self.origin = origin
        self.keeper = owner
        return self

    def canary(self, reference, *, sample=0.01, rtol=None, atol=0.0, on_mismatch="fallback", promote_after=None, directory=None,
               seed=None):
        """canary(reference, *, sample=0.01, rtol=None, atol=0.0, on_mismatch="fallback", promote_after=None, directory=None, seed=None)

        The kernel, with a Python reference run beside it on a sample of the calls: see `mojoview.safety.canary.watch`.
        """
        return resolve(CANARY)(self, reference, sample=sample, rtol=rtol, atol=atol, on_mismatch=on_mismatch,
                               promote_after=promote_after, directory=directory, seed=seed)

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
        return self.call_signature

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
        return resolve(SUBMIT_CALL)(self, args, options)

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
        return resolve(AWAIT_CALL)(self, args, options)

    def __repr__(self):
        return f"<mojoview kernel {self.signature.name}{self.call_signature}>"

    def __reduce_ex__(self, protocol):
        raise ArgumentError("a Kernel cannot be pickled or copied: it stands for code loaded into this process")


cdef int validate_bound(Kernel self, tuple own) except -1:
    """The check of a call alone."""
    cdef mv_call_args frame
    cdef mv_value option
    option.i64 = 0
    if self.handler is None:
        invoke_general(self, PySequence_Fast_ITEMS(own), &frame, NULL, option, None)
    return 0


cdef Kernel native_kernel(object signature, mv_driver driver, const void *context, mv_result_type result_type, int option, int flags):
    """A built-in kernel; any array may be strided and unaligned."""
    cdef Kernel self = Kernel.__new__(Kernel)
    bind_signature(self, signature)
    self.driver = driver
    self.context = context
    self.result_type = result_type
    self.option = option
    self.spec.flags = flags | MV_TAKES_STRIDES
    self.spec.array[1].scalar = result_type is NULL and self.spec.arrays == 3  # the y of x and y into out
    mv_fast_compile(&self.plain, &self.spec, self.compiled.array_at, False)
    options = (("axis", None),) if result_type is not NULL else ()
    options += (("ddof", 0),) if option == OPTION_DDOF else (("op", "lt"),) if option == OPTION_COMPARISON else ()
    self.call_signature = call_signature(signature, options + (("threads", None),), False)
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
    >>> from mojoview.calls.signature import Param, Signature
    >>> handled_kernel(Signature("twice", (Param("x", "in", "T", None),)), lambda x, threads: 2 * x)(4)
    8
    """
    cdef Kernel self = Kernel.__new__(Kernel)
    bind_signature(self, signature)
    self.handler = handler
    self.call_signature = call_signature(signature, (("threads", None),), False)
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
