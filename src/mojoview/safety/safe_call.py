"""`safe_call`: the levels of safety, and the choice between this process and a worker."""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import index
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mojoview.calls import Kernel
from mojoview.memory.check import seconds_of
from mojoview.memory.errors import ArgumentError
from mojoview.safety._bound_call import bind_call, resolve_kernel

if TYPE_CHECKING:
    from mojoview.calls._overloads import KernelFamily
    from mojoview.loading.mojo.decorator import BoundKernel

__all__ = ["safe_call"]


def safe_call(
    kernel: Kernel | KernelFamily | BoundKernel[..., Any],
    /,
    *args: Any,
    timeout: float | None = None,
    memory_limit: int | None = None,
    safety: Literal["standard", "strict"] = "standard",
    isolate: bool | None = None,
    finite: Literal["allow", "raise"] = "allow",
    **options: Any,
) -> Any:
    """safe_call(kernel, *args, timeout=None, memory_limit=None, safety="standard", isolate=None, finite="allow", ...)

    Call a kernel so that its faults are exceptions and leave the arrays unchanged.

    Parameters
    ----------
    kernel : Kernel, KernelFamily or BoundKernel
        In a worker process: a built-in kernel, or one whose code is in a library file, as that of `load()` is.
    *args, **options
        As the kernel takes them. Borrowed for the call.
    timeout : float, optional
        Seconds that the call may take, with the wait for a free worker; starting a worker does not count. Isolates.
    memory_limit : int, optional
        Bytes that the kernel may allocate; the arrays do not count. Isolates.
    safety : {"standard", "strict"}
        "standard": all checks of a call. "strict" also requires that no other tracked borrow overlaps the memory (see
        `borrow_check`). The kernel then works on copies between guards, and outputs are copied back only if it wrote
        to nothing else, inputs included.
    isolate : bool, optional
        Whether the kernel runs in a worker process, on copies in shared memory, where a crash or a hang does no harm.
        By default only if `timeout` or `memory_limit` is given.
    finite : {"allow", "raise"}
        With safety="strict": whether NaN and infinities in results are an error.

    Returns
    -------
    object
        Result of the kernel, owned by the caller.

    Raises
    ------
    KernelTimeout
        The kernel did not finish in time and was killed.
    KernelMemoryError
        An allocation failed, and the kernel reported it or crashed.
    KernelCrashed
        The kernel ended its worker process; the exception holds signal, stack and printed output.
    GuardError, NonFiniteError, BorrowError
        A check of safety="strict" failed.
    ArgumentError
        An argument of safe_call is unusable, or a worker process cannot open the kernel.
    MojoViewError
        Whatever the call itself raises.

    Notes
    -----
    After any failure of an isolated or strict call the arrays hold what they held before it. In a standard call in
    this process a kernel that reports a failure may have written to its outputs. In a strict isolated call an access
    beyond the end of an array, including a read, is a KernelCrashed that names the argument; in this process only
    writes are noticed.

    Thread safety: any thread. Each isolated call has a worker of its own and waits if all are busy, first come, first
    served. There are as many workers as the process has CPUs, two at least, unless MOJOVIEW_WORKERS sets their number.
    Ctrl-C ends the worker at once.

    Examples
    --------
    >>> import numpy as np, mojoview as mv
    >>> mv.safe_call(mv.kernels.sum, np.arange(4.0), timeout=30)
    6.0
    """
    if type(kernel) is not Kernel:
        kernel = resolve_kernel(kernel, args, options)
    if not isinstance(kernel, Kernel) or kernel.signature is None:  # None: made by Kernel.__new__() alone
        raise ArgumentError(f"safe_call(): kernel: expected a Kernel, got {type(kernel).__name__}")
    where = f"safe_call({kernel.name})"
    seconds = None if timeout is None else seconds_of(timeout, where, positive=True)
    limit = None if memory_limit is None else _bytes_of(memory_limit, where)
    if not isinstance(safety, str) or safety not in ("standard", "strict"):
        raise ArgumentError(f"{where}: safety: expected 'standard' or 'strict', got {safety!r}")
    if not isinstance(finite, str) or finite not in ("allow", "raise") or (finite == "raise" and safety != "strict"):
        raise ArgumentError(f"{where}: finite: expected 'allow', or 'raise' with safety='strict', got {finite!r}")
    limited = timeout is not None or memory_limit is not None
    if isolate is not None and not isinstance(isolate, bool):
        raise ArgumentError(f"{where}: isolate: expected None, True or False, got {isolate!r}")
    if isolate is False and limited:
        raise ArgumentError(f"{where}: isolate: timeout and memory_limit need a worker process, got isolate=False")
    strict = safety == "strict"
    if isolate or limited:
        run_isolated = _isolated()
        with bind_call(kernel, args, options, strict) as call:
            return run_isolated(call, seconds, limit, strict, finite == "raise")
    if strict:
        from mojoview.safety.strict import run_strict

        with bind_call(kernel, args, options, strict) as call:
            return run_strict(call, finite == "raise")
    return kernel(*args, **options)


def _bytes_of(memory_limit: Any, where: str) -> int:
    try:
        number = -1 if isinstance(memory_limit, bool | np.bool_) else index(memory_limit)
    except TypeError:
        number = -1
    if not 0 <= number < 2**62:
        raise ArgumentError(f"{where}: memory_limit: expected a number of bytes, got {memory_limit!r}")
    return number


@functools.cache  # an import statement would be a large part of the cost of a call
def _isolated() -> Callable[..., Any]:
    from mojoview.safety.workers._isolated_call import run_isolated

    return run_isolated
