"""Asynchronous calls: executor threads, futures, asyncio and trio.

Must not know pandas. Read `_executor` (threads and queue), then who gives it work: `futures` (`Kernel.submit`),
`asyncio_backend` (`Kernel.aio`) and `trio_backend`.
"""
