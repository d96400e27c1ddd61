"""Shared memory of one worker: layout of the copies of a call's arrays, and of the guards between them."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from mojoview.sharing.segment import _segment, segments

__all__ = ["Arena", "Array", "ArrayCopy", "Layout", "Placement", "is_fortran", "place_arrays"]

PAGE = mmap.PAGESIZE
START = -(-_segment.HEADER_BYTES // PAGE) * PAGE  # the segment's header has the first page
ALIGNMENT = 64
MIN_BYTES = 1 << 20
GUARD_PATTERN = 0xA5


Array: TypeAlias = np.ndarray[Any, Any]


class ArrayCopy(Protocol):
    """An array, or the mask of one, that the arena holds a copy of."""

    @property
    def array(self) -> Array: ...
    @property
    def name(self) -> str: ...
    @property
    def writes(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Placement:
    """Extent of a copy and of the pages reserved for it, in bytes from the start of the file."""

    start: int
    end: int
    reserved_start: int
    reserved_end: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Placements of all copies of a call.

    Attributes
    ----------
    placements : tuple of Placement
    nbytes : int
        From the start of the file.
    pages : tuple of (int, int, bool)
        With guards: start and length of the pages of each copy, and whether they may be written. All others are
        inaccessible.
    """

    placements: tuple[Placement, ...]
    nbytes: int
    pages: tuple[tuple[int, int, bool], ...]


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step


def place_arrays(copies: Sequence[ArrayCopy], guards: bool) -> Layout:
    """Lay out copies on cache lines, or with `guards` each at the end of its own pages, between inaccessible pages."""
    placements, pages, at = [], [], START
    for copy in copies:
        nbytes = copy.array.nbytes
        if not guards:
            placements.append(Placement(at, at + nbytes, at, at + nbytes))
            at += _round_up(nbytes, ALIGNMENT)
            continue
        start = at + PAGE
        end = start + _round_up(nbytes, PAGE)
        placements.append(Placement(end - nbytes, end, start, end))
        if nbytes:
            pages.append((start, end - start, copy.writes))
        at = end
    return Layout(tuple(placements), at + (PAGE if guards else 0), tuple(pages))


class Arena:
    """Anonymous shared memory that a worker maps too.

    Parameters
    ----------
    nbytes : int
        From the start of the file.

    Raises
    ------
    ShmFullError
        There is not enough memory.
    """

    def __init__(self, nbytes: int):
        payload = max(MIN_BYTES, 1 << (nbytes - 1).bit_length()) - _segment.HEADER_BYTES
        self.segment = segments.commit_segment(
            segments.create_segment(_segment.ARRAY, payload, dtype="u1", shape=(payload,))
        )
        self.nbytes = _segment.HEADER_BYTES + payload
        self.memory = mmap.mmap(self.segment.fileno(), self.nbytes)

    def window(self, placement: Placement, array: Array) -> Array:
        """Return the memory of a copy as an array of the same shape, dtype and order. Borrows the mapping."""
        start = placement.start
        return np.ndarray(array.shape, array.dtype, self.memory, start, order="F" if is_fortran(array) else "C")

    def guard_bytes(self, placement: Placement) -> Array:
        """Return the bytes between the start of the first page and the copy, which no inaccessible page guards."""
        nbytes = placement.start - placement.reserved_start
        return np.frombuffer(self.memory, np.uint8, nbytes, placement.reserved_start)

    def close(self) -> None:
        """Release the memory, as soon as no array borrows it."""
        segments.close_segment(self.segment)
        del self.memory


def is_fortran(array: Array) -> bool:
    return bool(array.flags.f_contiguous and not array.flags.c_contiguous)
