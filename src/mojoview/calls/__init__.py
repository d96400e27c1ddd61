"""The checked call: kernels, overload sets, signatures, argument conversion and the thread pool.

Must not know pandas, shared memory or compilers. Reading order: `signature` and `sizes` (what a kernel takes),
`binding` and `arguments` (from a Python call to one object for each parameter), `errors` (every failure as an
exception), `_kernel` (the call), `_compiled_signature` and `_conversion` (the signature and the arguments in C),
`_overloads` and `overloads` (kernels that differ in dtypes), `compare` (results of a kernel and its reference),
`_thread_pool` (threads). The C headers are in `native/`: `fast_path.h`, `checks.h` and `foreign_call.h` (with
`registers.h` and `sizes.h`) are the call, `call_args.h` and `ndarray.h` its structures, `thread_pool.h` and
`parallel.h` the threads.
"""

from mojoview.calls._kernel import Kernel
from mojoview.calls.signature import Param, Signature

__all__ = ["Kernel", "Param", "Signature"]
