"""`Ring`: a stream of messages through a segment.

The C headers, in reading order: `layout.h` has the layout in shared memory, the frame header and its validation;
`spsc.h`, `mpsc.h` and `broadcast.h` are the algorithms of one producer and one reader, of many producers, and of
readers that may be overtaken (also the recorder's); `timestamps.h` and `wait.h` are clocks and waiting; `operations.h`
selects by mode; `eventfd.h` is the descriptor behind `fileno()`.

The classes, in reading order: `_batch` has Batch and Frame, `_handle` the process's end of a ring, `_producer` and
`_consumer` its two sides, `_ring` the calls that `Ring` forwards to them, `ring` makes, finds and closes rings.

Must not know pandas: records become tables through an extension point.
"""
