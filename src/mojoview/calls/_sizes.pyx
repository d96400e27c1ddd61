"""Arguments of foreign functions that nobody gives: sizes of arrays, in the C form that the call works with."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from mojoview.memory.abi cimport mv_desc, mv_value

from mojoview.calls.sizes import misfit_error, plan_sizes


cdef extern from "calls/sizes.h" nogil:
    enum:
        MV_MAX_PARAMS
    ctypedef struct mv_misfit:
        int size
        int extent
        int64_t expected
        int64_t came
    int32_t mv_fill_sizes(const mv_sizes *sizes, mv_desc *const *arrays, mv_value *scalars, int given, mv_misfit *misfit)


cdef int compile_sizes(mv_sizes *sizes, object signature, uint8_t *passes, int *params, uint8_t how) except -1:
    """Fills `sizes`, and puts those that are passed among the `params` arguments in `passes`, as `how`."""
    cdef mv_size *size
    cdef int k, n
    order = [passes[k] for k in range(params[0])]
    for n, (place, scalar, value, most, extents) in enumerate(plan_sizes(signature, MV_MAX_PARAMS)):
        size = &sizes.size[n]
        size.value, size.most, size.place, size.count = value, most, scalar, len(extents)
        for k, (number, axis) in enumerate(extents):
            size.array[k], size.axis[k] = number, axis
        if scalar >= 0:
            order.insert(place, how)
            sizes.passed += 1
        sizes.count += 1
    for k, passed in enumerate(order):
        passes[k] = passed
    params[0] = len(order)
    return 0


cdef int fill_sizes(const mv_sizes *sizes, object signature, mv_desc *const *arrays, mv_value *scalars, int given) except -1:
    """Checks the arrays' sizes and puts them between the `given` scalars."""
    cdef mv_misfit misfit
    cdef int32_t status = mv_fill_sizes(sizes, arrays, scalars, given, &misfit)
    if status:
        raise misfit_error(signature, status, misfit.size, misfit.extent, misfit.expected, misfit.came)
    return 0
