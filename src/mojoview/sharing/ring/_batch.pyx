"""Batch and Frame: frames that were read, in the ring's memory (lossless) or copied (lossy)."""

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from mojoview.memory._lease cimport lease_owner
from mojoview.sharing.ring.operations cimport mv_ring_frame
from mojoview.views._view cimport View, make_view

import weakref

import numpy as np

from mojoview.memory.errors import (
    AllocationError, ArgumentError, ExportedError, IndexingError, ReadOnlyError, ReleasedError, ShapeError,
)
from mojoview.memory.extension_points import RECORDS_TO_TABLE, resolve

BYTES = np.dtype("u1")
HEADERS = np.dtype({
    "names": ["position", "seq", "timestamp_ns", "nbytes", "type", "source"],
    "formats": ["u8", "u8", "u8", "u4", "u1", "u2"],
    "offsets": [0, 8, 16, 32, 40, 42], "itemsize": sizeof(mv_ring_frame)})


@cython.final
@cython.freelist(8)
cdef class Batch:
    """Batch()

    Frames returned by one `Ring.read()`, in order. A sequence; false if empty.

    In a lossless ring the frames are in the ring's memory: the producer can reuse it when the batch is released, or
    when the batch and every view on it are dropped. In a lossy ring they are copies.

    Attributes
    ----------
    closed : bool
    headers : numpy.ndarray
        Structured, a copy: position, seq, timestamp_ns, nbytes, type, source.
    records : numpy.ndarray
        All payloads, without a copy if they are evenly spaced: 1-D of the ring's dtype, or 2-D of bytes if they have
        one length.

    Notes
    -----
    Thread safety: any thread may read; one thread releases.

    Examples
    --------
    >>> import mojoview as mv
    >>> with mv.Ring.create() as ring:
    ...     _ = ring.write(b"one"), ring.write(b"two")
    ...     with ring.read() as batch:
    ...         [(frame.seq, bytes(frame)) for frame in batch]
    [(0, b'one'), (1, b'two')]
    """

    def __cinit__(self):
        self.frames = NULL

    def __init__(self):
        raise ArgumentError("Batch() cannot be called: use Ring.read()")

    def __dealloc__(self):
        free(self.frames)

    def __len__(self):
        return self.count

    def __bool__(self):
        return self.count != 0

    def __getitem__(self, key):
        cdef Py_ssize_t k
        try:
            if isinstance(key, slice):
                return [one_frame(self, k) for k in range(*key.indices(self.count))]
            k = range(self.count)[key]
        except IndexError:
            raise IndexingError(f"batch[{key}]: the batch has {self.count} frames") from None
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"batch[{key!r}]: {error}") from None
        return one_frame(self, k)

    def __iter__(self):
        cdef int k
        for k in range(self.count):
            yield one_frame(self, k)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.release()

    def __repr__(self):
        state = "released" if self.lease is None and self.count else "open"
        return f"<mojoview batch: {self.count} frames, {state}>"

    @property
    def closed(self):
        return self.lease is None

    @property
    def headers(self):
        if self.count == 0:
            return np.empty(0, HEADERS)
        return np.frombuffer((<char *>self.frames)[:self.count * sizeof(mv_ring_frame)], HEADERS)

    @property
    def records(self):
        cdef int64_t shape[2]
        cdef int64_t strides[2]
        cdef int64_t step, length
        cdef int k
        dtype = BYTES if self.dtype is None else self.dtype
        if self.count == 0:
            return np.empty(0, dtype) if self.dtype is not None else np.empty([0, 0], dtype)
        held(self)
        length = self.frames[0].length
        step = self.frames[1].payload - self.frames[0].payload if self.count > 1 else length
        for k in range(1, self.count):
            if self.frames[k].length != length:
                if self.dtype is None:
                    raise ShapeError(f"records: frames of {length} and {self.frames[k].length} bytes do not make "
                                     f"one array; read the frames one by one")
                length = -1
                break
            if self.frames[k].payload - self.frames[k - 1].payload != step:
                step = 0
        if step == 0 or (self.dtype is not None and length != dtype.itemsize):
            # Frames on both sides of the ring's end, or several records a frame.
            parts = [np.frombuffer(one_frame(self, k), dtype) for k in range(self.count)]
            return np.concatenate(parts) if self.dtype is not None else np.stack(parts)
        shape[0], shape[1], strides[0], strides[1] = self.count, length, step, 1
        return np.asarray(make_view(self.lease, <void *>self.frames[0].payload, 1 if self.dtype is not None else 2,
                                    shape, strides, dtype, True))

    def to_pandas(self):
        """to_pandas()

        Return the records as a DataFrame, one column per field.

        Returns
        -------
        pandas.DataFrame
            Owns its memory: valid after `release()`.

        Raises
        ------
        ArgumentError
            The ring has no dtype.
        ReleasedError
            The batch was released.
        """
        if self.dtype is None:
            raise ArgumentError("to_pandas(): the ring has no dtype; create it with a structured one")
        return resolve(RECORDS_TO_TABLE)(self.records)

    def release(self):
        """release()

        Release the frames' memory to the producer, and views on it with it. Releasing twice is allowed.

        Raises
        ------
        ExportedError
            An array, a slice of a view or another consumer still uses the memory; nothing was released.

        Notes
        -----
        Thread safety: one thread.
        """
        cdef View view
        cdef Py_ssize_t known = 1
        if self.lease is None:
            return
        views = [reference() for reference in self.views or ()]
        alive = [view for view in views if view is not None and view.desc is not NULL]
        for view in alive:
            known += view._exports == 0 and not view._exposed
        if self.exports or (<PyObject *>self.lease).ob_refcnt != known:
            raise ExportedError("releasing a batch: an array or a slice still uses its frames; delete it, or copy the "
                                "frames first")
        for view in alive:
            view.release()
        self.lease = self.views = None


cdef int held(Batch self) except -1:
    if self is None or self.lease is None:
        raise ReleasedError("the batch was released; use its frames before, or copy them")
    return 0


cdef mv_ring_frame NO_FRAME  # header of frames that Frame.__new__() makes
memset(&NO_FRAME, 0, sizeof(NO_FRAME))


# Frames are short-lived, and freed by reference count.
@cython.final
@cython.freelist(256)
cdef class Frame:
    """Frame()

    One frame: `bytes(frame)` copies it, `frame.view` and `memoryview(frame)` are views in place.

    Attributes
    ----------
    seq : int
        Sequence number, counted by its producer.
    timestamp_ns : int
        When it was written, by the ring's clock.
    type : int
        1, or a number of the user's own from 16 to 255.
    source : int
        Identifies the producer in a ring of several.
    position : int
        In the stream, in bytes.
    nbytes : int
    view : View
        1-D: the ring's records, else bytes. Read-only; valid until the batch is released.
    """

    def __cinit__(self):
        self.info = &NO_FRAME

    def __init__(self):
        raise ArgumentError("Frame() cannot be called: use Ring.read()")

    @property
    def seq(self):
        return info_of(self).seq

    @property
    def timestamp_ns(self):
        return info_of(self).t_ns

    @property
    def type(self):
        return info_of(self).type

    @property
    def source(self):
        return info_of(self).source

    @property
    def position(self):
        return info_of(self).pos

    @property
    def nbytes(self):
        return info_of(self).length

    @property
    def view(self):
        cdef int64_t shape[1]
        cdef int64_t strides[1]
        cdef View view
        cdef Batch batch = self.batch
        held(batch)
        dtype = BYTES if batch.dtype is None else batch.dtype
        strides[0] = dtype.itemsize
        shape[0] = info_of(self).length // strides[0]
        view = make_view(batch.lease, <void *>self.info.payload, 1, shape, strides, dtype, True)
        if batch.views is None:
            batch.views = []
        batch.views.append(weakref.ref(view))
        return view

    def to_pandas(self):
        """to_pandas()

        Return the frame's records as a DataFrame that owns its memory.

        Raises
        ------
        ArgumentError, ReleasedError
            The ring has no dtype; the batch was released.
        """
        held(self.batch)
        if self.batch.dtype is None:
            raise ArgumentError("to_pandas(): the ring has no dtype; create it with a structured one")
        return resolve(RECORDS_TO_TABLE)(np.frombuffer(self, self.batch.dtype))

    def __len__(self):
        return info_of(self).length

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        held(self.batch)
        if flags & PyBUF_WRITABLE:
            raise ReadOnlyError("a frame's buffer is read-only: expected a request without PyBUF_WRITABLE")
        PyBuffer_FillInfo(buffer, self, <void *>self.info.payload, self.info.length, 1, flags)
        self.batch.exports += 1

    def __releasebuffer__(self, Py_buffer *buffer):
        self.batch.exports -= 1

    def __repr__(self):
        return f"<mojoview frame {self.seq}: type {self.type}, {self.nbytes} bytes at {self.position}>"


cdef mv_ring_frame *info_of(Frame self) except NULL:
    if self.info is NULL:
        raise ReleasedError("this frame was not made by Ring.read()")
    return self.info


cdef Batch make_batch(object owner, const mv_ring_frame *frames, int count, object dtype):
    """Return a batch of `count` frames in memory kept alive by `owner`."""
    cdef Batch batch = Batch.__new__(Batch)
    batch.dtype = dtype
    if count:
        batch.frames = <mv_ring_frame *>malloc(count * sizeof(mv_ring_frame))
        if batch.frames is NULL:
            raise AllocationError(f"the headers of {count} frames")
        memcpy(batch.frames, frames, count * sizeof(mv_ring_frame))
        batch.lease = lease_owner(owner)
    batch.count = count
    return batch


cdef int detach(Batch batch) except -1:
    """Move the frames to memory of their own, unless an array, a view or a buffer of a frame uses the ring's."""
    cdef Py_ssize_t nbytes = 0
    cdef int k
    cdef uint8_t *place
    if batch.lease is None or batch.exports or (<PyObject *>batch.lease).ob_refcnt != 1:
        return 0
    for k in range(batch.count):
        nbytes += (batch.frames[k].length + 15) & ~15
    memory = PyBytes_FromStringAndSize(NULL, nbytes)
    place = <uint8_t *>PyBytes_AS_STRING(memory)
    for k in range(batch.count):
        memcpy(place, batch.frames[k].payload, batch.frames[k].length)
        batch.frames[k].payload = place
        place += (batch.frames[k].length + 15) & ~15
    batch.lease = lease_owner(memory)
    return 0


cdef Frame one_frame(Batch batch, int k):
    cdef Frame frame = Frame.__new__(Frame)
    frame.batch = batch
    frame.info = &batch.frames[k]
    return frame
