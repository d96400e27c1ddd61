"""A signature in C: what the checked call reads instead of Python objects."""

from libc.string cimport memset

from mojoview.calls.call_args cimport (
    MV_EQUAL_SHAPES, MV_GIVES_NOTHING, MV_GIVES_STATUS, MV_GIVES_STATUS_INDEX, MV_GIVES_VALUE, MV_INT_REGISTERS, MV_MAX_PARAMS,
    MV_PASS_DESC, MV_PASS_F32, MV_PASS_F64, MV_PASS_INT, MV_PASS_POINTER, MV_RETURN_F32, MV_RETURN_F64, MV_RETURN_INT,
    MV_RETURN_NOTHING, MV_TAKES_MASKS, mv_array_param, mv_foreign, mv_foreign_fits, mv_spec,
)
from mojoview.memory.abi cimport MV_BOOL, MV_FLOAT, MV_INT, MV_UINT

import numpy as np

from mojoview.memory.errors import DTypeError, KernelError, KernelValueError


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


cdef int compile_signature(object signature, mv_signature *form, mv_spec *spec, mv_foreign *foreign) except -1:
    """How arrays and scalars are taken, and how they travel."""
    cdef int k, arrays = 0, values = 0
    cdef mv_array_param *array
    form.common = -1
    if len(signature.params) > MV_MAX_PARAMS:
        raise KernelValueError(f"{signature.name}: expected at most {MV_MAX_PARAMS} parameters, got {len(signature.params)}")
    for k, param in enumerate(signature.params):
        code, bits = number_code(f"{signature.name}: parameter '{param.name}'", param.dtype)
        if param.role != "value":
            if bits == 0 and form.common < 0:
                form.common = arrays
            form.array_at[arrays] = k
            array = &spec.array[arrays]
            memset(array, 0, sizeof(mv_array_param))
            array.code, array.bits = code, bits
            array.ndim = -1 if param.ndim is None else param.ndim
            array.writes = param.writes
            array.contiguous = param.passing == "pointer"
            foreign.pass_[k] = MV_PASS_POINTER if array.contiguous else MV_PASS_DESC
            arrays += 1
        else:
            form.value_code[values], form.value_bits[values] = code, bits
            form.value_at[values] = k
            foreign.pass_[k] = MV_PASS_INT if code != MV_FLOAT else MV_PASS_F64 if bits == 64 else MV_PASS_F32
            values += 1
    if form.common < 0 and any([form.value_bits[k] == 0 for k in range(values)]):
        raise KernelValueError(f"{signature.name}: a scalar of dtype 'T' needs an array of dtype 'T'")
    form.params = foreign.params = len(signature.params)
    spec.arrays = arrays
    form.values = values
    return 0


cdef int compile_result(object signature, mv_signature *form, mv_spec *spec, mv_foreign *foreign) except -1:
    """What a foreign function gives back, and whether it can be called at all."""
    spec.flags = (MV_TAKES_MASKS if signature.masks else 0) | (MV_EQUAL_SHAPES if signature.shapes == "equal" else 0)
    gives = {"none": MV_GIVES_NOTHING, "status": MV_GIVES_STATUS, "status_index": MV_GIVES_STATUS_INDEX}
    foreign.gives = gives.get(signature.result, MV_GIVES_VALUE)
    if foreign.gives == MV_GIVES_VALUE:
        form.return_code, form.return_bits = number_code(f"{signature.name}: result", signature.result)
        if form.return_bits == 0:
            raise DTypeError(f"{signature.name}: result: expected a scalar's dtype, got 'T'")
    float_result = foreign.gives == MV_GIVES_VALUE and form.return_code == MV_FLOAT
    if (float_result and form.return_bits == 16) or any([p.role == "value" and p.dtype in ("float16", "T") for p in signature.params]):
        raise DTypeError(f"{signature.name}: scalars of type float16 or 'T' cannot be passed to a foreign function")
    foreign.returns = (MV_RETURN_NOTHING if foreign.gives == MV_GIVES_NOTHING else MV_RETURN_INT if not float_result
                            else MV_RETURN_F64 if form.return_bits == 64 else MV_RETURN_F32)
    if MV_INT_REGISTERS == 0:
        raise KernelError(f"{signature.name}: foreign functions can be called on x86-64 (System V) and aarch64 (AAPCS64) only")
    if not mv_foreign_fits(foreign):
        raise KernelValueError(f"{signature.name}: more arguments than the calling convention has room for")
    return 0
