"""The parts of a checked call one by one, for calls whose kernel runs elsewhere or on other memory."""

from mojoview.calls._kernel cimport Kernel, validate_bound, invoke_with_options

from mojoview.calls.binding import kernel_error
from mojoview.memory.errors import ArgumentError


def validate(Kernel kernel not None, tuple own):
    """validate(kernel, own)

    The whole check of a call, without the call.

    Parameters
    ----------
    kernel : Kernel
    own : tuple
        One object for each parameter of the signature. Borrowed for the check.

    Raises
    ------
    MojoViewError
        What the call would raise for these arguments.

    Notes
    -----
    A kernel whose calls go to a Python function checks for itself when it runs. Thread safety: any thread.
    """
    validate_bound(kernel, own)


def invoke_bound(Kernel kernel not None, tuple own, dict options):
    """invoke_bound(kernel, own, options)

    A checked call of a foreign function with arguments as `Plan.prepare` makes them.

    Parameters
    ----------
    kernel : Kernel
        From a library.
    own : tuple
        One object for each parameter of the signature, numbers by reference and the message as arrays. Borrowed.
    options : dict
        `threads`, or nothing.

    Returns
    -------
    object
        The function's own result alone.

    Raises
    ------
    MojoViewError
        What the call raises.

    Notes
    -----
    Thread safety: any thread.
    """
    if kernel.owner is None or len(own) != kernel.compiled.params:
        raise ArgumentError("invoke_bound(): expected a kernel from a library, and one object for each of its parameters")
    return invoke_with_options(kernel, own, options)


def error_of(Kernel kernel not None, int code, index):
    """error_of(kernel, code, index)

    The exception that a status of the kernel stands for; its traceback ends where that of a failing call does.

    Parameters
    ----------
    kernel : Kernel
    code : int
    index : int or None
        The failing element.

    Returns
    -------
    BaseException

    Notes
    -----
    Thread safety: any thread.
    """
    return kernel_error(kernel.signature, code, index) if kernel.origin is None else kernel.origin.failure(kernel.signature, code, index)
