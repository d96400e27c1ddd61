"""The built-in kernels: the native drivers and their contexts, made callable."""

from libc.stdint cimport int32_t

from mojoview.kernels._call cimport (
    MV_EQUAL_SHAPES, OPTION_COMPARISON, OPTION_DDOF, OPTION_NONE, MV_TAKES_MASKS, MV_TAKES_SAME, mv_run, native_kernel,
)
from mojoview.memory.abi cimport mv_desc, mv_value


cdef extern from "builtin.h" nogil:
    ctypedef struct mv_elementwise
    ctypedef struct mv_reduction
    const mv_elementwise *mv_elementwise_of(int op)
    int32_t mv_run_elementwise(const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result, const mv_run *run)
    int32_t mv_run_compare(const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result, const mv_run *run)
    int32_t mv_run_reduction(const void *ctx, mv_desc *const *args, const mv_value *values, mv_value *result, const mv_run *run)
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

cdef dict REDUCTIONS = {
    "sum": MV_SUM, "mean": MV_MEAN, "var": MV_VAR, "std": MV_STD, "min": MV_MIN, "max": MV_MAX, "argmin": MV_ARGMIN,
    "argmax": MV_ARGMAX, "count": MV_COUNT, "any": MV_ANY, "all": MV_ALL, "dot": MV_DOT,
}
cdef dict ELEMENTWISE = {
    "add": MV_ADD, "subtract": MV_SUBTRACT, "multiply": MV_MULTIPLY, "scale": MV_SCALE, "axpy": MV_AXPY, "clip": MV_CLIP, "copy": MV_COPY,
}


def builtin_kernel(signature):
    """builtin_kernel(signature)

    The built-in kernel that has the signature's name.

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
    >>> from mojoview.kernels.signature import Param, Signature
    >>> builtin_kernel(Signature("sum", (Param("x", "in", "T", None),), result="T"))([1, 2])
    Traceback (most recent call last):
        ...
    mojoview.memory.errors.ArgumentError: view(list): expected an ndarray, the buffer protocol or __array_interface__; copy='if_needed' converts through NumPy
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
