"""Kernel: the checked call of native functions on arrays."""

cimport cython
from cpython.buffer cimport Py_buffer
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t

from mojoview.calls._compiled_signature cimport (
    check_splittable, compile_result, compile_signature, compile_sizes, fill_sizes,
)
from mojoview.calls._conversion cimport (
    NO_AXIS, acquire, allocate_output, broadcast_scalar, convert_scalar, get_fast_buffers, is_number, no_loop_error,
    raise_status, reduced_axis, refused_argument, release_arguments, returned_scalar, scalar_result,
)
from mojoview.calls._thread_pool cimport mv_run, run_parallel, thread_count
from mojoview.calls.call_args cimport (
    MV_GIVES_VALUE, MV_TAKES_MASKS, MV_TAKES_STRIDES, mv_call_args, mv_check_call, mv_fast_plan,
    mv_fault, mv_foreign_call, mv_foreign_run, mv_foreign_word, mv_spec, mv_type_index,
)
from mojoview.calls.vectorcall cimport (
    PySequence_Fast_ITEMS, PyVectorcall_Call, PyVectorcall_NARGS, enable_vectorcall, keyword_arguments,
    positional_arguments,
)
from mojoview.memory.abi cimport MV_E_DTYPE, MV_FLOAT, MV_HAS_MASK, mv_desc, mv_value

from operator import index

import numpy as np

from mojoview.calls.arguments import ArgumentPlan, pack_results, with_kernel_message
from mojoview.calls.binding import COMPARISONS, bind, call_signature
from mojoview.calls.errors import kernel_error
from mojoview.calls.signature import Signature, check_signature
from mojoview.memory.errors import ArgumentError, KernelValueError
from mojoview.memory.extension_points import AWAIT_CALL, CANARY, SUBMIT_CALL, resolve


cdef extern from "calls/native/fast_path.h":
    void mv_fast_register_dtype(object dtype)
    void mv_fast_compile(mv_fast_plan *plan, const mv_spec *spec, const uint8_t *array_at, bint descriptors_only)
    bint mv_fast_fill(
        mv_call_args *call, const mv_fast_plan *plan, PyObject *const *args, type ndarray, const Py_buffer *buffers
    )
    int64_t mv_fast_invoke(mv_desc *d, int n, uintptr_t address)
    bint mv_fast_call(
        const mv_fast_plan *plan, uintptr_t address, PyObject *const *args, type ndarray, int64_t most,
        int64_t *returned
    )

#: Elements from which a kernel releases the GIL.
GIL_RELEASE_SIZE = GIL_WORTH

cdef type NDARRAY = np.ndarray
cdef dict NO_OPTIONS = {}
# The signature of an instance that Kernel.__new__() made and nothing has initialised.
cdef object UNINITIALISED = Signature("uninitialised", ())
cdef object NO_CALL_SIGNATURE = call_signature(UNINITIALISED, (), True)

for _dtype in map(np.dtype, "?bhilqBHILQefd"):
    mv_fast_register_dtype(_dtype)


# -- the call ---------------------------------------------------------------------------------------------------------

cdef PyObject *call_kernel(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) except NULL:
    """Call a kernel. Fast path: borrowed references only; anything unusual falls back to the checked path."""
    cdef mv_value returned
    if (
        kwnames is NULL
        and <Py_ssize_t>PyVectorcall_NARGS(nargsf) == (<Kernel>callable).compiled.params
        and mv_fast_call(&(<Kernel>callable).fast, (<Kernel>callable).foreign.address, args, NDARRAY, GIL_WORTH,
                         &returned.i64)
    ):
        if mv_foreign_word(&(<Kernel>callable).foreign, returned) & 0xff == 0:
            Py_INCREF(None)
            return <PyObject *>None
        raise_failure(<Kernel>callable, returned)
    return checked_entry(callable, args, nargsf, kwnames)


cdef PyObject *call_checked(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) except NULL:
    """Call a kernel: positional arguments that need no conversion here, all others with keywords."""
    cdef Kernel self = <Kernel>callable
    cdef mv_run run
    cdef mv_value option
    cdef Py_ssize_t given = PyVectorcall_NARGS(nargsf)
    if (kwnames is not NULL or given != self.compiled.params or self.handler is not None or self.needs_conversion
            or (self.foreign.address and any_needs_conversion(self, args))):
        result = call_with_keywords(self, args, given, kwnames)
    else:
        run.threads = 0 if self.foreign.address == 0 else 1
        run.axis = NO_AXIS
        option.i64 = 0  # ddof 0.0, and the first comparison
        result = invoke(self, args, &run, option, None)
    Py_INCREF(result)
    return <PyObject *>result


# Called through a pointer, so that compilers keep its registers and stack out of call_kernel().
cdef vectorcallfunc checked_entry = call_checked


cdef PyObject *call_uninitialised(
    PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames
) except NULL:
    """Raise: Kernel.__new__() alone makes an instance without a function."""
    Kernel.__init__(<object>callable)


cdef int raise_failure(Kernel self, mv_value returned) except -1:
    return raise_status(self.signature, self.origin, mv_foreign_word(&self.foreign, returned))


cdef inline bint any_needs_conversion(Kernel self, PyObject *const *args) noexcept:
    """Return whether an array argument is a list, a tuple or a dict, or an output is to be allocated."""
    cdef int k
    for k in range(self.spec.arrays):
        obj = <object>args[self.compiled.array_at[k]]
        if type(obj) is list or type(obj) is tuple or type(obj) is dict or obj is None:
            return True
    return False


cdef object call_with_keywords(Kernel self, PyObject *const *args, Py_ssize_t given, PyObject *kwnames):
    """Call with keywords, defaults, options, or arguments that need conversion."""
    cdef tuple positional = positional_arguments(args, given)
    cdef dict keywords = keyword_arguments(args, given, kwnames)
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
    """Call with one converted object for each parameter, and all of the kernel's options."""
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
            raise KernelValueError(f"{self.signature.name}(): op: expected one of {', '.join(COMPARISONS)}, "
                                   f"got {options['op']!r}")
        option.i64 = COMPARISONS.index(options["op"])
    return invoke(self, PySequence_Fast_ITEMS(own), &run, option, (axis, threads))


cdef object invoke(Kernel self, PyObject *const *args, mv_run *run, mv_value option, object options):
    """Call with one object for each parameter; `options` are axis and threads as the caller gave them, or None."""
    cdef mv_call_args call
    if mv_fast_fill(&call, &self.fast, args, NDARRAY, NULL):
        return run_kernel(self, args, &call, run, option, options)
    return invoke_general(self, args, &call, run, option, options)


cdef object invoke_general(
    Kernel self, PyObject *const *args, mv_call_args *call, mv_run *run, mv_value option, object options
):
    """Call on arrays of any kind, after all checks; without `run` only check."""
    cdef mv_fault fault
    cdef int k, status, common = -1, numbers = 0
    call.views = call.buffers = 0
    try:
        if (run is not NULL and get_fast_buffers(&self.fast, args, call)
                and mv_fast_fill(call, &self.fast, args, NDARRAY, call.buffer)):
            if self.fast.direct_arity and call.desc[0].size < GIL_WORTH:
                option.i64 = mv_fast_invoke(call.desc, self.fast.direct_arity, self.foreign.address)
                if mv_foreign_word(&self.foreign, option) & 0xff:
                    raise_failure(self, option)
                return None
            return run_kernel(self, args, call, run, option, options)
        release_arguments(call)
        for k in range(self.spec.arrays):
            obj = <object>args[self.compiled.array_at[k]]
            if self.spec.array[k].scalar and is_number(obj):
                call.args[k] = NULL
                numbers += 1
                continue
            acquire(obj, self.spec.array[k].writes, self.spec.flags & MV_TAKES_MASKS != 0, call, k,
                    self.signature.name)
            if common < 0 and self.spec.array[k].bits == 0:
                common = k
        if numbers:
            broadcast_scalars(self, args, common, call)
        status = mv_check_call(&self.spec, call.args, &fault)
        if status:
            raise refused_argument(self.signature, &self.spec, self.compiled.array_at, args, call, status, fault)
        return run_kernel(self, args, call, run, option, options)
    finally:
        release_arguments(call)


cdef int broadcast_scalars(Kernel self, PyObject *const *args, int common, mv_call_args *call) except -1:
    cdef int k, param
    for k in range(self.spec.arrays):
        if call.args[k] is NULL:
            param = self.compiled.array_at[k]
            broadcast_scalar(self.signature, k, param, <object>args[param], call.args[common], call)
    return 0


cdef inline object run_kernel(
    Kernel self, PyObject *const *args, mv_call_args *call, mv_run *run, mv_value option, object options
):
    """Convert the scalars and run the kernel on checked arrays; without `run` only convert."""
    cdef int k, code, bits, param
    for k in range(self.compiled.values):
        code, bits, param = self.compiled.value_code[k], self.compiled.value_bits[k], self.compiled.value_at[k]
        if bits == 0:
            code, bits = call.args[self.compiled.common].dtype_code, call.args[self.compiled.common].dtype_bits
        convert_scalar(self.signature, param, <object>args[param], code, bits, &call.values[k])
    if run is NULL:
        return None
    if self.foreign.address:
        return run_foreign(self, call, run, options)
    call.values[self.compiled.values] = option
    return run_builtin(self, call, run, options)


cdef object run_builtin(Kernel self, mv_call_args *call, mv_run *run, object options):
    cdef mv_desc *d = call.args[0]
    cdef mv_value result
    cdef int32_t status
    cdef int type = 0
    out = None
    if self.result_type is not NULL:
        type = mv_type_index(d)
        if options is not None and options[0] is not None:
            run.axis = reduced_axis(self.signature.name, options[0], d.ndim)
        if type >= 0 and run.axis >= 0:
            out = allocate_output(call, self.spec.arrays, run.axis, self.result_type(self.context, type))
    if d.size >= GIL_WORTH:
        run.parallel = run_parallel
        with nogil:
            status = self.driver(self.context, call.args, call.values, &result, run)
    else:
        run.parallel = NULL
        status = self.driver(self.context, call.args, call.values, &result, run)
    if status == MV_E_DTYPE:
        name = self.signature.params[self.compiled.array_at[0]].name
        raise no_loop_error(self.signature, f"argument '{name}'", d)
    if status:
        raise_status(self.signature, None, status)
    if self.result_type is NULL:
        return None
    if out is not None:
        return out
    return scalar_result(self.result_type(self.context, type), result, d)


cdef object run_foreign(Kernel self, mv_call_args *call, mv_run *run, object options):
    cdef mv_value returned
    cdef int64_t word = 0, size = 0
    cdef int k
    returned.i64 = 0
    if self.sizes.count:
        fill_sizes(&self.sizes, self.signature, call.args, call.values, self.compiled.values)
    for k in range(self.spec.arrays):
        if call.args[k].flags & MV_HAS_MASK and not self.spec.flags & MV_TAKES_MASKS:
            # nothing is missing: the kernel receives an array without a mask
            call.desc[k] = call.args[k][0]
            call.desc[k].flags &= ~MV_HAS_MASK
            call.desc[k].mask = NULL
            call.args[k] = &call.desc[k]
        if call.args[k].size > size:
            size = call.args[k].size
    if options is not None and options[1] is not None:
        check_splittable(self.signature, &self.spec, &self.foreign, call.args)
        run.parallel = run_parallel
        with nogil:
            word = mv_foreign_run(&self.foreign, call.args, call.values, self.spec.arrays, run)
    elif size >= GIL_WORTH:
        with nogil:
            returned = mv_foreign_call(&self.foreign, call.args, call.values)
            word = mv_foreign_word(&self.foreign, returned)
    else:
        returned = mv_foreign_call(&self.foreign, call.args, call.values)
        word = mv_foreign_word(&self.foreign, returned)
    if word & 0xff:
        raise_status(self.signature, self.origin, word)
    if self.foreign.gives == MV_GIVES_VALUE:
        return returned_scalar(returned, self.compiled.return_code, self.compiled.return_bits)
    return None


# -- kernels ----------------------------------------------------------------------------------------------------------

cdef int bind_signature(Kernel self, object signature) except -1:
    """Compile the signature; the kernel can be called from here on."""
    compile_signature(signature, &self.compiled, &self.spec, &self.foreign)
    self.signature = signature
    self.vectorcall = call_kernel
    return 0


@cython.final
cdef class Kernel:
    """Kernel()

    A native function that can be called on arrays. `mojoview.kernels` has the built-in ones, `mojoview.load()` returns
    those of a Mojo file, and `Kernel.from_address()` makes one from any function with a C ABI.

    A call takes ndarrays, views, Series and everything else that `mojoview.view()` takes. It checks dtype, byte order,
    dimensions, strides, alignment, writability, sizes, overlap and masks before the function runs, and releases the GIL
    for large arrays.

    Attributes
    ----------
    name : str
    signature : Signature
    address : int
        Address of the native code. Borrowed: valid while the kernel exists.
    owner : object
        The object that keeps the code loaded; None for built-in kernels.

    Notes
    -----
    Thread safety: a kernel is immutable; calls may run in many threads at once. Nothing stops another thread from
    writing to the arrays of a running call.

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

        Make a kernel from the address of a function with a C ABI.

        Parameters
        ----------
        signature : Signature
            How it is called. Arrays are passed as ``const mv_desc *`` (``passing="descriptor"``) or as bare element
            pointers.
        address : int
        owner : object
            Required; kept as long as the kernel exists, so that the code stays loaded.
        origin : SourceLocation, optional
            Makes the exceptions of failures, with `origin.failure(signature, code, index)`.

        Returns
        -------
        Kernel
            Holds a reference to `owner`.

        Raises
        ------
        DTypeError, KernelValueError, ArgumentError
            The signature contains something that cannot be passed.

        Notes
        -----
        ``threads=`` given at a call declares that the kernel treats the rows along axis 0 independently: every array is
        split along it, and each part is a call of its own. Only kernels on descriptors that return nothing or a status
        can be split. One call of a kernel cannot be interrupted; with ``threads=1`` Ctrl-C takes effect between parts.

        Thread safety: any thread.
        """
        cdef Kernel self = Kernel.__new__(Kernel)
        check_signature(signature)
        if owner is None:
            raise ArgumentError(f"{signature.name}: owner: expected an object that keeps the code loaded, got None")
        if not hasattr(address, "__index__") or isinstance(address, bool) or not 0 < index(address) < 2**63:
            raise ArgumentError(f"{signature.name}: address: expected a positive int, got {address!r}")
        bind_signature(self, signature)
        compile_sizes(&self.sizes, signature, &self.foreign)
        self.foreign.address = index(address)
        compile_result(signature, &self.compiled, &self.spec, &self.foreign)
        only = self.foreign.gives != MV_GIVES_VALUE and all([p.passing == "descriptor" for p in signature.params])
        mv_fast_compile(&self.fast, &self.spec, self.compiled.array_at, only)
        self.plan = ArgumentPlan(signature)
        self.call_signature = call_signature(signature, (("threads", None),), True, self.plan.defaults)
        self.needs_conversion = self.plan.needs_conversion
        self.origin = origin
        self.keeper = owner
        return self

    def canary(self, reference, **options):
        """canary(reference, *, sample=0.01, rtol=None, atol=0.0, on_mismatch="fallback", promote_after=None, ...)

        Return the kernel with a Python reference that also runs on a sample of the calls: see
        `mojoview.safety.canary.watch`.
        """
        return resolve(CANARY)(self, reference, **options)

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

        Start the call with these arguments on a thread of mojoview's own.

        Returns
        -------
        KernelFuture
            A `concurrent.futures.Future` with a `.state`. It holds the arguments until the call has ended.

        Raises
        ------
        QueueFull
            The queue was full for longer than a caller may wait.

        Notes
        -----
        Do not write to the arrays before the call has ended. A call on little data (fewer than 4,096 elements; 65,536
        for built-in kernels) runs immediately, in the caller. Thread safety: any thread.

        Examples
        --------
        >>> import numpy as np, mojoview as mv
        >>> mv.kernels.sum.submit(np.arange(5.0)).result()
        10.0
        """
        return resolve(SUBMIT_CALL)(self, args, options)

    def aio(self, *args, **options):
        """aio(*args, **options)

        Return a coroutine that starts the call as `submit()` does and delivers its result to the running event loop.

        Returns
        -------
        coroutine
            Its result is the call's.

        Notes
        -----
        While the queue is full the coroutine waits and the loop runs on. Cancelling removes a waiting call from the
        queue; a running one continues, and its arrays are held until it ends. Thread safety: any thread with a running
        loop.

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
        raise ArgumentError("a Kernel cannot be pickled or copied: it refers to code loaded into this process")


cdef Kernel native_kernel(
    object signature, mv_driver driver, const void *context, mv_result_type result_type, int option, int flags
):
    """Make a built-in kernel; its arrays may be strided and unaligned."""
    cdef Kernel self = Kernel.__new__(Kernel)
    bind_signature(self, signature)
    self.driver = driver
    self.context = context
    self.result_type = result_type
    self.option = option
    self.spec.flags = flags | MV_TAKES_STRIDES
    self.spec.array[1].scalar = result_type is NULL and self.spec.arrays == 3  # y of add(x, y, out)
    mv_fast_compile(&self.fast, &self.spec, self.compiled.array_at, False)
    options = (("axis", None),) if result_type is not NULL else ()
    if option != OPTION_NONE:
        options += (("ddof", 0),) if option == OPTION_DDOF else (("op", "lt"),)
    self.call_signature = call_signature(signature, options + (("threads", None),), False)
    return self


def handled_kernel(signature, handler):
    """handled_kernel(signature, handler)

    Return a kernel whose calls go to a Python function, with `threads` as its option.

    Parameters
    ----------
    signature : Signature
    handler : callable
        Takes the signature's parameters and `threads`.

    Raises
    ------
    DTypeError, KernelValueError
        The signature contains something that cannot be passed.

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


def validate(Kernel kernel not None, tuple own):
    """validate(kernel, own)

    Run all checks of a call on one object for each parameter, without the call. A kernel whose calls go to a Python
    function is not checked: it checks for itself. Raises what the call would raise.
    """
    cdef mv_call_args call
    cdef mv_value option
    option.i64 = 0
    if kernel.handler is None:
        invoke_general(kernel, PySequence_Fast_ITEMS(own), &call, NULL, option, None)


def invoke_bound(Kernel kernel not None, tuple own, dict options):
    """invoke_bound(kernel, own, options)

    Call a foreign function, checked, with arguments that `ArgumentPlan.prepare` has converted, and return its own
    result alone. `options` has `threads`, or nothing.
    """
    if kernel.owner is None or len(own) != kernel.compiled.params:
        raise ArgumentError("invoke_bound(): expected a kernel from a library, and one object for each parameter")
    return invoke_with_options(kernel, own, options)


def error_of(Kernel kernel not None, int code, element):
    """error_of(kernel, code, element)

    Return the exception for a status of the kernel; its traceback ends where that of a failing call does.
    """
    if kernel.origin is None:
        return kernel_error(kernel.signature, code, element)
    return kernel.origin.failure(kernel.signature, code, element)


cdef Kernel _probe = Kernel.__new__(Kernel)
enable_vectorcall(Kernel, <char *>&_probe.vectorcall - <char *><PyObject *>_probe)
_probe = None
