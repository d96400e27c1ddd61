"""Compilation of a signature to the C structures that the checked call reads, and of the sizes it fills in."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from mojoview.calls.call_args cimport (
    MV_EQUAL_SHAPES, MV_GIVES_NOTHING, MV_GIVES_STATUS, MV_GIVES_STATUS_INDEX, MV_GIVES_VALUE, MV_INT_REGISTERS,
    MV_MAX_PARAMS, MV_PASS_DESC, MV_PASS_F32, MV_PASS_F64, MV_PASS_INT, MV_PASS_POINTER, MV_RETURN_F32, MV_RETURN_F64,
    MV_RETURN_INT, MV_RETURN_NOTHING, MV_TAKES_MASKS, mv_array_param, mv_foreign, mv_foreign_fits, mv_spec,
)
from mojoview.memory.abi cimport MV_BOOL, MV_FLOAT, MV_INT, MV_UINT, mv_desc, mv_value

import numpy as np

from mojoview.calls.errors import size_error
from mojoview.calls.sizes import plan_sizes
from mojoview.memory.errors import DTypeError, KernelError, KernelValueError, ShapeError


cdef extern from "calls/native/sizes.h" nogil:
    ctypedef struct mv_misfit:
        int size
        int extent
        int64_t expected
        int64_t got
    int32_t mv_fill_sizes(
        const mv_sizes *sizes, mv_desc *const *arrays, mv_value *scalars, int given, mv_misfit *misfit
    )


cdef tuple number_code(str what, str name):
    """Return type code and bits of a NumPy name; 0 bits for "T"."""
    if name == "T":
        return (MV_INT, 0)
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biuf" or dtype.itemsize > 8 or not dtype.isnative:
        raise DTypeError(f"{what}: expected a bool, integer or float dtype, got {name!r}")
    return ({"b": MV_BOOL, "i": MV_INT, "u": MV_UINT, "f": MV_FLOAT}[dtype.kind], dtype.itemsize * 8)


cdef int compile_signature(object signature, mv_signature *compiled, mv_spec *spec, mv_foreign *foreign) except -1:
    """Fill in which arrays and scalars are accepted, and how they are passed."""
    cdef int k, arrays = 0, values = 0
    cdef mv_array_param *array
    compiled.common = -1
    if len(signature.params) > MV_MAX_PARAMS:
        got = len(signature.params)
        raise KernelValueError(f"{signature.name}: expected at most {MV_MAX_PARAMS} parameters, got {got}")
    for k, param in enumerate(signature.params):
        code, bits = number_code(f"{signature.name}: parameter '{param.name}'", param.dtype)
        if param.role != "value":
            if bits == 0 and compiled.common < 0:
                compiled.common = arrays
            compiled.array_at[arrays] = k
            array = &spec.array[arrays]
            memset(array, 0, sizeof(mv_array_param))
            array.code, array.bits = code, bits
            array.ndim = -1 if param.ndim is None else param.ndim
            array.writes = param.writes
            array.contiguous = param.passing == "pointer"
            foreign.pass_[k] = MV_PASS_POINTER if array.contiguous else MV_PASS_DESC
            arrays += 1
        else:
            compiled.value_code[values], compiled.value_bits[values] = code, bits
            compiled.value_at[values] = k
            foreign.pass_[k] = MV_PASS_INT if code != MV_FLOAT else MV_PASS_F64 if bits == 64 else MV_PASS_F32
            values += 1
    if compiled.common < 0 and any([compiled.value_bits[k] == 0 for k in range(values)]):
        raise KernelValueError(f"{signature.name}: a scalar of dtype 'T' needs an array of dtype 'T'")
    compiled.params = foreign.params = len(signature.params)
    spec.arrays = arrays
    compiled.values = values
    return 0


cdef int compile_result(object signature, mv_signature *compiled, mv_spec *spec, mv_foreign *foreign) except -1:
    """Fill in the result of a foreign function, and check that the calling convention can pass its arguments."""
    spec.flags = (MV_TAKES_MASKS if signature.masks else 0) | (MV_EQUAL_SHAPES if signature.shapes == "equal" else 0)
    gives = {"none": MV_GIVES_NOTHING, "status": MV_GIVES_STATUS, "status_index": MV_GIVES_STATUS_INDEX}
    foreign.gives = gives.get(signature.result, MV_GIVES_VALUE)
    if foreign.gives == MV_GIVES_VALUE:
        compiled.return_code, compiled.return_bits = number_code(f"{signature.name}: result", signature.result)
        if compiled.return_bits == 0:
            raise DTypeError(f"{signature.name}: result: expected a scalar's dtype, got 'T'")
    float_result = foreign.gives == MV_GIVES_VALUE and compiled.return_code == MV_FLOAT
    half_scalar = any([p.role == "value" and p.dtype in ("float16", "T") for p in signature.params])
    if half_scalar or (float_result and compiled.return_bits == 16):
        raise DTypeError(f"{signature.name}: scalars of type float16 or 'T' cannot be passed to a foreign function")
    foreign.returns = (MV_RETURN_NOTHING if foreign.gives == MV_GIVES_NOTHING else MV_RETURN_INT if not float_result
                       else MV_RETURN_F64 if compiled.return_bits == 64 else MV_RETURN_F32)
    if MV_INT_REGISTERS == 0:
        raise KernelError(f"{signature.name}: foreign functions can be called only on x86-64 (System V) and aarch64 "
                          "(AAPCS64)")
    if not mv_foreign_fits(foreign):
        raise KernelValueError(f"{signature.name}: too many arguments for the calling convention")
    return 0


cdef int compile_sizes(mv_sizes *sizes, object signature, mv_foreign *foreign) except -1:
    """Fill in the sizes, and insert those that are passed among the foreign function's arguments."""
    cdef mv_size *size
    cdef int k, n
    order = [foreign.pass_[k] for k in range(foreign.params)]
    for n, (place, scalar, value, most, extents) in enumerate(plan_sizes(signature, MV_MAX_PARAMS)):
        size = &sizes.size[n]
        size.value, size.most, size.place, size.count = value, most, scalar, len(extents)
        for k, (number, axis) in enumerate(extents):
            size.array[k], size.axis[k] = number, axis
        if scalar >= 0:
            order.insert(place, MV_PASS_INT)
            sizes.passed += 1
        sizes.count += 1
    for k, passed in enumerate(order):
        foreign.pass_[k] = passed
    foreign.params = len(order)
    return 0


cdef int fill_sizes(
    const mv_sizes *sizes, object signature, mv_desc *const *arrays, mv_value *scalars, int given
) except -1:
    """Check the arrays' sizes and insert them between the `given` scalars."""
    cdef mv_misfit misfit
    cdef int32_t status = mv_fill_sizes(sizes, arrays, scalars, given, &misfit)
    if status:
        raise size_error(signature, status, misfit.size, misfit.extent, misfit.expected, misfit.got)
    return 0


cdef int check_splittable(
    object signature, const mv_spec *spec, const mv_foreign *foreign, mv_desc *const *arrays
) except -1:
    """Raise unless the call may be split over the rows of its arrays."""
    cdef int k
    where = f"{signature.name}(): threads"
    if foreign.gives == MV_GIVES_VALUE:
        raise KernelValueError(f"{where}: a kernel that returns a {signature.result} cannot be split over rows")
    if spec.arrays == 0:
        raise KernelValueError(f"{where}: there is no array to split")
    for k in range(foreign.params):
        if foreign.pass_[k] == MV_PASS_POINTER:
            raise KernelValueError(f"{where}: only kernels that take descriptors can be split over rows")
    for k in range(spec.arrays):
        if arrays[k].ndim < 1 or arrays[k].shape[0] != arrays[0].shape[0]:
            raise ShapeError(f"{where}: expected arrays of the same length to split")
    return 0
