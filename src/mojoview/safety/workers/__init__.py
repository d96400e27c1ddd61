"""Worker processes, for calls that can be killed.

Must not know pandas. On the side of the caller read `_isolated_call`, `worker_pool` and `worker_process`; on the side
of the worker `worker_main` and `worker`. Between them are `_channel` (`channel.h`), `arena`, and
`reply` (results and exceptions as bytes). After a crash: the signal handler (`crash.h`, `crash.c`), `crash_report` and
`crash_errors`. Workers preload `malloc_shim.c`.
"""
