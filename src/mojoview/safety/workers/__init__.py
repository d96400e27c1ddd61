"""Worker processes: the pool, one worker, the channel to it, shared memory for arguments, and crash reports."""
