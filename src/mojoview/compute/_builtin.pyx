"""Built-in kernels from native drivers and their contexts; `describe` on many arrays in one batch."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

from mojoview.calls._conversion cimport acquire, check_input, python_value, raise_status, release_arguments
from mojoview.calls._kernel cimport GIL_WORTH, OPTION_COMPARISON, OPTION_DDOF, OPTION_NONE, native_kernel
from mojoview.calls._thread_pool cimport mv_run, run_parallel, thread_count
from mojoview.calls.call_args cimport MV_EQUAL_SHAPES, MV_TAKES_MASKS, MV_TAKES_SAME, mv_call_args
from mojoview.memory.abi cimport MV_DESC_ALIGN, mv_desc, mv_value

from mojoview.memory.errors import KernelMemoryError


cdef extern from "stdlib.h" nogil:
    void *aligned_alloc(size_t alignment, size_t size)


cdef extern from "compute/builtin.h" nogil:
    ctypedef struct mv_elementwise
    ctypedef struct mv_reduction
    const mv_elementwise *mv_elementwise_of(int op)
    int32_t mv_run_elementwise(const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result,
                               const mv_run *run)
    int32_t mv_run_compare(const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result,
                           const mv_run *run)
    int32_t mv_run_reduction(const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result,
                             const mv_run *run)
    const mv_reduction *mv_reduction_of(int op)
    int mv_reduction_result(const void *ctx, int type)
    enum:
        MV_ADD
        MV_SUBTRACT
        MV_MULTIPLY
        MV_SCALE
        MV_AXPY
        MV_CLIP
        MV_COPY
        MV_SUM
        MV_MEAN
        MV_VAR
        MV_STD
        MV_MIN
        MV_MAX
        MV_ARGMIN
        MV_ARGMAX
        MV_COUNT
        MV_ANY
        MV_ALL
        MV_DOT
    ctypedef struct mv_description:
        int64_t count
        int64_t argmin
        int64_t argmax
        double mean
        double var
        mv_value min
        mv_value max
        int64_t total
    int32_t mv_run_describe(mv_desc *const *args, int64_t count, mv_description *out, const mv_run *run)


cdef dict REDUCTIONS = {
    "sum": MV_SUM, "mean": MV_MEAN, "var": MV_VAR, "std": MV_STD, "min": MV_MIN, "max": MV_MAX, "argmin": MV_ARGMIN,
    "argmax": MV_ARGMAX, "count": MV_COUNT, "any": MV_ANY, "all": MV_ALL, "dot": MV_DOT,
}
cdef dict ELEMENTWISE = {
    "add": MV_ADD, "subtract": MV_SUBTRACT, "multiply": MV_MULTIPLY, "scale": MV_SCALE, "axpy": MV_AXPY,
    "clip": MV_CLIP, "copy": MV_COPY,
}


def builtin_kernel(signature):
    """builtin_kernel(signature)

    Return the built-in kernel with the signature's name.

    Parameters
    ----------
    signature : Signature

    Returns
    -------
    Kernel

    Raises
    ------
    KeyError
        There is no such kernel.

    Notes
    -----
    Thread safety: any thread.

    Examples
    --------
    >>> from mojoview.calls.signature import Param, Signature
    >>> builtin_kernel(Signature("sum", (Param("x", "in", "T", None),), result="T"))(b"\\x01\\x02")
    3
    """
    cdef int flags = MV_TAKES_MASKS | MV_EQUAL_SHAPES
    cdef str name = signature.name
    cdef int op
    if name in REDUCTIONS:
        op = REDUCTIONS[name]
        return native_kernel(signature, mv_run_reduction, mv_reduction_of(op), mv_reduction_result,
                             OPTION_DDOF if op == MV_VAR or op == MV_STD else OPTION_NONE, flags)
    flags |= MV_TAKES_SAME
    if name == "compare":
        return native_kernel(signature, mv_run_compare, NULL, NULL, OPTION_COMPARISON, flags)
    op = ELEMENTWISE[name]
    return native_kernel(signature, mv_run_elementwise, mv_elementwise_of(op), NULL, OPTION_NONE, flags)


def describe_arrays(signature, list arrays, list names, threads):
    """describe_arrays(signature, arrays, names, threads)

    Compute the statistics of each array, all in one batch.

    Parameters
    ----------
    signature : Signature
        For the messages.
    arrays : list of array_like
        Borrowed for the call.
    names : list of str
        Their names in error messages.
    threads : int or None

    Returns
    -------
    list of tuple
        (count, mean, var, min, max, argmin, argmax, truncated mean) of each; owned by the caller.

    Raises
    ------
    DTypeError, MaskError, ReleasedError, ZeroCopyError, KernelMemoryError

    Notes
    -----
    Thread safety: any thread; releases the GIL.

    Examples
    --------
    >>> import numpy as np
    >>> from mojoview.calls.signature import Param, Signature
    >>> describe_arrays(Signature("describe", (Param("x", "in", "T", None),)), [np.array([1, 4])], ["x"], None)
    [(2, 2.5, 4.5, 1, 4, 0, 1, 2)]
    """
    cdef Py_ssize_t k, begun = 0, count = len(arrays)
    cdef int64_t size = 0
    cdef int32_t status
    cdef mv_run run
    cdef mv_call_args *frames = <mv_call_args *>aligned_alloc(MV_DESC_ALIGN, (count or 1) * sizeof(mv_call_args))
    cdef mv_desc **args = <mv_desc **>malloc((count or 1) * sizeof(mv_desc *))
    cdef mv_description *out = <mv_description *>malloc((count or 1) * sizeof(mv_description))
    try:
        if frames is NULL or args is NULL or out is NULL:
            raise KernelMemoryError(f"describe(): no memory for the statistics of {count} arrays")
        run.threads = thread_count(threads)
        run.axis = -1
        run.parallel = run_parallel
        for k in range(count):
            frames[k].views = frames[k].buffers = 0
            begun += 1
            acquire(arrays[k], False, True, &frames[k], 0, signature.name)
            check_input(signature, names[k], arrays[k], frames[k].args[0])
            args[k] = frames[k].args[0]
            size += args[k].size
        if size < GIL_WORTH:
            run.parallel = NULL
            status = mv_run_describe(args, count, out, &run)
        else:
            with nogil:
                status = mv_run_describe(args, count, out, &run)
        if status:
            raise_status(signature, None, status)
        return [row(&out[k], args[k]) for k in range(count)]
    finally:
        for k in range(begun):
            release_arguments(&frames[k])
        free(frames)
        free(args)
        free(out)


cdef tuple row(const mv_description *d, const mv_desc *array):
    if d.count == 0:
        return (0, d.mean, d.var, None, None, -1, -1, None)
    return (d.count, d.mean, d.var, python_value(d.min, array), python_value(d.max, array), d.argmin, d.argmax, d.total)
