"""`safe_call`: the levels of safety, and which of them runs where."""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import index
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mojoview.safety._arguments import kernel_of, take_apart
from mojoview.calls import Kernel
from mojoview.memory.errors import ArgumentError
from mojoview.memory.check import seconds_of

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

    Calls a kernel so that what it does wrong is an exception, and the arrays are as they were.

    Parameters
    ----------
    kernel : Kernel, KernelFamily or BoundKernel
        In a worker process: a built-in one, or one whose code lies in a library file, as those of `load()` do.
    *args, **options
        As the kernel takes them. Borrowed for the call.
    timeout : float, optional
        Seconds that the kernel may run; waiting for a free worker may take as long again. Isolates.
    memory_limit : int, optional
        Bytes that the kernel may allocate; the arrays do not count. Isolates.
    safety : {"standard", "strict"}
        "standard": all checks of a call. "strict" as well: nobody in the book of borrows has the memory (see
        `borrow_check`); the kernel works on copies between guards, and outputs are copied back only when it wrote
        nothing else, inputs included.
    isolate : bool, optional
        Whether the kernel runs in a worker process, on copies in shared memory: then it can crash or hang without harm.
        By default where `timeout` or `memory_limit` is given.
    finite : {"allow", "raise"}
        With safety="strict": whether NaN and infinities in results are an error.

    Returns
    -------
    object
        What the kernel returns, owned by the caller.

    Raises
    ------
    KernelTimeout
        It did not finish in time, and was ended.
    KernelMemoryError
        It was refused memory, and said so or died of it.
    KernelCrashed
        It ended its worker process; signal, stack and what it printed are in the exception.
    GuardError, NonFiniteError, BorrowError
        What safety="strict" found.
    ArgumentError
        An argument of safe_call is unusable, or the kernel cannot be carried to a worker process.
    MojoViewError
        Whatever the call itself raises.

    Notes
    -----
    After any failure of an isolated or strict call the arrays hold what they held before it. In a standard call in
    this process a kernel that reports failure may have written to its outputs. In a strict isolated call an access
    beyond the end of an array, also a read, is a KernelCrashed that names the argument; in this process only writes are
    noticed.

    Thread safety: any thread; each isolated call has a worker of its own, and waits where all are busy (as many as the
    process has CPUs, two at least; MOJOVIEW_WORKERS says otherwise). Ctrl-C ends the worker at once.

    Examples
    --------
    >>> import numpy as np, mojoview as mv
    >>> mv.safe_call(mv.kernels.sum, np.arange(4.0), timeout=30)
    6.0
    """
    if type(kernel) is not Kernel:
        kernel = kernel_of(kernel, args, options)
    if not isinstance(kernel, Kernel) or kernel.signature is None:  # None: what Kernel.__new__() alone makes
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
        with take_apart(kernel, args, options, strict) as call:
            return run_isolated(call, seconds, limit, strict, finite == "raise")
    if strict:
        from mojoview.safety.strict import run_guarded

        with take_apart(kernel, args, options, strict) as call:
            return run_guarded(call, finite == "raise")
    return kernel(*args, **options)


def _bytes_of(memory_limit: Any, where: str) -> int:
    try:
        number = -1 if isinstance(memory_limit, bool | np.bool_) else index(memory_limit)
    except TypeError:
        number = -1
    if not 0 <= number < 2**62:
        raise ArgumentError(f"{where}: memory_limit: expected a number of bytes, got {memory_limit!r}")
    return number


@functools.cache  # an import statement takes as long as much of the call
def _isolated() -> Callable[..., Any]:
    from mojoview.safety.workers._isolated_call import run_isolated

    return run_isolated
