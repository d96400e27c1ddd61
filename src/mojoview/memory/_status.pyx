"""Status codes of kernels, and the exception and message of each. `calls/errors.py` adds the arguments of the call."""

from mojoview.memory.abi cimport (
    MV_E_ABI, MV_E_ALIGN, MV_E_DEVICE, MV_E_DIVIDE, MV_E_DTYPE, MV_E_EMPTY, MV_E_INDEX, MV_E_MASK, MV_E_MEMORY,
    MV_E_NDIM, MV_E_NULL, MV_E_OVERFLOW, MV_E_OVERLAP, MV_E_READONLY, MV_E_SHAPE, MV_E_STRIDE, MV_E_USER, MV_E_VALUE,
    MV_MAX_NDIM,
)

from mojoview.memory import errors

# Constants of `abi.h` that Python code needs.
E_NDIM, E_DTYPE, E_SHAPE, E_STRIDE, E_ALIGN = MV_E_NDIM, MV_E_DTYPE, MV_E_SHAPE, MV_E_STRIDE, MV_E_ALIGN
E_READONLY, E_MASK, E_DEVICE, E_OVERLAP, E_EMPTY = MV_E_READONLY, MV_E_MASK, MV_E_DEVICE, MV_E_OVERLAP, MV_E_EMPTY
E_USER = MV_E_USER  # the first code of a kernel author's own
MAX_NDIM = MV_MAX_NDIM

# The exception and the message of each code. Kernel authors see the same names in `abi.h` and in the Mojo package.
STATUS = {
    MV_E_NULL: (errors.KernelError, "a NULL pointer where an array was expected"),
    MV_E_ABI: (errors.KernelError, "a descriptor of another ABI version"),
    MV_E_NDIM: (errors.ShapeError, "the number of dimensions is not what the kernel takes"),
    MV_E_DTYPE: (errors.DTypeError, "the dtype is not what the kernel takes"),
    MV_E_SHAPE: (errors.ShapeError, "the sizes of the arguments do not agree"),
    MV_E_STRIDE: (errors.LayoutError, "the strides are not what the kernel takes"),
    MV_E_ALIGN: (errors.AlignmentError, "an address is not aligned for the dtype"),
    MV_E_READONLY: (errors.ReadOnlyError, "an output is read-only"),
    MV_E_MASK: (errors.MaskError, "the mask is not what the kernel takes"),
    MV_E_DEVICE: (errors.DeviceError, "the memory is on a device that this kernel cannot reach"),
    MV_E_OVERLAP: (errors.OverlapError, "an output overlaps another argument"),
    MV_E_MEMORY: (errors.KernelMemoryError, "out of memory"),
    MV_E_OVERFLOW: (errors.KernelOverflowError, "a value does not fit the result type"),
    MV_E_VALUE: (errors.KernelValueError, "a value is not one that the kernel takes"),
    MV_E_INDEX: (errors.KernelIndexError, "an index is out of range"),
    MV_E_DIVIDE: (errors.KernelDivisionError, "division by zero"),
    MV_E_EMPTY: (errors.KernelValueError, "the result of zero elements is not defined"),
}


def error_for_status(int code, str operation, index=None):
    """error_for_status(code, operation, index=None)

    Return the exception of a status code.

    Parameters
    ----------
    code : int
        Status code of `abi.h`; 64 to 255 are the kernel author's own.
    operation : str
        The operation that failed; begins the message.
    index : int, optional
        Element at which it failed.

    Returns
    -------
    MojoViewError
        Not raised: the caller raises it.

    Notes
    -----
    Thread safety: may be called from any thread that holds the GIL.

    Examples
    --------
    >>> error_for_status(5, "kernel saxpy()")
    ShapeError('kernel saxpy(): the sizes of the arguments do not agree')
    """
    kind, words = STATUS.get(code, (errors.KernelError, f"the kernel returned status {code}"))
    message = f"{operation}: {words}" if index is None else f"{operation}: {words}, at element {index}"
    if issubclass(kind, errors.KernelError):
        return kind(message, code=code, index=index)
    return kind(message)
