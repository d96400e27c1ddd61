"""Calls that survive a faulty kernel: strict calls, calls in worker processes, and canaries.

Must not know pandas. Read `safe_call` (the levels), `_bound_call`, `strict` and `canary`, then `kernel_reference`
(names a kernel for another process) and `workers/`.
"""

from mojoview.safety.safe_call import safe_call

__all__ = ["safe_call"]
