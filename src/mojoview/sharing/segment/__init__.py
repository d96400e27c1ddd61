"""Segments: shared memory with a header; names, lifetime and transfer to other processes.

In reading order: `segment.h` (the header), `platform.h` (system calls), `byte_lock.h` (proof that a peer is alive),
`_header.pyx`, `_segment.pyx` (`Segment`: creation, mapping, ownership), `naming.py` (names are files), `schema.py`
(dtypes in headers), `capacity.py` (room for memory), `segments.py` (the front: create, attach, close), `transfer.py`
(pickling, Unix sockets), `describe.py`, `_publication.pyx` (the base of State and Snapshot), `failpoint.h` (tests kill
here). Must not know what the kinds of segments hold.
"""
