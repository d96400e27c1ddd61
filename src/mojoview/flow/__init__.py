"""What joins kernels and shared memory: calls in worker processes, and calls that run while the program goes on.

Must not know pandas. `safe` is the door of the isolated calls: a crew of worker processes (`crew`, `worker_process`)
runs kernels on copies of the arrays in shared memory (`arena`), so that a crash ends a worker and not the program;
`autopsy` says of what it died. `asynchronous` runs calls on threads of its own and hands the results to futures and
event loops.
"""

from mojoview.flow.safe import safe_call

__all__ = ["safe_call"]
