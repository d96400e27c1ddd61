"""Worker processes, for calls that can be killed.

Must not know pandas. Read `_isolated_call`, `worker_pool`, `worker_process`, then the other side: `__main__` and
`worker`. Between them: `_channel` (with the crash handler), `arena`, `kernel_reference`; after a crash: `crash_report`
and `errors`.
"""
