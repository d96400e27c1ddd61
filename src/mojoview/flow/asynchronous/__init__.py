"""Asynchronous calls: executor threads, futures, asyncio and trio.

Must not know pandas. Read `_executor` (threads and queue) with `parker.h` (where a thread waits), then the backends:
`futures` (`Kernel.submit`), `asyncio_backend` (`Kernel.aio`) and `trio_backend`.
"""
