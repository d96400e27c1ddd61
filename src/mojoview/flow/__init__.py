"""Calls that run while the program goes on: `Kernel.submit()` and `Kernel.aio()`.

Must not know pandas. `asynchronous/` holds the executor and the backends for asyncio and trio.
"""
