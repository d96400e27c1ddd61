"""Segments: shared memory with a header; names, lifetime and transfer to other processes.

In reading order: `segment.h` (layout and checks of the header), `platform.h` (system calls), `byte_lock.h` (proof that
a peer is alive), `failpoint.h` (places at which tests kill a process), `_header.pyx` (headers as dicts), `_segment.pyx`
(`Segment`: creation, mapping, ownership), `schema.py` (dtypes in headers), `capacity.py` (checks for free memory),
`naming.py` (names are files), `segments.py` (what other packages call), `transfer.py` (pickling, Unix sockets),
`describe.py` (headers for the command line), `_publication.pyx` (the base of State and Snapshot).

The life of a segment, in `segments.py`: `create_segment()` allocates a file without a name, locks the owner's byte and
writes the header without its magic. The caller fills the payload. `commit_segment()` stores the magic and links the
name. `attach_segment()` opens the name, validates a private copy of the header and maps the memory. `close_segment()`
of the owner marks the segment closed, wakes readers and removes the name. After the owner has exited without closing,
`take_over()` locks its byte, increments `owner_epoch` and registers the name. Must not know what the kinds of segments
hold.
"""
