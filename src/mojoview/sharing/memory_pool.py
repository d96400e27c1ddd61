"""`Pool`: anonymous memory that is reused, because populating fresh pages costs ten times the copy."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from mojoview.memory._dtype import dtype_info
from mojoview.memory.check import check_int
from mojoview.memory.errors import ClosedError
from mojoview.sharing.arrays import SharedArray
from mojoview.sharing.incoming import array_of, open_object
from mojoview.sharing.segment import _segment, schema, segments
from mojoview.sharing.segment._segment import Segment

__all__ = ["Pool"]


class Pool:
    """Shared arrays in memory whose pages are already populated.

    Close the `SharedArray` to return its memory. The memory is reused once no process has a handle, a view or a
    pickled handle in transit, which locks of the operating system show. Only this process can write to it; the
    operating system enforces that.

    Parameters
    ----------
    limit : int
        Most bytes of idle memory to keep.

    Notes
    -----
    Thread safety: one thread at a time.

    Examples
    --------
    >>> import mojoview as mv, numpy as np
    >>> with mv.Pool() as pool:
    ...     for k in range(3):
    ...         with pool.share(np.full(1000, k)) as shared:
    ...             assert shared.read()[5] == k
    ...     pool.segments
    1
    """

    def __init__(self, limit: int = 1 << 30):
        self.limit = check_int("Pool()", "limit", limit, 0, 2**62)
        self._idle: list[Segment] = []
        self._busy: list[_PooledArray] = []
        self._open = True

    def share(self, obj: Any) -> SharedArray:
        """Share an array like `mojoview.share(obj)`, anonymously, in memory of the pool.

        Returns
        -------
        SharedArray
            Close it to return its memory to the pool.

        Raises
        ------
        ShmFullError, DTypeError, MaskError, ShapeError, ClosedError
        """
        if not self._open:
            raise ClosedError("Pool.share(): the pool was closed")
        array = array_of(open_object(obj, "Pool.share()"), "Pool.share()")
        dtype_info(array.dtype)
        fortran = bool(array.flags.f_contiguous and not array.flags.c_contiguous)
        segment = self._acquire(array, fortran)
        target = segment.view(_segment.HEADER_BYTES, array.shape, array.dtype, writable=True, fortran=fortran)
        np.copyto(np.asarray(target), array)
        segment.recommit()
        shared = _PooledArray(segment.reopen(), segment, self)
        self._busy.append(shared)
        return shared

    def reserve(self, nbytes: int) -> None:
        """Allocate and populate memory for an array of `nbytes` now, so that the first `share()` is fast."""
        if not self._open:
            raise ClosedError("Pool.reserve(): the pool was closed")
        self._idle.append(_new_segment(check_int("Pool.reserve()", "nbytes", nbytes, 0, 2**62)))

    @property
    def segments(self) -> int:
        """Number of segments of the pool, in use or idle."""
        return len(self._idle) + len(self._busy)

    @property
    def idle_bytes(self) -> int:
        """Bytes of idle memory."""
        return sum(_capacity(segment) for segment in self._idle)

    def close(self) -> None:
        """Free idle memory. Arrays in use stay valid, and their memory does not return to the pool."""
        self._open = False
        for segment in self._idle:
            segment.close()
        self._idle.clear()
        self._busy.clear()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _acquire(self, array: np.ndarray[Any, Any], fortran: bool) -> Segment:
        """Return memory for the array, with a header that no process can attach to yet."""
        text = schema.dtype_to_text(array.dtype)
        header = (
            array.nbytes,
            _segment.FORTRAN if fortran else 0,
            text,
            array.itemsize,
            array.shape,
            schema.strides_of(array.shape, array.itemsize, fortran),
            schema.schema_hash(_segment.ARRAY, text, array.shape, fortran, b""),
            os.urandom(16),
        )
        for segment in sorted(self._idle, key=_capacity):
            if _capacity(segment) >= array.nbytes and segment.renew(*header):
                self._idle.remove(segment)
                return segment
        segment = _new_segment(array.nbytes)
        segment.renew(*header)
        return segment

    def _release(self, shared: _PooledArray, segment: Segment) -> None:
        if shared in self._busy:
            self._busy.remove(shared)
        if self._open and self.idle_bytes + _capacity(segment) <= self.limit:
            self._idle.append(segment)  # renew() fails while readers are attached
        else:
            segment.close()


class _PooledArray(SharedArray):
    """A shared array whose memory returns to its pool."""

    def __init__(self, reader: Segment, segment: Segment, pool: Pool):
        super().__init__(reader)
        self._source, self._pool = segment, pool

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._pool._release(self, self._source)


def _capacity(segment: Segment) -> int:
    return int(segment.facts["segment_bytes"]) - _segment.HEADER_BYTES


def _new_segment(nbytes: int) -> Segment:
    segment = segments.create_segment(_segment.ARRAY, nbytes, dtype="u1", shape=(nbytes,))
    segment.prefault(0, _segment.HEADER_BYTES + nbytes)
    segments.commit_segment(segment)
    segment.seal(_segment.SEAL_FUTURE)
    return segment
