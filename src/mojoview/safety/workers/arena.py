"""The shared memory of one worker: where the copies of a call's arrays lie, and what lies between them."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from mojoview.sharing.segment import _segment, segments

__all__ = ["Arena", "Array", "Layout", "Place", "Region", "place_arrays"]

PAGE = mmap.PAGESIZE
START = -(-_segment.HEADER_BYTES // PAGE) * PAGE  # the header has the first page
ALIGNMENT = 64
SMALLEST = 1 << 20
FILLER = 0xA5


Array: TypeAlias = np.ndarray[Any, Any]


class Region(Protocol):
    """What the arena holds a copy of: an array, or the mask of one."""

    @property
    def array(self) -> Array: ...
    @property
    def name(self) -> str: ...
    @property
    def writes(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where a copy lies, in bytes from the start of the file; `low` and `high` bound what is reserved for it."""

    start: int
    end: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Places of all copies, and how much memory they take.

    Attributes
    ----------
    places : tuple of Place
    nbytes : int
        From the start of the file.
    pages : tuple of (int, int, bool)
        With guards: start and length of the pages of each copy, and whether they may be written. All others are closed.
    """

    places: tuple[Place, ...]
    nbytes: int
    pages: tuple[tuple[int, int, bool], ...]


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def place_arrays(regions: Sequence[Region], guards: bool) -> Layout:
    """Side by side on cache lines; with `guards` each ends with its last page, between pages that nobody may touch."""
    places, pages, at = [], [], START
    for region in regions:
        nbytes = region.array.nbytes
        if not guards:
            places.append(Place(at, at + nbytes, at, at + nbytes))
            at += _up(nbytes, ALIGNMENT)
            continue
        low = at + PAGE
        high = low + _up(nbytes, PAGE)
        places.append(Place(high - nbytes, high, low, high))
        if nbytes:
            pages.append((low, high - low, region.writes))
        at = high
    return Layout(tuple(places), at + (PAGE if guards else 0), tuple(pages))


class Arena:
    """Anonymous shared memory that a worker maps too.

    Parameters
    ----------
    nbytes : int
        From the start of the file.

    Raises
    ------
    ShmFullError
        There is no room.
    """

    def __init__(self, nbytes: int):
        payload = max(SMALLEST, 1 << (nbytes - 1).bit_length()) - _segment.HEADER_BYTES
        self.segment = segments.commit_segment(
            segments.create_segment(_segment.ARRAY, payload, dtype="u1", shape=(payload,))
        )
        self.nbytes = _segment.HEADER_BYTES + payload
        self.memory = mmap.mmap(self.segment.fileno(), self.nbytes)

    def window(self, place: Place, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The copy's memory as an array of the same shape, dtype and order. Borrows the mapping."""
        return np.ndarray(array.shape, array.dtype, self.memory, place.start, order="F" if is_fortran(array) else "C")

    def slack(self, place: Place) -> np.ndarray[Any, Any]:
        """The bytes between the first page's start and the copy: no page guards them, a pattern does."""
        return np.frombuffer(self.memory, np.uint8, place.start - place.low, place.low)

    def close(self) -> None:
        """Gives the memory back, as soon as no array is left that borrows it."""
        segments.close_segment(self.segment)
        del self.memory


def is_fortran(array: np.ndarray[Any, Any]) -> bool:
    return bool(array.flags.f_contiguous and not array.flags.c_contiguous)
