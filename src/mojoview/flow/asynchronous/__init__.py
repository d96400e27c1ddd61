"""Asynchronous calls: executor threads, futures, asyncio and trio."""
