"""Kernel references: a built-in kernel by its name, another by the file and the offset of its code."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

from mojoview.calls import Kernel, Signature
from mojoview.compute.catalogue import BUILTIN
from mojoview.loading.elf import read_elf
from mojoview.memory.errors import ArgumentError, KernelError

__all__ = ["KernelReference", "KernelStatus", "open_kernel", "reference_to"]


@dataclass(frozen=True, slots=True)
class KernelReference:
    """A picklable reference to a kernel, for a worker process.

    Attributes
    ----------
    name : str
        Identifies a built-in kernel, which has no library.
    library : str
        The shared object; "" for built-in kernels.
    file : tuple of int
        Device and inode of the library: a replaced file is a different one.
    offset : int
        Of the code, in the file.
    signature : Signature or None
    needs : tuple of str
        Paths of the libraries that it is linked against, as loaded in this process: a search might not find them.
    key : int
        Number of the kernel in the process that made the reference.
    """

    name: str
    library: str = ""
    file: tuple[int, int] = (0, 0)
    offset: int = 0
    signature: Signature | None = None
    needs: tuple[str, ...] = ()
    key: int = 0


@dataclass(frozen=True, slots=True)
class _Mapping:
    start: int
    end: int
    offset: int
    executable: bool
    file: tuple[int, int]
    path: str


class KernelStatus(Exception):
    """A failure status that a kernel returned in a worker process. The parent translates it: it has the ErrorTable.

    Attributes
    ----------
    args : (int, int or None)
        The code, and the failing element.
    """


class StatusForwarder:
    """The `origin` of kernels in a worker process, whose failures are raised as KernelStatus."""

    def failure(self, signature: Signature, code: int, index: int | None) -> BaseException:
        return KernelStatus(code, index)


_KEYS = itertools.count(1)
_REFERENCES: WeakKeyDictionary[Kernel, KernelReference] = WeakKeyDictionary()


def reference_to(kernel: Kernel) -> KernelReference:
    """Return a reference to the kernel, the same one in every call.

    Raises
    ------
    ArgumentError
        A worker process cannot open the kernel: its code is not in a file, or the file was removed or replaced.

    Notes
    -----
    Thread safety: any thread.
    """
    found = _REFERENCES.get(kernel)
    if found is None:
        found = _REFERENCES[kernel] = _make_reference(kernel)
    return found


def _make_reference(kernel: Kernel) -> KernelReference:
    name = kernel.name
    if BUILTIN.get(name) is kernel:
        return KernelReference(name, key=next(_KEYS))
    where = f"safe_call({name}): the kernel cannot be opened in a worker process"
    if kernel.owner is None:
        raise ArgumentError(f"{where}: it is neither built in nor from a library")
    for size in kernel.signature.sizes:
        if size.value and not size.extents:
            raise ArgumentError(f"{where}: its argument '{size.name}' is an address in this process")
    mappings = list(_mappings())
    mapping = next((m for m in mappings if m.start <= kernel.address < m.end), None)
    if mapping is None or not mapping.executable or not mapping.path.startswith("/"):
        raise ArgumentError(
            f"{where}: its code is not in a file (made at run time, or a bare address); load it from a library"
        )
    library = mapping.path
    try:
        status = os.stat(library)
    except OSError:
        status = None
    if status is None or (status.st_dev, status.st_ino) != mapping.file:
        library = library.removesuffix(" (deleted)")
        raise ArgumentError(
            f"{where}: its library {library} was removed or replaced since it was loaded; if no cache can be "
            "written, set MOJOVIEW_CACHE_DIR"
        )
    offset = kernel.address - mapping.start + mapping.offset
    needed = set(read_elf(Path(library)).needed)
    needs = tuple(dict.fromkeys(m.path for m in mappings if os.path.basename(m.path) in needed))
    return KernelReference(name, library, mapping.file, offset, kernel.signature, needs, next(_KEYS))


def open_kernel(reference: KernelReference) -> Kernel:
    """Return the kernel of a reference in this process.

    Raises
    ------
    KernelError
        The library does not load, or is not the one that the reference was made for.
    """
    if not reference.library or reference.signature is None:
        return BUILTIN[reference.name]
    try:
        handle = _load_library(reference)
    except OSError as error:
        raise KernelError(f"{reference.name}: its library does not load in a worker process: {error}") from error
    for mapping in _mappings():
        at = reference.offset - mapping.offset
        if mapping.file == reference.file and mapping.executable and 0 <= at < mapping.end - mapping.start:
            address = mapping.start + at
            return Kernel.from_address(reference.signature, address, owner=handle, origin=StatusForwarder())
    raise KernelError(f"{reference.name}: its library {reference.library} was replaced since it was loaded")


def _load_library(reference: KernelReference) -> object:
    import ctypes

    with suppress(OSError):
        return ctypes.CDLL(reference.library)
    for path in reference.needs:  # the loader does not search for a library that is already loaded
        ctypes.CDLL(path)
    return ctypes.CDLL(reference.library)


def _mappings() -> Iterator[_Mapping]:
    """Yield the memory mappings of this process that /proc lists."""
    try:
        text = Path("/proc/self/maps").read_text("utf-8", "surrogateescape")
    except OSError:  # not Linux
        return
    for line in text.splitlines():
        extent, permissions, offset, device, inode, *path = line.split(None, 5)
        start, end = (int(part, 16) for part in extent.split("-"))
        major, minor = (int(part, 16) for part in device.split(":"))
        file = (os.makedev(major, minor), int(inode))
        yield _Mapping(start, end, int(offset, 16), "x" in permissions, file, path[0] if path else "")
