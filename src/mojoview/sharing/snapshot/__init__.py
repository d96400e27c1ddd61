"""`Snapshot`: large arrays, published whole and pinned by their readers.

In reading order: `slots.h` (the algorithm), `slots.pxd` (its declarations), `_snapshot.pyx` (the class).

The writer fills a slot that is not pinned and then stores the publication's number and slot in one word, `map`. A
reader pins the slot that `map` names and gets a view of it; the writer does not reuse the slot until the view is
released. Creation, attachment and takeover are those of `segment/`. Must not know the other kinds, or the layout of
frames.
"""
