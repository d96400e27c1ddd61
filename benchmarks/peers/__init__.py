"""Peers that the benchmarks run beside mojoview, and the tables of their figures.

`compare` measures calls in turn and prints ratios. `transport` is the interface of ways between two processes, one file
each: `rings`, `sockets`, `multiprocessing_queues`, `pyzmq`, `faster_fifos`, `iceoryx`; `measure` times them.
"""

from peers.compare import QUICK, Table, compare

__all__ = ["QUICK", "Table", "compare"]
