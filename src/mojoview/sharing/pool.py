"""Pools: anonymous memory that is shared again and again, because bringing in fresh pages costs ten times the copy."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from mojoview.memory.check import check_int
from mojoview.memory.errors import ClosedError
from mojoview.sharing.segment import _segment, segments as lifecycle
from mojoview.sharing.segment._segment import Segment
from mojoview.sharing.arrays import SharedArray, as_array

__all__ = ["Pool"]


class Pool:
    """Shares arrays through memory whose pages are already there.

    Close the `SharedArray` to give its memory back. It is used again once no handle, no view and no pickled handle on
    its way is left, in whatever process: the kernel's locks say so. Only this process can write to the memory, which
    the kernel enforces.

    Parameters
    ----------
    limit : int
        Bytes of idle memory that are kept.

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
        """As `mojoview.share(obj)`, anonymous, in memory of the pool.

        Returns
        -------
        SharedArray
            Close it to let the pool have the memory back.

        Raises
        ------
        ShmFullError, DTypeError, MaskError, ShapeError, ClosedError
        """
        if not self._open:
            raise ClosedError("Pool.share(): the pool was closed")
        array = as_array(obj)
        fortran = bool(array.flags.f_contiguous and not array.flags.c_contiguous)
        segment = self._take(array, fortran)
        target = segment.view(_segment.HEADER_BYTES, array.shape, array.dtype, writable=True, fortran=fortran)
        np.copyto(np.asarray(target), array)
        segment.recommit()
        shared = _PooledArray(segment.reopen(), segment, self)
        self._busy.append(shared)
        return shared

    def reserve(self, nbytes: int) -> None:
        """Makes and prefaults memory for an array of `nbytes` now, so that the first `share()` finds it warm."""
        if not self._open:
            raise ClosedError("Pool.reserve(): the pool was closed")
        self._idle.append(_fresh(check_int("Pool.reserve()", "nbytes", nbytes, 0, 2**62)))

    @property
    def segments(self) -> int:
        """How many pieces of memory the pool has, in use or idle."""
        return len(self._idle) + len(self._busy)

    @property
    def idle_bytes(self) -> int:
        return sum(_room(segment) for segment in self._idle)

    def close(self) -> None:
        """Gives idle memory back to the system. Arrays in use stay valid, and are no longer the pool's."""
        self._open = False
        for segment in self._idle:
            segment.close()
        self._idle.clear()
        self._busy.clear()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _take(self, array: np.ndarray[Any, Any], fortran: bool) -> Segment:
        """Memory for the array, with a header that nobody can attach to yet."""
        text = lifecycle.dtype_to_text(array.dtype)
        header = (
            array.nbytes,
            _segment.FORTRAN if fortran else 0,
            text,
            array.itemsize,
            array.shape,
            lifecycle.strides_of(array.shape, array.itemsize, fortran),
            lifecycle.schema_hash(_segment.ARRAY, text, array.shape, fortran, b""),
            os.urandom(16),
        )
        for segment in sorted(self._idle, key=_room):
            if _room(segment) >= array.nbytes and segment.renew(*header):
                self._idle.remove(segment)
                return segment
        segment = _fresh(array.nbytes)
        segment.renew(*header)
        return segment

    def _returned(self, shared: _PooledArray, segment: Segment) -> None:
        if shared in self._busy:
            self._busy.remove(shared)
        if self._open and self.idle_bytes + _room(segment) <= self.limit:
            self._idle.append(segment)  # readers may still be attached: renew() then passes it over
        else:
            segment.close()


class _PooledArray(SharedArray):
    """A shared array whose memory goes back to its pool."""

    def __init__(self, reader: Segment, segment: Segment, pool: Pool):
        super().__init__(reader)
        self._lent, self._pool = segment, pool

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._pool._returned(self, self._lent)


def _room(segment: Segment) -> int:
    return int(segment.facts["segment_bytes"]) - _segment.HEADER_BYTES


def _fresh(nbytes: int) -> Segment:
    segment = lifecycle.create_segment(_segment.ARRAY, nbytes, dtype="u1", shape=(nbytes,))
    segment.prefault(0, _segment.HEADER_BYTES + nbytes)
    lifecycle.commit_segment(segment)
    segment.seal(_segment.SEAL_FUTURE)
    return segment
