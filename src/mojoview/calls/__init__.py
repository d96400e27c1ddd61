"""The checked call: `Kernel`, overload sets, signatures, argument conversion and the thread pool.

Must not know pandas, shared memory or compilers. Read `signature`, `binding`, `arguments` and `errors` (what a kernel takes),
then `_kernel` (the call), `_overloads` and `_pool`; the C headers below it know descriptors and nothing of Python.
"""

from mojoview.calls._kernel import Kernel
from mojoview.calls.signature import Param, Signature

__all__ = ["Kernel", "Param", "Signature"]
