"""How another process finds a kernel: a built-in one by its name, others by the file and the offset of their code."""

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

__all__ = ["Passport", "Reported", "open_kernel", "passport_of"]


@dataclass(frozen=True, slots=True)
class Passport:
    """What crosses to another process in place of a kernel.

    Attributes
    ----------
    name : str
        Of a built-in kernel, where there is no library.
    library : str
        The shared object; "" for built-in kernels.
    file : tuple of int
        Its device and inode: a file that was replaced is another one.
    offset : int
        Of the code, in the file.
    signature : Signature or None
    """

    name: str
    library: str = ""
    file: tuple[int, int] = (0, 0)
    offset: int = 0
    signature: Signature | None = None
    needs: tuple[str, ...] = ()
    """Libraries that it is linked against, where this process has them: they may lie where no search finds them."""
    key: int = 0
    """Its number in the process that issued it."""


@dataclass(frozen=True, slots=True)
class _Mapping:
    low: int
    high: int
    offset: int
    code: bool
    file: tuple[int, int]
    path: str


class Reported(Exception):
    """A status that a kernel returned in a worker process; only the program knows what it stands for.

    Attributes
    ----------
    args : (int, int or None)
        The code, and the failing element.
    """


class Reporter:
    """The `Origin` of kernels in a worker process."""

    def failure(self, signature: Signature, code: int, index: int | None) -> BaseException:
        return Reported(code, index)


_NUMBERS = itertools.count(1)
_KNOWN: WeakKeyDictionary[Kernel, Passport] = WeakKeyDictionary()


def passport_of(kernel: Kernel) -> Passport:
    """The kernel's passport.

    Raises
    ------
    ArgumentError
        It cannot be carried: its code lies in no file, or in one that is gone or was replaced.

    Notes
    -----
    Thread safety: any thread.
    """
    found = _KNOWN.get(kernel)
    if found is None:
        found = _KNOWN[kernel] = _issue(kernel)
    return found


def _issue(kernel: Kernel) -> Passport:
    name = kernel.name
    if BUILTIN.get(name) is kernel:
        return Passport(name, key=next(_NUMBERS))
    where = f"safe_call({name}): the kernel cannot be carried to a worker process"
    if kernel.owner is None:
        raise ArgumentError(f"{where}: it is neither built in nor from a library")
    for size in kernel.signature.sizes:
        if size.value and not size.extents:
            raise ArgumentError(f"{where}: its argument '{size.name}' is an address in this process")
    mappings = list(_mappings())
    mapping = next((m for m in mappings if m.low <= kernel.address < m.high), None)
    if mapping is None or not mapping.code or not mapping.path.startswith("/"):
        raise ArgumentError(
            f"{where}: its code lies in no file (made at run time, or a bare address); load it from a library"
        )
    library = mapping.path
    try:
        status = os.stat(library)
    except OSError:
        status = None
    if status is None or (status.st_dev, status.st_ino) != mapping.file:
        library = library.removesuffix(" (deleted)")
        raise ArgumentError(
            f"{where}: its library {library} was removed or replaced since it was loaded; where no cache can be "
            "written, set MOJOVIEW_CACHE_DIR"
        )
    offset = kernel.address - mapping.low + mapping.offset
    needed = set(read_elf(Path(library)).needed)
    needs = tuple(dict.fromkeys(m.path for m in mappings if os.path.basename(m.path) in needed))
    return Passport(name, library, mapping.file, offset, kernel.signature, needs, next(_NUMBERS))


def open_kernel(passport: Passport) -> Kernel:
    """The kernel that a passport stands for, in this process.

    Raises
    ------
    KernelError
        The library does not load, or is not the one that the passport was made for.
    """
    if not passport.library or passport.signature is None:
        return BUILTIN[passport.name]
    try:
        handle = _loaded(passport)
    except OSError as error:
        raise KernelError(f"{passport.name}: its library does not load in a worker process: {error}") from error
    for mapping in _mappings():
        here = passport.offset - mapping.offset
        if mapping.file == passport.file and mapping.code and 0 <= here < mapping.high - mapping.low:
            return Kernel.from_address(passport.signature, mapping.low + here, owner=handle, origin=Reporter())
    raise KernelError(f"{passport.name}: its library {passport.library} was replaced since it was loaded")


def _loaded(passport: Passport) -> object:
    import ctypes

    with suppress(OSError):
        return ctypes.CDLL(passport.library)
    for path in passport.needs:  # a name that is already loaded is not searched for
        ctypes.CDLL(path)
    return ctypes.CDLL(passport.library)


def _mappings() -> Iterator[_Mapping]:
    """What /proc says of this process's memory."""
    try:
        text = Path("/proc/self/maps").read_text("utf-8", "surrogateescape")
    except OSError:  # no such system
        return
    for line in text.splitlines():
        extent, rights, offset, device, inode, *path = line.split(None, 5)
        low, high = (int(part, 16) for part in extent.split("-"))
        major, minor = (int(part, 16) for part in device.split(":"))
        file = (os.makedev(major, minor), int(inode))
        yield _Mapping(low, high, int(offset, 16), "x" in rights, file, path[0] if path else "")
