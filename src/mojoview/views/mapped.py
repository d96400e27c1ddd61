"""Views on mapped files, and the check that a file is still as long as its mapping."""

from __future__ import annotations

import math
import mmap
import os
import stat
from typing import Any

import numpy as np

from mojoview.memory._dtype import as_dtype, dtype_info
from mojoview.memory.errors import AlignmentError, ArgumentError, DTypeError, InterfaceError, MappingError
from mojoview.views._construct import from_region
from mojoview.views._view import View

__all__ = ["check_mapping", "map_file"]


def map_file(
    path: str | os.PathLike[str],
    dtype: Any,
    shape: int | tuple[int, ...] | None = None,
    offset: int = 0,
    writable: bool = False,
) -> View:
    """Open a view on a part of a file, which the system reads page by page on access.

    Parameters
    ----------
    path : path-like
        A regular file that exists.
    dtype : dtype-like
    shape : int or tuple of int, optional
        C order. None takes everything after the offset, in one dimension.
    offset : int
        Bytes before the first element; a multiple of the dtype's alignment.
    writable : bool
        Whether writing changes the file. ``view.owner.flush()`` waits until it is on the disk.

    Returns
    -------
    View
        Owns the mapping: it is closed with the last view on it, and cannot be before.

    Raises
    ------
    InterfaceError
        The file has too few bytes, or they do not divide into items.
    AlignmentError
        The offset is not a multiple of the dtype's alignment.
    MappingError
        The file cannot be opened or mapped; an `OSError` with its `errno`.
    ArgumentError, DTypeError, ShapeError
        Arguments of the wrong type, not a regular file; items that are references or empty; more than 8 dimensions.

    Notes
    -----
    The length is compared with the file's when it is mapped, and again when `view()` opens a `numpy.memmap` or an
    `mmap.mmap`. Nothing protects against truncation afterwards: pages beyond the new end do not exist, and accessing
    them ends the process with SIGBUS. Replace files that others may have mapped (write a new one, then
    `os.replace`) instead of truncating them. Thread safety: any thread.

    Examples
    --------
    >>> import numpy as np, mojoview as mv, os, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "numbers")
    ...     np.arange(10.0).tofile(path)
    ...     with mv.map_file(path, "f8", 3, offset=16) as v:
    ...         np.array(v).tolist()
    [2.0, 3.0, 4.0]
    """
    items = as_dtype(dtype, "map_file")
    dtype_info(items)
    if items.itemsize == 0:
        raise DTypeError(f"map_file: expected items with a size, got dtype {items}")
    start = _whole(offset, "offset")
    if start % items.alignment:
        raise AlignmentError(f"map_file: expected an offset that is a multiple of {items.alignment}, got {start}")
    if type(writable) is not bool:
        raise ArgumentError(f"map_file(writable=...): expected a bool, got {type(writable).__name__}")
    file, name = _opened(path, writable)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise ArgumentError(f"map_file({name!r}): expected a regular file")
        sizes = _sizes(shape, items, start, status.st_size, name)
        length = math.prod(sizes) * items.itemsize
        if start + length > status.st_size:
            raise InterfaceError(
                f"map_file({name!r}): shape {sizes} of {items} at offset {start} needs {start + length} bytes, the "
                f"file holds {status.st_size}"
            )
        if length == 0:  # an empty range cannot be mapped
            empty = bytearray()
            return from_region(empty, empty, 0, sizes, None, items, writable)
        page = start - start % mmap.ALLOCATIONGRANULARITY
        mapping = _map(file, length + start - page, page, writable, name)
    finally:
        os.close(file)
    return from_region(mapping, mapping, start - page, sizes, None, items, writable)


def check_mapping(obj: Any) -> None:
    """Refuse an `mmap.mmap` or `numpy.memmap` whose file was truncated: reading it would end the process.

    Raises
    ------
    InterfaceError
        The file is shorter than its mapping. The offset of a bare `mmap.mmap` is unknown and taken as 0.
    """
    mapping, begin = obj, 0
    if isinstance(obj, np.memmap):
        mapping, offset = obj._mmap, obj.offset  # type: ignore[attr-defined, unused-ignore]
        begin = offset - offset % mmap.ALLOCATIONGRANULARITY if isinstance(offset, int) else 0
    if not isinstance(mapping, mmap.mmap):
        return  # a copy of a memmap, no longer mapped
    try:
        needed, there = begin + len(mapping), mapping.size()
    except (OSError, ValueError):  # an anonymous map; or a closed one, which fails at its buffer
        return
    if there < needed:
        raise InterfaceError(
            f"view({type(obj).__name__}): its file was truncated to {there} bytes, the mapping needs {needed}; "
            "reading beyond would be a SIGBUS"
        )


def _whole(value: Any, what: str) -> int:
    """Return a nonnegative integer; a bool is refused."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = value.__index__()
    except (TypeError, AttributeError):
        raise ArgumentError(f"map_file({what}=...): expected an int, got {type(value).__name__}") from None
    if number < 0:
        raise InterfaceError(f"map_file({what}=...): expected at least 0, got {number}")
    return int(number)


def _sizes(shape: Any, items: np.dtype[Any], start: int, size: int, name: str) -> tuple[int, ...]:
    if shape is not None:
        return tuple(_whole(n, "shape") for n in (shape if isinstance(shape, tuple | list) else (shape,)))
    if start > size or (size - start) % items.itemsize:
        raise InterfaceError(
            f"map_file({name!r}): its {size} bytes from offset {start} on do not divide into items of {items.itemsize}"
        )
    return ((size - start) // items.itemsize,)


def _opened(path: Any, writable: bool) -> tuple[int, str]:
    """Open the file. Without O_NONBLOCK, opening a pipe would wait for its writer."""
    try:
        name = os.fsdecode(path)
        return os.open(name, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC | os.O_NONBLOCK), name
    except OSError as error:
        raise MappingError(error.errno, f"map_file: {error.strerror}", str(path)) from error
    except (TypeError, ValueError) as error:  # not a path, or a zero byte in it
        raise ArgumentError(f"map_file: expected a path, got {type(path).__name__} ({error})") from error


def _map(file: int, length: int, offset: int, writable: bool, name: str) -> mmap.mmap:
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    try:
        return mmap.mmap(file, length, access=access, offset=offset)
    except OSError as error:
        raise MappingError(error.errno, f"map_file: {error.strerror}", name) from error
    except (ValueError, OverflowError) as error:  # the file was truncated since fstat()
        raise InterfaceError(f"map_file({name!r}): {error}") from error
