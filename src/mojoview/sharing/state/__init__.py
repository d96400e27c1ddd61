"""`State`: a small record with one writer and many readers.

In reading order: `latch.h` (the algorithm), `latch.pxd` (its declarations), `_state.pyx` (the class).

The writer copies its private record into slot n mod K and then stores n in `latest`. A reader copies the slot of
`latest` into private memory and repeats that if the slot was overwritten during the copy. Creation, attachment and
takeover are those of `segment/`; the new writer continues with the next number. Must not know the other kinds.
"""
